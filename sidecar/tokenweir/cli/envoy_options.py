"""What `tokenweir serve` is told of the Envoy beside it, if that follows the policy."""

from __future__ import annotations

import argparse
from pathlib import Path

from tokenweir.cli.listen_address import listen_address
from tokenweir.envoyconf.settings import EnvoySettings

ADMIN_SOCKET = "envoy-admin.sock"
_DEFAULTS = EnvoySettings()
_DESCRIPTION = """\
With --xds-dir the processor keeps there what Envoy follows: `envoy -c DIR/bootstrap.json`.
All workers of a pod get the same of these options.
"""


def add_envoy_options(parser: argparse.ArgumentParser) -> None:
    """Add them, as a group of their own."""
    group = parser.add_argument_group("live configuration of Envoy", _DESCRIPTION)
    group.add_argument(
        "--xds-dir",
        type=Path,
        metavar="DIR",
        help="folder that Envoy sees under the same path, and nobody else",
    )
    group.add_argument(
        "--envoy-listen",
        type=listen_address,
        default=(_DEFAULTS.listen_host, _DEFAULTS.listen_port),
        metavar="HOST:PORT",
        help="where apps connect to (default: 127.0.0.1:4000)",
    )
    group.add_argument(
        "--worker-sockets",
        nargs="+",
        metavar="PATH",
        help="the --socket of each worker (default: this one's)",
    )
    group.add_argument(
        "--envoy-access-log",
        default=_DEFAULTS.access_log_path,
        metavar="FILE",
        help="gets a JSON line for each request (default: %(default)s)",
    )
    group.add_argument(
        "--envoy-ca-file",
        default=_DEFAULTS.ca_file,
        metavar="FILE",
        help="the system's authorities, as Envoy finds them (default: %(default)s)",
    )
    group.add_argument(
        "--envoy-binary",
        type=Path,
        metavar="FILE",
        help="an Envoy that is asked whether it would take a changed policy, before it "
        "is written (default: nobody is asked before)",
    )


def envoy_settings(args: argparse.Namespace) -> EnvoySettings | None:
    """
    Return what Envoy is rendered with; None: it follows nothing.

    Raises: ValueError, if that can't be used.
    """
    if args.xds_dir is None:
        return None
    host, port = args.envoy_listen
    folder = args.xds_dir.absolute()
    sockets = args.worker_sockets or [args.socket]
    return EnvoySettings(
        listen_host=host,
        listen_port=port,
        processor_sockets=tuple(str(Path(each).absolute()) for each in sockets),
        admin_socket=str(folder / ADMIN_SOCKET),
        access_log_path=args.envoy_access_log,
        ca_file=args.envoy_ca_file,
        xds_dir=str(folder),
    )
