"""Parquet files are whole or not there, typed, and have every record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.export.rows import MIDNIGHT_MS, row
from tokenweir.export.jsonl import DEAD_LETTERS, newest
from tokenweir.export.parquet import SCHEMA, ParquetSink, column_of, read_records
from tokenweir.export.record import COLUMNS, BadEntry
from tokenweir.export.sink import SinkUnavailableError, UnreadableExportError

BAD = BadEntry("tw:017", "5-0", "it lacks hold", {"junk": "1"})


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[ParquetSink]:
    """A sink that is open."""
    made = ParquetSink(tmp_path)
    made.open()
    yield made
    made.close()


def test_what_is_written_is_read(sink: ParquetSink, tmp_path: Path) -> None:
    """A record comes back as it was, with what this version has not heard of."""
    rows = [
        row("a", f"{MIDNIGHT_MS + 1}-18", first_token_ms="", new_tokens="7", new="x"),
        row("b", f"{MIDNIGHT_MS + 2}-0", first_token_ms="240", correction=True),
    ]
    assert sink.write(rows, []) == 0

    assert list(read_records(tmp_path)) == [each.as_dict() for each in rows]
    assert sink.place == f"parquet:{tmp_path}"


def test_types(sink: ParquetSink, tmp_path: Path) -> None:
    """Figures are 64-bit integers, times are times, text is text."""
    sink.write([row()], [])
    (path,) = tmp_path.glob("*.parquet")
    schema = pq.read_schema(path)
    assert path.stat().st_mode & 0o007 == 0

    assert schema.equals(SCHEMA)
    assert schema.field("cost_nanousd").type == pa.int64()
    assert schema.field("reserved_at").type == pa.timestamp("ms", tz="UTC")
    assert schema.field("correction").type == pa.bool_()
    assert schema.field("hold").type == pa.string()
    assert schema.names[: len(COLUMNS)] == [column_of(name) for name in COLUMNS]


def test_a_file_for_each_day(sink: ParquetSink, tmp_path: Path) -> None:
    """A batch is one file for each day of its entries; batches never share one."""
    for _ in range(2):
        sink.write([row("a", f"{MIDNIGHT_MS}-0"), row("b", f"{MIDNIGHT_MS - 1}-0")], [])
    days = sorted(path.name[:16] for path in tmp_path.glob("*.parquet"))

    assert days == ["usage-2025-12-31"] * 2 + ["usage-2026-01-01"] * 2
    assert len(list(read_records(tmp_path))) == 4
    assert set(newest(read_records(tmp_path))) == {"a", "b"}


def test_a_killed_writer(sink: ParquetSink, tmp_path: Path) -> None:
    """What was not finished is never read, and removed by the next writer."""
    left = tmp_path / "usage-2026-01-01-x.unfinished"
    left.write_bytes(b"PAR1")
    sink.write([row()], [])
    assert len(list(read_records(tmp_path))) == 1
    sink.open()

    assert not left.exists()


# Writes one record, then another, and hangs before the second file is done.
_HANGS = """
import os, sys, time
from pathlib import Path
from tests.export.rows import row
from tokenweir.export.parquet import ParquetSink

sink = ParquetSink(Path(sys.argv[1]))
sink.open()
sink.write([row("a")], [])

def hang(descriptor):
    print("writing", flush=True)
    time.sleep(3_600)

os.fsync = hang
sink.write([row("b")], [])
"""


def test_killed_in_the_middle_of_a_file(tmp_path: Path) -> None:
    """What is not yet safe has no file's name; the next writer begins with a clean folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(
        [sys.executable, "-c", _HANGS, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
        writer.wait()
    assert len(list(tmp_path.glob("*.unfinished"))) == 1
    assert [found["hold"] for found in read_records(tmp_path)] == ["a"]

    sink = ParquetSink(tmp_path)
    sink.open()
    sink.write([row("b")], [])
    sink.close()
    assert list(tmp_path.glob("*.unfinished")) == []
    assert {found["hold"] for found in read_records(tmp_path)} == {"a", "b"}


def test_a_write_that_fails(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full leaves no file, and may be tried again."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(SinkUnavailableError, match="No space left"):
            sink.write([row()], [])
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    sink.write([row()], [])
    assert len(list(read_records(tmp_path))) == 1


def test_dead_letters(sink: ParquetSink, tmp_path: Path) -> None:
    """What is no record is kept beside the files, as lines."""
    sink.write([], [BAD])

    assert '"it lacks hold"' in (tmp_path / DEAD_LETTERS).read_text()
    assert list(tmp_path.glob("*.parquet")) == []


def test_nothing_to_read(tmp_path: Path) -> None:
    """A folder without files, and a file of another kind, are told of."""
    with pytest.raises(UnreadableExportError, match=r"no usage-\*\.parquet"):
        list(read_records(tmp_path))
    path = tmp_path / "usage-x.parquet"
    path.write_bytes(b"nonsense")
    with pytest.raises(UnreadableExportError, match="is no export"):
        list(read_records(path))
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UnreadableExportError, match="is no export"):
        list(read_records(tmp_path))


def test_an_older_file(tmp_path: Path) -> None:
    """A file that lacks newer columns is read as if they were empty."""
    sink = ParquetSink(tmp_path)
    sink.open()
    sink.write([row("a", first_token_ms="3")], [])
    sink.close()
    (path,) = tmp_path.glob("*.parquet")
    newer = ["policy", "image_input_tokens", "first_token_ms"]
    pq.write_table(pq.read_table(path).drop_columns(newer), path)
    (found,) = read_records(path)

    assert [found[name] for name in newer] == ["", 0, None]
    assert found["model"] == "gpt-4o"
