"""The option that says how Envoy is served."""

from __future__ import annotations

import argparse
import os

from tokenweir.transport.choice import DEFAULT, Transport

VARIABLE = "TOKENWEIR_TRANSPORT"


def add_transport_option(parser: argparse.ArgumentParser) -> None:
    """Add it to *parser*; the environment says what holds where it is not given."""
    parser.add_argument(
        "--transport",
        # argparse reads a default as it reads an argument: with an error, if need be.
        default=os.environ.get(VARIABLE) or DEFAULT.value,
        type=_transport,
        metavar="NAME",
        help=f"how Envoy is served: grpcio, or asyncio, which takes less CPU "
        f"(default: what {VARIABLE} says, else {DEFAULT.value})",
    )


def _transport(text: str) -> Transport:
    try:
        return Transport(text)
    except ValueError:
        names = " or ".join(Transport)
        raise argparse.ArgumentTypeError(
            f"must be {names}, here or in {VARIABLE}"
        ) from None
