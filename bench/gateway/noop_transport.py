"""Tokenweir's own servers, by the name of the transport, for what is no processor."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tokenweir.telemetry.fanout import Fanout
from tokenweir.transport.base import Call, Server

# Modules with a class that ends in Server. By their names, as a build may have one only.
MODULES = {
    "grpcio": "tokenweir.transport.grpc_aio",
    "asyncio": "tokenweir.transport.http2.server",
}
PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"


class Opens(Protocol):
    """Opens a call for each stream."""

    def open(self, metadata: Mapping[str, str]) -> Call | None:
        """See `tokenweir.transport.base.Service`."""


class ExtProc:
    """Envoy's ext_proc, with *calls* behind it."""

    path = PATH
    name = "session"
    refusal = "refused"
    last_word = None

    def __init__(self, calls: Opens) -> None:
        self._calls = calls

    def open(self, metadata: Mapping[str, str]) -> Call | None:
        """See `tokenweir.transport.base.Service`."""
        return self._calls.open(metadata)


def server_of(transport: str, calls: Opens, socket: Path) -> Server:
    """Return the server of *transport*. Raises: ImportError if there is none."""
    module: Any = importlib.import_module(MODULES[transport])
    kind = next(
        each
        for name, each in vars(module).items()
        if name.endswith("Server")
        and getattr(each, "__module__", "") == module.__name__
    )
    server: Server = kind([ExtProc(calls)], socket, Fanout(()))
    return server
