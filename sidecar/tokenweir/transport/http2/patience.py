"""How much a peer may ask of us that leads nowhere."""

from __future__ import annotations

from collections.abc import Callable

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode

# Envoy pings once a second and says little else that is empty; this is some tenths of a
# core's time.
IDLE_FRAMES_PER_SECOND = 20_000


class Patience:
    """Counts frames that carry nothing on: PINGs, SETTINGS, empty and unknown ones."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """*clock* returns seconds that never go back."""
        self._clock = clock
        self._second = 0
        self._count = 0

    def idle_frame(self) -> None:
        """Bear one more. Raises: ConnectionBrokenError."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count > IDLE_FRAMES_PER_SECOND:
            raise ConnectionBrokenError(
                ErrorCode.ENHANCE_YOUR_CALM, "too many idle frames"
            )
