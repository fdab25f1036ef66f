"""`tokenweir usage watch`: what is used at present, again and again."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TextIO

from tokenweir.cli.usage_layout import Screen
from tokenweir.cli.usage_watch_text import (
    Terms,
    json_line,
    line_text,
    screen_text,
    silent_json_line,
    silent_text,
)
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ending import end_tasks
from tokenweir.ledger.live import LiveReader
from tokenweir.ledger.picture import Painter, Picture
from tokenweir.ledger.redis import RedisStore
from tokenweir.telemetry.fanout import Fanout

# The ledger is for those who work: it is looked at in a twentieth of the time at most,
# so that a watcher of a large ledger looks less often.
REST = 19

Look = Callable[[], Coroutine[Any, Any, Picture]]

# A screen of its own and no cursor; and back. From the top, and what is below gone.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


class Display(Protocol):
    """Where pictures go."""

    def show(self, picture: Picture) -> None:
        """Show how the ledger stands."""

    def show_silence(self, at_ms: int, since_ms: int) -> None:
        """Show that the ledger has not answered since then."""

    def leave(self) -> None:
        """Leave everything as it was found."""


class Lines:
    """A line for each picture, for pipes; in JSON, if *as_json*."""

    def __init__(self, stream: TextIO, terms: Terms, *, as_json: bool) -> None:
        self._stream = stream
        self._terms = terms
        self._as_json = as_json

    def show(self, picture: Picture) -> None:
        """See `Display`."""
        as_json = self._as_json
        self._say(json_line(picture, self._terms) if as_json else line_text(picture))

    def show_silence(self, at_ms: int, since_ms: int) -> None:
        """See `Display`."""
        tell = silent_json_line if self._as_json else silent_text
        self._say(tell(at_ms, since_ms))

    def leave(self) -> None:
        """See `Display`."""

    def _say(self, line: str) -> None:
        # Whoever reads a pipe wants each line when it is there.
        print(line, file=self._stream, flush=True)


class FullScreen:
    """
    A screen of its own in a terminal, drawn anew each time.

    Args:
        stream: The terminal.
        terms: What was asked for.
        screen: Returns how large the terminal is now.
    """

    def __init__(
        self, stream: TextIO, terms: Terms, screen: Callable[[], Screen]
    ) -> None:
        self._stream = stream
        self._terms = terms
        self._screen = screen
        self._last = ""
        self._entered = False

    def show(self, picture: Picture) -> None:
        """See `Display`."""
        self._last = screen_text(picture, self._terms, self._screen())
        self._draw(self._last)

    def show_silence(self, at_ms: int, since_ms: int) -> None:
        """See `Display`. The last picture stays below."""
        self._draw(f"{silent_text(at_ms, since_ms)}\n\n{self._last}")

    def leave(self) -> None:
        """See `Display`. The last picture stays on the terminal."""
        if self._entered:
            self._write(f"{_LEAVE}{self._last}\n")

    def _draw(self, text: str) -> None:
        enter = "" if self._entered else _ENTER
        self._entered = True
        rows = shutil.get_terminal_size((80, 24)).lines
        lines = text.split("\n")[: rows - 1]
        drawn = "".join(f"{line}{_LINE_END}\r\n" for line in lines)
        self._write(f"{enter}{_HOME}{drawn}{_REST}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


async def watch(
    look: Look, display: Display, every_seconds: float, stop: asyncio.Event
) -> None:
    """
    Show a picture each time, until *stop* is set.

    A ledger that goes away is asked again and again, and it is shown since when.

    Args:
        look: Returns how the ledger stands.
        display: Where it is shown.
        every_seconds: Between two looks; longer, if looking takes long.
        stop: Set to end it.

    Raises:
        LedgerUnavailableError: There was no first answer.
    """
    silent_since_ms: int | None = None
    answered = False
    while not stop.is_set():
        pause = every_seconds
        began = time.monotonic()
        try:
            picture = await _unless(stop, look)
        except LedgerUnavailableError:
            if not answered:
                raise
            now_ms = int(time.time() * 1_000)
            silent_since_ms = silent_since_ms or now_ms
            display.show_silence(now_ms, silent_since_ms)
        else:
            if picture is None:
                return
            answered, silent_since_ms = True, None
            pause = max(pause, REST * (time.monotonic() - began))
            display.show(picture)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


def run_watch(url: str, terms: Terms, display: Display) -> None:
    """
    Watch the ledger at *url* until Ctrl-C or SIGTERM.

    Raises:
        LedgerUnavailableError: There was no first answer.
    """
    try:
        asyncio.run(_run(url, terms, display))
    finally:
        display.leave()


async def _run(url: str, terms: Terms, display: Display) -> None:
    events = Fanout(())
    store, reader = RedisStore(url, events), LiveReader(url, events)
    painter = Painter(store, reader, terms.by, terms.tenant)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await watch(painter.look, display, terms.every_seconds, stop)
    finally:
        await store.close()
        await reader.close()


async def _unless(stop: asyncio.Event, look: Look) -> Picture | None:
    """Return what *look* returns; None, if *stop* is set before."""
    looking = asyncio.ensure_future(look())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not looking.done():
        await end_tasks(looking)
        return None
    stopping.cancel()
    return looking.result()
