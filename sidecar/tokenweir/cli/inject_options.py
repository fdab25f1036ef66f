"""What `tokenweir inject` and `tokenweir webhook` are told of all pods."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenweir.inject.settings import Settings

_DESCRIPTION = """\
What pods do not say themselves, by annotations tokenweir.io/NAME. The names are in
docs/kubernetes/injection.md, such as policy, ledger-secret, credentials-secret.
"""


def add_inject_options(parser: argparse.ArgumentParser) -> None:
    """Add them, as a group of their own."""
    group = parser.add_argument_group("defaults for all pods", _DESCRIPTION)
    group.add_argument(
        "--image", metavar="REFERENCE", help="the image of both sidecars"
    )
    group.add_argument(
        "--kube-version",
        metavar="VERSION",
        help="of the oldest kubelet; from 1.29 on sidecars are native (default: 1.29)",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any of those options, as in --set policy=ledger; may be repeated",
    )
    group.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="NAME",
        help="an option that no pod may choose for itself, as in --fix tenant --fix "
        "image; may be repeated",
    )
    group.add_argument(
        "--governance-key",
        metavar="WHERE",
        help="file:PATH or env:NAME of the public keys of those who may publish; "
        "sidecars get their text. A policy in the ledger needs it",
    )


def inject_settings(args: argparse.Namespace) -> Settings:
    """Return the settings. Raises: TokenweirError, saying what to do."""
    from tokenweir.inject.options import OptionError, settings_with  # noqa: PLC0415
    from tokenweir.inject.settings import Settings  # noqa: PLC0415

    given: dict[str, str] = {}
    for pair in args.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError([f"--set {name}: must be NAME=VALUE"])
        given[name] = value
    if args.image is not None:
        given["image"] = args.image
    if args.kube_version is not None:
        given["kube-version"] = args.kube_version
    settings = settings_with(Settings(), given)
    settings = replace(settings, fixed=_fixed(args.fix))
    if args.governance_key is not None:
        settings = replace(settings, governance_key=_public_text(args.governance_key))
    elif settings.policy is None:
        raise OptionError(["policy: ledger needs --governance-key"])
    return settings


def _fixed(given: list[str]) -> frozenset[str]:
    from tokenweir.inject.options import BY_NAME, OptionError  # noqa: PLC0415

    unknown = sorted(set(given) - BY_NAME.keys())
    if unknown:
        raise OptionError(f"--fix {name}: there is no such option" for name in unknown)
    return frozenset(given)


def _public_text(where: str) -> str:
    """Return the keys in *where*, a line each. Raises: TokenweirError."""
    from tokenweir.governance.key_files import (  # noqa: PLC0415 -- slow
        public_keys,
        public_text,
    )

    return "\n".join(public_text(key) for key in public_keys(where, os.environ))
