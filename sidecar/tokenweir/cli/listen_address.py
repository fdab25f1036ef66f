"""Where Envoy listens, as options say it."""

from __future__ import annotations

import argparse
import ipaddress

from tokenweir.cli.numbers import MAX_PORT


def listen_address(text: str) -> tuple[str, int]:
    """
    Read HOST:PORT; Envoy listens on addresses, not on names.

    Raises: argparse.ArgumentTypeError.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "HOST must be an IP address, as in 127.0.0.1:4000"
        ) from None
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            "PORT must be a TCP port, as in 127.0.0.1:4000"
        )
    return host, int(port)
