"""`tokenweir render`: Envoy's configuration for a policy."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.envoy_options import ADMIN_SOCKET
from tokenweir.cli.listen_address import listen_address
from tokenweir.cli.problems import tell
from tokenweir.core.errors import PolicyError
from tokenweir.envoyconf.settings import EnvoySettings

if TYPE_CHECKING:
    from tokenweir.core.policy import Policy

_DESCRIPTION = """\
Print the configuration with which Envoy serves a policy.

It holds no secret: credentials go to Envoy with each request, from the processor.
It changes with the providers, timeout classes, retries and the body limit of the
policy, so render it again when one of them has changed, or let Envoy follow: see
`tokenweir serve --xds-dir`.
"""

_DEFAULTS = EnvoySettings()


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "render",
        help="print Envoy's configuration for a policy",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "policy", type=pathlib.Path, metavar="POLICY", help="the policy, YAML"
    )
    parser.add_argument(
        "--listen",
        type=listen_address,
        default=(_DEFAULTS.listen_host, _DEFAULTS.listen_port),
        metavar="HOST:PORT",
        help="where apps connect to (default: 127.0.0.1:4000)",
    )
    parser.add_argument(
        "--processor-socket",
        nargs="+",
        action="extend",
        metavar="PATH",
        help="unix sockets of `tokenweir serve`, one for each worker; put POLICY first "
        f"(default: {_DEFAULTS.processor_sockets[0]})",
    )
    parser.add_argument(
        "--admin-socket", metavar="PATH", help="unix socket of Envoy's admin interface"
    )
    parser.add_argument(
        "--access-log",
        default=_DEFAULTS.access_log_path,
        metavar="FILE",
        help="gets a JSON line for each request (default: %(default)s)",
    )
    parser.add_argument(
        "--ca-file",
        default=_DEFAULTS.ca_file,
        metavar="FILE",
        help="the system's authorities, as Envoy finds them (default: %(default)s)",
    )
    _add_outputs(parser)
    parser.set_defaults(run=run)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--xds-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="write the files that a running Envoy follows into DIR, in turns that it "
        "can follow; `serve --xds-dir` keeps them up to date",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, metavar="FILE", help="write to FILE, not to stdout"
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="ask the Envoy that is installed here whether it would start with it",
    )


def run(args: argparse.Namespace) -> int:
    """Render, then validate, then write."""
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow
    from tokenweir.envoyconf.bootstrap import render, to_yaml  # noqa: PLC0415 -- slow

    try:
        settings = _settings(args)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    # Envoy gets no secret of the policy, so they need not be at hand.
    try:
        policy = load_policy(args.policy, os.environ, credentials=False)
    except PolicyError as error:
        # To stdout goes a configuration or nothing.
        tell(args.policy, error, sys.stderr, sys.stderr)
        return EXIT_PROBLEMS
    if settings.xds_dir is not None:
        return _keep(args, policy, settings)
    bootstrap = render(policy, settings)
    if args.validate and (problem := _problem_of(bootstrap, settings)):
        print(f"--validate: {problem}", file=sys.stderr)
        return EXIT_PROBLEMS
    return _write(to_yaml(bootstrap), args.out)


def _settings(args: argparse.Namespace) -> EnvoySettings:
    host, port = args.listen
    folder = None if args.xds_dir is None else args.xds_dir.absolute()
    admin_socket = args.admin_socket
    if folder is not None:
        admin_socket = admin_socket or str(folder / ADMIN_SOCKET)
    return EnvoySettings(
        listen_host=host,
        listen_port=port,
        processor_sockets=tuple(args.processor_socket or _DEFAULTS.processor_sockets),
        admin_socket=admin_socket,
        access_log_path=args.access_log,
        ca_file=args.ca_file,
        xds_dir=None if folder is None else str(folder),
    )


def _keep(args: argparse.Namespace, policy: Policy, settings: EnvoySettings) -> int:
    """Write what Envoy follows, unless it refuses it."""
    from tokenweir.envoyconf.live import live_envoy  # noqa: PLC0415 -- slow
    from tokenweir.envoyconf.validate import (  # noqa: PLC0415 -- needs Envoy
        EnvoyMissingError,
        envoy_binary,
    )

    try:
        binary = envoy_binary() if args.validate else None
        live_envoy(settings, binary).begin(policy)
    except EnvoyMissingError as error:
        print(f"--validate: {error}", file=sys.stderr)
        return EXIT_PROBLEMS
    except PolicyError as error:
        tell(args.policy, error, sys.stderr, sys.stderr)
        return EXIT_PROBLEMS
    except OSError as error:
        why = (error.strerror or "it takes too long").lower()
        print(f"--xds-dir: {error.filename or args.xds_dir}: {why}.", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_FINE


def _problem_of(bootstrap: dict[str, object], settings: EnvoySettings) -> str | None:
    from tokenweir.envoyconf.validate import (  # noqa: PLC0415 -- needs Envoy
        EnvoyMissingError,
        problem_of,
    )

    try:
        problem = problem_of(bootstrap)
    except EnvoyMissingError as error:
        return str(error)
    except TimeoutError:
        return "Envoy has not answered within a minute; try again, or leave it out."
    if problem is None:
        return None
    text = f"Envoy would not start with it: {problem}"
    if not pathlib.Path(settings.ca_file).is_file():
        text += (
            f"\nThere is no {settings.ca_file}. --ca-file names this system's bundle "
            "of authorities, often /etc/ssl/certs/ca-certificates.crt."
        )
    return text


def _write(text: str, file: pathlib.Path | None) -> int:
    if file is None:
        print(text, end="")
        return EXIT_FINE
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        print(
            f"--out: {file} can't be written: {why}. Name a file in a folder that is "
            "there and that this user may write to.",
            file=sys.stderr,
        )
        return EXIT_USAGE
    return EXIT_FINE
