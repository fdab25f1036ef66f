"""Files of JSON lines have every record, and tell which of two is right."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.rows import MIDNIGHT_MS, record, row
from tokenweir.export import jsonl
from tokenweir.export.jsonl import (
    DEAD_LETTERS,
    JsonlSink,
    current_records,
    file_of,
    read_records,
)
from tokenweir.export.record import BadEntry
from tokenweir.export.sink import SinkUnavailableError, UnreadableExportError

BAD = BadEntry("tw:017", "5-0", "it lacks hold", {"junk": "1"})


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[JsonlSink]:
    """A sink that is open."""
    made = JsonlSink(tmp_path)
    made.open()
    yield made
    made.close()


def test_a_line(sink: JsonlSink, tmp_path: Path) -> None:
    """A line is a record with numbers, its tag and its entry."""
    made = row(first_token_ms="")
    sink.write([made], [])

    (line,) = (tmp_path / "usage-2026-01-01.jsonl").read_text().splitlines()
    assert json.loads(line) == made.as_dict()
    assert '"input_tokens":100,' in line
    assert '"first_token_ms":null,' in line
    assert set(record()) | {"tag", "entry"} == set(json.loads(line))
    assert sink.place == f"jsonl:{tmp_path}"


def test_a_file_for_each_day(sink: JsonlSink, tmp_path: Path) -> None:
    """Records go into the file of their entry's day in UTC, and are read in order."""
    late = row("late", f"{MIDNIGHT_MS}-0")
    early = row("early", f"{MIDNIGHT_MS - 1}-0")
    sink.write([late, early], [])

    assert file_of(early) == "usage-2025-12-31.jsonl"
    assert [found["hold"] for found in read_records(tmp_path)] == ["early", "late"]
    day = tmp_path / "usage-2026-01-01.jsonl"
    assert [found["hold"] for found in read_records(day)] == ["late"]


def test_a_correction_is_right(sink: JsonlSink, tmp_path: Path) -> None:
    """The record with the greatest entry is right, in whatever order lines stand."""
    first = row("a", f"{MIDNIGHT_MS}-9", input_tokens="1")
    correction = row("a", f"{MIDNIGHT_MS}-10", correction=True, input_tokens="2")
    sink.write([correction], [])
    sink.write([first, row("b")], [])

    assert len(list(read_records(tmp_path))) == 3
    found = current_records(tmp_path)
    assert found["a"]["input_tokens"] == 2
    assert found["a"]["correction"] == "1"
    assert set(found) == {"a", "b"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_what_was_settled_stays(
    sink: JsonlSink, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """
    A hold that an older snapshot has brought back is lost once more, and an estimate that
    was given back corrects that: neither is right before what was settled.
    """
    rows = [
        row("a", f"{MIDNIGHT_MS}-1", outcome="lost"),
        row("a", f"{MIDNIGHT_MS}-2", correction=True),
        row("a", f"{MIDNIGHT_MS}-3", outcome="lost"),
        row("a", f"{MIDNIGHT_MS}-4", outcome="lost", correction=True),
    ]
    sink.write([rows[number] for number in order], [])

    assert current_records(tmp_path) == {"a": rows[1].as_dict()}


def test_the_same_again(sink: JsonlSink, tmp_path: Path) -> None:
    """What was written is not written again, by this process or by the next one."""
    rows = [row("a", f"{MIDNIGHT_MS}-0"), row("b", f"{MIDNIGHT_MS}-1")]
    sink.write(rows, [BAD])
    sink.write([*rows, rows[0]], [BAD])
    sink.close()
    again = JsonlSink(tmp_path)
    again.open()
    again.write([*rows, row("c", f"{MIDNIGHT_MS}-2")], [BAD])
    again.close()

    assert [found["hold"] for found in read_records(tmp_path)] == ["a", "b", "c"]
    assert len((tmp_path / DEAD_LETTERS).read_text().splitlines()) == 1


def test_memory_is_bounded(
    sink: JsonlSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written long ago is forgotten, and then written twice."""
    monkeypatch.setattr(jsonl, "REMEMBERED_ENTRIES", 2)
    rows = [row("a", f"{MIDNIGHT_MS}-{number}") for number in range(3)]
    for each in (*rows, rows[2], rows[0]):
        sink.write([each], [])

    assert len(list(read_records(tmp_path))) == 4


def test_dead_letters(sink: JsonlSink, tmp_path: Path) -> None:
    """What is no record is kept beside them, with all that it had."""
    sink.write([], [BAD])

    (line,) = (tmp_path / DEAD_LETTERS).read_text().splitlines()
    assert json.loads(line) == {
        "tag": "tw:017",
        "entry": "5-0",
        "problem": "it lacks hold",
        "fields": {"junk": "1"},
    }


def test_a_killed_writer(sink: JsonlSink, tmp_path: Path) -> None:
    """Half a line is left out when it is read, and cut off by the next writer."""
    sink.write([row("a", f"{MIDNIGHT_MS}-0")], [])
    path = tmp_path / "usage-2026-01-01.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    assert [found["hold"] for found in read_records(tmp_path)] == ["a"]

    sink.write([row("b", f"{MIDNIGHT_MS}-1")], [])
    assert [found["hold"] for found in read_records(tmp_path)] == ["a", "b"]


def test_lines_of_others(sink: JsonlSink, tmp_path: Path) -> None:
    """Lines that are no records stop no writer, and are told to a reader."""
    path = tmp_path / "usage-2026-01-01.jsonl"
    for line in ("{}", "[]", "nonsense", '{"hold":"a","tag":"b","entry":"c"}'):
        path.write_text(f"{line}\n")
        sink.write([], [])
        with pytest.raises(UnreadableExportError, match=r"jsonl:1: is no usage rec"):
            list(read_records(tmp_path))
    JsonlSink(tmp_path).write([row()], [])
    assert path.read_text().count("\n") == 2


def test_nothing_to_read(tmp_path: Path) -> None:
    """A folder without files, and a file that is not there, are told of."""
    with pytest.raises(UnreadableExportError, match=r"no usage-\*\.jsonl"):
        list(read_records(tmp_path))
    with pytest.raises(UnreadableExportError, match="No such file"):
        list(read_records(tmp_path / "none.jsonl"))


def test_a_disk_that_refuses(sink: JsonlSink, tmp_path: Path) -> None:
    """What can't be written is told, and may be tried again."""
    (tmp_path / "usage-2026-01-01.jsonl").mkdir()
    with pytest.raises(SinkUnavailableError, match="Is a directory"):
        sink.write([row()], [])
