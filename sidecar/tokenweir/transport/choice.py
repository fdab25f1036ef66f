"""Which server serves: grpcio's, or ours."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path

from tokenweir.telemetry.hooks import Events
from tokenweir.transport.base import Server, Service


class Transport(enum.StrEnum):
    """By the name that operators give it."""

    GRPCIO = "grpcio"
    ASYNCIO = "asyncio"


DEFAULT = Transport.GRPCIO


def make_server(
    transport: Transport, services: Sequence[Service], socket_path: Path, events: Events
) -> Server:
    """
    Return a server of *services* at *socket_path* that reports faults to *events*.

    Only the one that is chosen is imported: grpcio takes 20 MB, and threads.
    """
    match transport:
        case Transport.GRPCIO:
            from tokenweir.transport.grpc_aio import GrpcAioServer  # noqa: PLC0415

            return GrpcAioServer(services, socket_path, events)
        case Transport.ASYNCIO:
            from tokenweir.transport.http2.server import Http2Server  # noqa: PLC0415

            return Http2Server(services, socket_path, events)
