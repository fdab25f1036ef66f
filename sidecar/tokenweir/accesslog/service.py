"""Envoy's access-log service, as a server serves it."""

from __future__ import annotations

from collections.abc import Mapping

from tokenweir.accesslog.session import FAULT, LogSession
from tokenweir.driver.services import Services


class AccessLogService:
    """A `tokenweir.transport.base.Service`: one call for each of Envoy's workers."""

    path = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"
    name = FAULT
    refusal = ""  # whoever reaches the socket is Envoy
    last_word = b""  # a StreamAccessLogsResponse, which says nothing

    def __init__(self, services: Services) -> None:
        self._services = services

    def open(self, metadata: Mapping[str, str]) -> LogSession:  # noqa: ARG002 - nothing in it counts
        """Return a call for one of Envoy's streams."""
        return LogSession(self._services)
