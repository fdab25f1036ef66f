"""Logs that are followed, and kept short."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tokenweir.stack import log_file
from tokenweir.stack.log_file import LogFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a log will be."""
    return tmp_path / "child.log"


def append(path: Path, text: str) -> None:
    """Do what a child does."""
    with path.open("a") as file:
        file.write(text)


def test_a_log_is_private(path: Path) -> None:
    """Only the owner can read it."""
    LogFile(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_new_lines_are_told(path: Path) -> None:
    """What was there before is not told, and nothing is told twice."""
    path.write_text("old\n")
    log = LogFile(path)
    append(path, "one\ntwo\n")

    assert log.new_lines() == ["one", "two"]
    assert log.new_lines() == []


def test_a_line_is_told_when_it_is_complete(path: Path) -> None:
    """Half a line waits for its other half."""
    log = LogFile(path)
    append(path, "one\nhal")

    assert log.new_lines() == ["one"]
    append(path, "f\n")
    assert log.new_lines() == ["half"]


def test_a_burst_is_told_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call reads more than its share, and no line gets lost."""
    monkeypatch.setattr(log_file, "MAX_READ_BYTES", 10)
    log = LogFile(path)
    append(path, "first\nsecond\nthird\n")

    assert [log.new_lines() for _ in range(4)] == [["first"], ["second"], ["third"], []]


def test_an_endless_line_stops_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is longer than a read is told in parts."""
    monkeypatch.setattr(log_file, "MAX_READ_BYTES", 4)
    log = LogFile(path)
    append(path, "abcdef\n")

    assert [log.new_lines(), log.new_lines()] == [["abcd"], ["ef"]]


def test_a_long_log_is_shortened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all of it was told, a log above the limit begins anew."""
    monkeypatch.setattr(log_file, "MAX_LOG_BYTES", 10)
    log = LogFile(path)
    append(path, "0123456789\n")

    assert log.new_lines() == ["0123456789"]
    assert path.stat().st_size == 0
    append(path, "next\n")
    assert log.new_lines() == ["next"]


def test_who_shortens_a_log_is_noticed(path: Path) -> None:
    """A log that is shorter than what was read is read from its beginning."""
    log = LogFile(path)
    append(path, "a longer line\n")
    log.new_lines()
    path.write_text("new\n")

    assert log.new_lines() == ["new"]


def test_the_tail_is_of_the_present_life(path: Path) -> None:
    """After a mark, what was before it is not shown."""
    log = LogFile(path)
    append(path, "former life\n")
    log.mark()
    append(path, "one\n\ntwo\nthree")

    assert log.tail(9) == ["one", "two", "three"]
    assert log.tail(2) == ["two", "three"]
    assert log.tail(2, unlike="three") == ["one", "two"]


def test_the_tail_of_a_shortened_log_is_what_is_left(path: Path) -> None:
    """A mark beyond the end hides nothing of what came after."""
    append(path, "former life\n")
    log = LogFile(path)
    log.mark()
    path.write_text("")

    assert log.tail(9) == []


def test_bytes_that_are_no_text_are_shown_as_such(path: Path) -> None:
    """A log that is not UTF-8 can be read all the same."""
    log = LogFile(path)
    path.write_bytes(b"\xff\n")

    assert log.new_lines() == ["\ufffd"]
