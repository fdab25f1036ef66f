"""What is told while a stack runs."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from tests.stack.fakes import until
from tokenweir.stack.feed import Feed
from tokenweir.stack.log_file import LogFile
from tokenweir.stack.terminal import Terminal

LOADED = '{"time":"","level":"info","event":"policy_loaded","policy":"abc"}\n'


@pytest.fixture
def logs(tmp_path: Path) -> list[LogFile]:
    """Two logs."""
    return [LogFile(tmp_path / "a"), LogFile(tmp_path / "b")]


@pytest.fixture
def screen() -> io.StringIO:
    """Where it is told."""
    return io.StringIO()


def test_events_of_all_logs_are_told(logs: list[LogFile], screen: io.StringIO) -> None:
    """What is an event is told once, whichever log it is in; the rest is not."""
    feed = Feed(logs, Terminal(screen, {}))
    for log in logs:
        log.path.write_text(f"Traceback\n{LOADED}")

    feed.tell()
    feed.tell()

    assert screen.getvalue() == (
        "--:--:-- policy_loaded policy=abc (in use from now on)\n" * 2
    )


def test_what_was_before_can_be_skipped(
    logs: list[LogFile], screen: io.StringIO
) -> None:
    """What is skipped is not told later."""
    feed = Feed(logs, Terminal(screen, {}))
    logs[0].path.write_text(LOADED)

    feed.skip()
    feed.tell()

    assert screen.getvalue() == ""


async def test_it_ends_with_the_terminal(
    logs: list[LogFile], screen: io.StringIO
) -> None:
    """Lines are told as they come, until nobody can read them."""
    following = asyncio.ensure_future(Feed(logs, Terminal(screen, {})).follow())
    logs[0].path.write_text(LOADED)
    await until(lambda: screen.getvalue() != "")
    assert not following.done()

    screen.close()
    logs[1].path.write_text(LOADED)

    await following
