"""`tokenweir webhook`: sidecars for pods as they are created."""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_USAGE, Subparsers
from tokenweir.cli.inject_options import add_inject_options, inject_settings
from tokenweir.cli.numbers import MAX_PORT, number
from tokenweir.cli.webhook_certificate import add_certificate
from tokenweir.core.errors import TokenweirError

if TYPE_CHECKING:
    from tokenweir.inject.registration import Manifest, Registration
    from tokenweir.inject.settings import Settings

MAX_DRAIN_SECONDS = 600

_DESCRIPTION = """\
Put sidecars into pods as they are created, as `tokenweir inject` does. `serve` is what
the API server asks, `manifests` prints what tells it to, `certificate` makes a pair. It
needs no rights in the cluster. docs/kubernetes/webhook.md tells how it all goes together.
"""
_SERVE = """\
Answer an API server's questions about new pods, over TLS. A changed certificate is used
within seconds. SIGTERM ends it, after a while in which it still answers.
"""
_MANIFESTS = """\
Print what the cluster is told, as YAML: a MutatingWebhookConfiguration, which has it ask
the webhook; a ValidatingAdmissionPolicy, which refuses pods that should have sidecars and
have none; or, instead of a webhook, a MutatingAdmissionPolicy (Kubernetes 1.36).

  tokenweir webhook manifests webhook validating --ca-file ca.crt | kubectl apply -f -
"""
_KINDS = ("webhook", "validating", "mutating")


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "webhook",
        help="put sidecars into pods as Kubernetes creates them",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_serve(actions)
    _add_manifests(actions)
    add_certificate(actions)


def _add_serve(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "serve",
        help="answer an API server",
        description=_SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--cert",
        type=Path,
        required=True,
        metavar="FILE",
        help="certificate, PEM, with those between it and its authority",
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="its private key, PEM"
    )
    parser.add_argument(
        "--listen",
        type=_address,
        default=("0.0.0.0", 8443),  # noqa: S104 -- a Service leads here
        metavar="HOST:PORT",
        help="where the API server asks (default: 0.0.0.0:8443)",
    )
    parser.add_argument(
        "--admin",
        type=_address,
        default=("0.0.0.0", 9090),  # noqa: S104 -- the kubelet calls
        metavar="HOST:PORT",
        help="serves /healthz, /readyz and /metrics (default: 0.0.0.0:9090)",
    )
    parser.add_argument(
        "--drain-seconds",
        type=number(0, MAX_DRAIN_SECONDS),
        default=5,
        metavar="S",
        help="how long it answers after SIGTERM (default: %(default)s)",
    )
    add_inject_options(parser)
    parser.set_defaults(run=_serve)


def _add_manifests(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "manifests",
        help="print what the cluster is told",
        description=_MANIFESTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kinds", nargs="+", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS)
    )
    for option, default, text in (
        ("--name", "tokenweir", "of the configurations"),
        ("--namespace", "tokenweir-system", "where Tokenweir is; left out of it all"),
        ("--service", "tokenweir-webhook", "of the webhook"),
    ):
        parser.add_argument(
            option, default=default, metavar="NAME", help=f"{text} (default: {default})"
        )
    authority = parser.add_mutually_exclusive_group()
    authority.add_argument(
        "--ca-file",
        type=Path,
        metavar="FILE",
        help="certificate, PEM, of who vouches for the webhook",
    )
    authority.add_argument(
        "--cert-manager",
        default="",
        metavar="NAMESPACE/NAME",
        help="a Certificate whose authority cert-manager puts in",
    )
    add_inject_options(parser)
    parser.set_defaults(run=_manifests)


def _serve(args: argparse.Namespace) -> int:
    from tokenweir.inject.webhook.life import WebhookSettings, run  # noqa: PLC0415
    from tokenweir.inject.webhook.server import Address  # noqa: PLC0415 -- slow

    defaults = _settings(args)
    if defaults is None:
        return EXIT_USAGE
    settings = WebhookSettings(
        defaults=defaults,
        cert=args.cert,
        key=args.key,
        listen=Address(*args.listen),
        admin=Address(*args.admin),
        drain_seconds=float(args.drain_seconds),
    )
    return run(settings, lambda problem: print(problem, file=sys.stderr))


def _manifests(args: argparse.Namespace) -> int:
    from tokenweir.inject.registration import Registration  # noqa: PLC0415 -- slow
    from tokenweir.inject.yaml_text import written  # noqa: PLC0415 -- slow

    settings = _settings(args)
    if settings is None:
        return EXIT_USAGE
    try:
        authority = args.ca_file.read_bytes() if args.ca_file else b""
    except OSError as error:
        why = (error.strerror or "can't be read").lower()
        print(f"--ca-file: {args.ca_file}: {why}.", file=sys.stderr)
        return EXIT_USAGE
    registration = Registration(
        name=args.name,
        namespace=args.namespace,
        service=args.service,
        ca_bundle=base64.b64encode(authority).decode(),
        cert_manager=args.cert_manager,
    )
    print(written(_made(args.kinds, registration, settings)), end="")
    return EXIT_FINE


def _made(
    kinds: list[str], registration: Registration, settings: Settings
) -> list[Manifest]:
    from tokenweir.inject.mutating_policy import mutating_policy  # noqa: PLC0415
    from tokenweir.inject.registration import (  # noqa: PLC0415 -- slow
        validating_policy,
        webhook_configuration,
    )

    made: list[Manifest] = []
    for kind in dict.fromkeys(kinds):
        if kind == "webhook":
            made.append(webhook_configuration(registration))
        elif kind == "validating":
            made += validating_policy(registration, settings)
        else:
            made += mutating_policy(registration, settings)
    return made


def _settings(args: argparse.Namespace) -> Settings | None:
    """Return the defaults for pods; None, and why is told, if they can't be."""
    try:
        return inject_settings(args)
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), int(port)
