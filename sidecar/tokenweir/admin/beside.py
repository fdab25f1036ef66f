"""
What a kubelet asks of a pod's Envoy, which it can't ask itself.

Envoy's admin interface is a unix socket, and its listener is for the pod only. So the
processor beside it tells whether Envoy is there, and when an app that ends has made its
last call. Both only wait and tell; they change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Of a kubelet's probe, which waits for a second or two.
ANSWER_SECONDS = 1.0
# Between an answer that an app reads and the call that it makes next.
QUIET_SECONDS = 3.0
MAX_QUIET_SECONDS = 3_600.0
# One for each container of a pod that ends, and some that were given up.
MAX_WAITING = 16
_POLL_SECONDS = 0.05
# Envoy answers nothing that is older than HTTP/1.1.
_QUESTION = b"GET /ready HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n"


class Quiet:
    """
    Waits until an app has made no call for a while.

    Args:
        calls: Returns how many are in flight.
        quiet_seconds: How long the while is.
    """

    def __init__(
        self, calls: Callable[[], int], quiet_seconds: float = QUIET_SECONDS
    ) -> None:
        self._calls = calls
        self._quiet_seconds = quiet_seconds
        self._waiting = 0

    async def wait(self, seconds: float) -> bool | None:
        """Tell if it was quiet within *seconds*; None: too many wait already."""
        if self._waiting >= MAX_WAITING:
            return None
        self._waiting += 1
        try:
            async with asyncio.timeout(min(seconds, MAX_QUIET_SECONDS)):
                await self._quiet()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _quiet(self) -> None:
        since: float | None = None
        while since is None or time.monotonic() - since < self._quiet_seconds:
            await asyncio.sleep(_POLL_SECONDS)
            if self._calls():
                since = None
            elif since is None:
                since = time.monotonic()


@dataclass(frozen=True, slots=True)
class Beside:
    """
    Attributes:
        admin: Socket of Envoy's admin interface.
        host: Where apps call.
        port: Ditto.
        quiet: Knows when they have stopped.
    """

    admin: Path
    host: str
    port: int
    quiet: Quiet

    async def is_ready(self) -> bool:
        """Tell if Envoy serves: by its own word, and by its open port."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._says_so() and await self._listens()
        except (OSError, TimeoutError):
            return False

    async def _says_so(self) -> bool:
        reader, writer = await asyncio.open_unix_connection(self.admin)
        try:
            writer.write(_QUESTION)
            await writer.drain()
            status = await reader.readline()
        except ValueError:  # a line without end
            return False
        finally:
            await _close(writer)
        return status.split()[1:2] == [b"200"]

    async def _listens(self) -> bool:
        _, writer = await asyncio.open_connection(self.host, self.port)
        await _close(writer)
        return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
