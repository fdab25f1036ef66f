"""
One stream of Envoy's access log: messages come in, nothing goes out.

Envoy opens one for each of its worker threads and keeps it. What it tells is at most once:
a message that was on its way when the stream broke is lost. See docs/response-paths.md.
"""

from __future__ import annotations

from tokenweir.accesslog.codec import decode
from tokenweir.driver.native import NativeDriver
from tokenweir.driver.services import Services

FAULT = "access_log"


class LogSession:
    """Takes the messages of one stream. No entry of it, however broken, ends it."""

    def __init__(self, services: Services) -> None:
        self._driver = NativeDriver(services)
        self._services = services

    @property
    def finished(self) -> bool:
        """Never: Envoy keeps the stream for as long as it lives."""
        return False

    def receive(self, message: bytes) -> None:
        """Take one message, with however many entries."""
        decoded = decode(message)
        for fault in decoded.faults:
            self._services.events.fault(FAULT, fault)
        for passage in decoded.passages:
            self._driver.take(passage)
        for request_id in decoded.never_left:
            self._driver.never_left(request_id)

    def closed(self) -> None:
        """Envoy has left, or has gone to another worker: nothing hangs on the stream."""
