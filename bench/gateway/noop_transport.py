"""Tokenweir's own servers, by the name of the transport, for what is no processor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tokenweir.telemetry.fanout import Fanout
from tokenweir.transport.base import Call, Server
from tokenweir.transport.choice import Transport, make_server

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
    """Return the server of *transport*. Raises: ValueError if there is none."""
    return make_server(Transport(transport), [ExtProc(calls)], socket, Fanout(()))
