"""Envoy's ext_proc as a service: a session for each stream, by the role it tells."""

from __future__ import annotations

from collections.abc import Mapping

from tokenweir.extproc.session import (
    RENDERED_HEADER,
    ROLE_HEADER,
    Sessions,
)
from tokenweir.transport.base import Call

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


class ExternalProcessor:
    """Opens *sessions* for streams. See `tokenweir.transport.base.Service`."""

    path = f"/{SERVICE}/Process"
    name = "session"
    refusal = f"{ROLE_HEADER} is missing"
    last_word = None

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def open(self, metadata: Mapping[str, str]) -> Call | None:
        """Return a session for the role that *metadata* tells, or None."""
        return self._sessions.open(
            metadata.get(ROLE_HEADER, ""), metadata.get(RENDERED_HEADER, "")
        )
