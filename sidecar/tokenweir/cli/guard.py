"""`tokenweir guard`: the rules of a pod's network, for transparent mode."""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import time

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.numbers import number, port

MAX_GROUP = 2**31 - 1
PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 1.0
_PROGRAMS = {
    socket.AF_INET: "iptables-restore",
    socket.AF_INET6: "ip6tables-restore",
}
_DESCRIPTION = """\
Put rules into the network of this pod: plain HTTP to a HOST goes to Envoy, TLS to it is
refused, unless it is from our own containers. It is what the init container runs that
the annotation `transparent` makes (docs/kubernetes/injection.md), and needs NET_ADMIN.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "guard",
        help="send a pod's calls of providers through Envoy, and stop others",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=port, required=True, help="where Envoy listens, on 127.0.0.1"
    )
    parser.add_argument(
        "--group",
        type=number(1, MAX_GROUP),
        required=True,
        metavar="GID",
        help="of those that may pass",
    )
    parser.add_argument(
        "hosts",
        nargs="+",
        metavar="HOST[:PORT]",
        help="a provider by its name; with a port: a server of plain HTTP",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Put them there."""
    from tokenweir.inject.guard import guarded_hosts, rules  # noqa: PLC0415 -- slow

    try:
        hosts = guarded_hosts(",".join(args.hosts))
    except ValueError as error:
        print(f"HOST: {error}.", file=sys.stderr)
        return EXIT_USAGE
    found = _addresses(hosts)
    unknown = [host for host in hosts if ":" in host and not any(found[host])]
    if unknown:
        print(
            f"{', '.join(unknown)}: has no address. Is there such a Service?",
            file=sys.stderr,
        )
        return EXIT_PROBLEMS
    for family, program in _PROGRAMS.items():
        ipv6 = family == socket.AF_INET6
        addresses = {host: pair[ipv6] for host, pair in found.items()}
        problem = _restore(program, rules(addresses, args.port, args.group, ipv6=ipv6))
        if problem is not None:
            print(f"{program}: {problem}", file=sys.stderr)
            return EXIT_PROBLEMS
    print(f"guards {', '.join(hosts)}")
    return EXIT_FINE


def _addresses(hosts: tuple[str, ...]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the addresses of each of *hosts*, of both families; of none it waits."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found = {}
    for host in hosts:
        name = host.partition(":")[0]
        while not any(pair := (_of(name, socket.AF_INET), _of(name, socket.AF_INET6))):
            # A provider that has no address can't be called either.
            if ":" not in host or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_SECONDS)
        found[host] = pair
    return found


def _of(name: str, family: socket.AddressFamily) -> list[str]:
    try:
        answers = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(answer[4][0]) for answer in answers})


def _restore(program: str, text: str) -> str | None:
    """Put the rules *text* in force at once; return what is wrong."""
    path = shutil.which(program)
    if path is None:
        return "is not there; Debian's package iptables has it"
    done = subprocess.run(  # noqa: S603 -- of the image, and no shell
        [path, "--noflush"], input=text, capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else done.stderr.strip() or "failed"
