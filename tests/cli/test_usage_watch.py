from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers import Server, start_valkey
from tokenweir.cli.usage_bars import BLOCKS
from tokenweir.cli.usage_layout import Screen
from tokenweir.cli.usage_watch import FullScreen, Lines, watch
from tokenweir.cli.usage_watch_text import Terms
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger.picture import Picture

PATIENCE_SECONDS = 60.0
TERMS = Terms(("tenant",), None, 1, 15)
PICTURE = Picture(
    at_ms=1_767_243_753_000,
    hour=490_901,
    minute={("acme",): {"exchanges": 2}},
    minute_is_whole=True,
    this_hour={},
    flying={},
    flying_is_whole=True,
    reserved={},
)


class Story:
    """Looks that end as told, and then stop the watch; also what was shown of them."""

    def __init__(self, *looks: Picture | None) -> None:
        self._looks = list(looks)
        self.shown: list[str] = []
        self.stop = asyncio.Event()

    async def look(self) -> Picture:
        """Return the next picture; None: the ledger is silent."""
        picture = self._looks.pop(0)
        if not self._looks:
            self.stop.set()
            # The watch hears of both at once: a picture that is there is shown.
        if picture is None:
            raise LedgerUnavailableError("no answer")
        return picture

    def show(self, picture: Picture) -> None:
        """See `Display`."""
        self.shown.append(f"at {picture.at_ms}")

    def show_silence(self, at_ms: int, since_ms: int) -> None:
        """See `Display`."""
        assert at_ms >= since_ms
        self.shown.append(f"silent since {since_ms}")

    def leave(self) -> None:
        """See `Display`."""


def at(at_ms: int) -> Picture:
    """Return a picture of then."""
    return replace(PICTURE, at_ms=at_ms)


async def test_an_outage_is_survived() -> None:
    """While there is no answer it is told since when; then pictures go on."""
    story = Story(at(1), None, None, at(2), None, at(3))
    await watch(story.look, story, 0.0, story.stop)
    first, silent, still_silent, second, silent_anew, third = story.shown

    assert [first, second, third] == ["at 1", "at 2", "at 3"]
    assert silent == still_silent
    assert silent.startswith("silent since ")
    assert silent_anew.startswith("silent since ")


async def test_no_first_answer() -> None:
    """Who never answers is no ledger: that is an error, and not waited for."""
    story = Story(None, at(1))
    with pytest.raises(LedgerUnavailableError):
        await watch(story.look, story, 0.0, story.stop)

    assert story.shown == []


async def test_a_look_can_be_broken_off() -> None:
    """Who ends the watch does not wait for a ledger that hangs."""
    story = Story()
    looking = asyncio.Event()

    async def hang() -> Picture:
        looking.set()
        await asyncio.Event().wait()
        raise AssertionError

    watching = asyncio.create_task(watch(hang, story, 0.0, story.stop))
    await looking.wait()
    story.stop.set()
    await asyncio.wait_for(watching, PATIENCE_SECONDS)

    assert story.shown == []


def test_lines() -> None:
    """In a pipe there is a line for each picture, and for each silence."""
    stream = io.StringIO()
    lines = Lines(stream, TERMS, as_json=False)
    lines.show(PICTURE)
    lines.show_silence(2_000, 1_000)
    lines.leave()
    first, second = stream.getvalue().splitlines()

    assert first.startswith("05:02:33 UTC  in flight: 0")
    assert "no answer from the ledger since 00:00:01 UTC" in second
    assert "\x1b" not in stream.getvalue()


def test_json_lines() -> None:
    """Each line is a JSON object, of silences too."""
    stream = io.StringIO()
    lines = Lines(stream, TERMS, as_json=True)
    lines.show(PICTURE)
    lines.show_silence(2_000, 1_000)
    first, second = map(json.loads, stream.getvalue().splitlines())

    assert (first["ledger"], second["ledger"]) == ("ok", "no answer")


def test_full_screen() -> None:
    """The terminal's own screen and its cursor come back, with the last picture."""
    stream = io.StringIO()
    screen = Screen(80, bold=False, cuts_names=True, blocks=BLOCKS)
    full = FullScreen(stream, TERMS, lambda: screen)
    full.show(PICTURE)
    full.show_silence(2_000, 1_000)
    drawn = stream.getvalue()
    full.leave()
    left = stream.getvalue().removeprefix(drawn)

    assert drawn.count("\x1b[?1049h") == 1
    assert drawn.count("\x1b[H") == 2
    assert "no answer from the ledger" in drawn
    # The last picture stays below what is told.
    assert drawn.count("acme") == 2
    assert left.startswith("\x1b[?25h\x1b[?1049l05:02:33 UTC")


def test_a_screen_that_was_never_entered() -> None:
    """Who could not be watched leaves no trace on the terminal."""
    stream = io.StringIO()
    screen = Screen(80, bold=False, cuts_names=True, blocks=BLOCKS)
    FullScreen(stream, TERMS, lambda: screen).leave()

    assert stream.getvalue() == ""


# === the real command =============================================================


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return an empty ledger's server."""
    server = start_valkey(tmp_path)
    yield server
    server.stop()


def command(server: Server, *more: str) -> list[str]:
    """Return the command line of a watch."""
    watched = ["usage", "watch", "--ledger", server.url, "--every", "1", *more]
    return [sys.executable, "-m", "tokenweir", *watched]


def environment() -> dict[str, str]:
    """Return where the package is, and what kind of terminal there is."""
    return {**os.environ, "PYTHONPATH": str(Path("sidecar").resolve()), "TERM": "xterm"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_a_pipe(server: Server, number: signal.Signals) -> None:
    """JSON lines go on through an outage, and end without a word at a signal."""
    process = subprocess.Popen(
        command(server, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ledger"] == "ok"
        server.stop()
        until(process, lambda line: line["ledger"] == "no answer" and line["since"])
        server.restart()
        until(process, lambda line: line["ledger"] == "ok")
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert errors == ""


def until(
    process: subprocess.Popen[str], holds: Callable[[dict[str, str]], object]
) -> None:
    """Read lines until one is as told."""
    assert process.stdout is not None
    for line in process.stdout:
        if holds(json.loads(line)):
            return
    raise AssertionError("it ended")


def test_on_a_terminal(server: Server) -> None:
    """Ctrl-C ends it, and the terminal is as it was."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        command(server),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(),
        start_new_session=True,
    )
    os.close(terminal)
    try:
        shown = read_until(controller, b"since ")
        process.send_signal(signal.SIGINT)
        shown += read_until(controller, b"\x1b[?1049l")
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)

    assert shown.startswith(b"\x1b[?1049h\x1b[?25l\x1b[H")
    assert b"in flight: 0" in shown
    assert b"Traceback" not in shown


def read_until(controller: int, marker: bytes) -> bytes:
    """Read what a terminal is told until *marker* is in it."""
    told = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while marker not in told:
        assert time.monotonic() < deadline, told
        ready, _, _ = select.select([controller], [], [], 1.0)
        if ready:
            told += os.read(controller, 65_536)
    return told


def test_no_ledger(tmp_path: Path) -> None:
    """A ledger that is not there is an error, told without the password."""
    url = f"unix://:CANARY@{tmp_path}/none.sock"
    found = subprocess.run(
        [sys.executable, "-m", "tokenweir", "usage", "watch", "--ledger", url],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert found.returncode == 1
    assert "no answer" in found.stderr
    assert "CANARY" not in found.stdout + found.stderr
