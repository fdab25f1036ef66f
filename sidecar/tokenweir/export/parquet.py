"""
Parquet files: a sink for whatever reads columns.

    <folder>/usage-2026-11-30-<time>-<random>.parquet    records by the day of their entry
    <folder>/dead-letters.jsonl                          entries that are no records

A batch is a file for each day in it; so batches should be large, and wait long. A file
is there whole or not at all: it is written under another name, and renamed. As in the
JSON lines a record may come twice, and of those with one `hold` the one with the
greatest (`outcome <> 'lost'`, `entry_ms`, `entry_seq`) is right.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokenweir.export.folder_lock import FolderLock
from tokenweir.export.jsonl import DEAD_LETTERS, PREFIX
from tokenweir.export.lines_file import MODE, append_lines, sync_folder
from tokenweir.export.record import COLUMNS, OPTIONAL_NUMBERS, BadEntry, Row, is_number
from tokenweir.export.sink import SinkUnavailableError, UnreadableExportError

SUFFIX = ".parquet"
UNFINISHED = ".unfinished"
# Few values, many times: names and words are kept once in a file.
_PLAIN = ("hold", "request_id")


def _field(name: str) -> Any:
    if name == "correction":
        kind = pa.bool_()
    elif name == "reserved_at_ms":
        kind = pa.timestamp("ms", tz="UTC")
    elif is_number(name):
        kind = pa.int64()
    else:
        kind = pa.string() if name in _PLAIN else pa.dictionary(pa.int32(), pa.string())
    return pa.field(column_of(name), kind, nullable=name in OPTIONAL_NUMBERS)


def column_of(name: str) -> str:
    """Return the column that a field of a record is in."""
    return "reserved_at" if name == "reserved_at_ms" else name


SCHEMA = pa.schema(
    [
        *(_field(name) for name in COLUMNS),
        pa.field("tag", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("entry_ms", pa.int64(), nullable=False),
        pa.field("entry_seq", pa.int64(), nullable=False),
        pa.field("extra", pa.string()),
    ]
)


class ParquetSink:
    """A `tokenweir.export.sink.Sink`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FolderLock(folder)

    @property
    def place(self) -> str:
        """See `tokenweir.export.sink.Sink.place`."""
        return f"parquet:{self._folder}"

    def open(self) -> None:
        """See `tokenweir.export.sink.Sink.open`."""
        self._lock.acquire()
        # Nobody else writes here: they are of one that was killed.
        for path in self._folder.glob(f"{PREFIX}*{UNFINISHED}"):
            path.unlink(missing_ok=True)

    def write(self, rows: Sequence[Row], bad: Sequence[BadEntry]) -> int:
        """See `tokenweir.export.sink.Sink.write`."""
        by_day: dict[str, list[Row]] = {}
        for row in rows:
            moment = datetime.fromtimestamp(row.entry.ms / 1_000, tz=UTC)
            by_day.setdefault(f"{moment:%Y-%m-%d}", []).append(row)
        try:
            if bad:
                letters = [json.dumps(entry.as_dict()) for entry in bad]
                append_lines(self._folder / DEAD_LETTERS, letters)
            for day, some in by_day.items():
                self._write_file(day, some)
        except OSError as error:
            raise SinkUnavailableError(error.strerror or type(error).__name__) from None
        return 0

    def close(self) -> None:
        """See `tokenweir.export.sink.Sink.close`."""
        self._lock.release()

    def _write_file(self, day: str, rows: Sequence[Row]) -> None:
        name = f"{PREFIX}{day}-{round(time.time() * 1_000):x}-{secrets.token_hex(4)}"
        path = self._folder / f"{name}{SUFFIX}"
        unfinished = path.with_suffix(UNFINISHED)
        table = pa.Table.from_pylist([_columns(row) for row in rows], schema=SCHEMA)
        try:
            unfinished.touch(mode=MODE)
            with unfinished.open("wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
            sync_folder(self._folder)
        finally:
            unfinished.unlink(missing_ok=True)


def read_records(source: Path) -> Iterator[dict[str, Any]]:
    """
    Return the exported records, as `tokenweir.export.jsonl.read_records` does.

    Args:
        source: A file, or a folder with files.

    Raises:
        UnreadableExportError: There is none, or one is no export.
    """
    paths = sorted(source.glob(f"{PREFIX}*{SUFFIX}")) if source.is_dir() else [source]
    if not paths:
        raise UnreadableExportError(f"{source}: no {PREFIX}*{SUFFIX} in it")
    for path in paths:
        try:
            table = pq.read_table(path)
            records = [_record(values) for values in table.to_pylist()]
        except (OSError, pa.ArrowException, KeyError) as error:
            raise UnreadableExportError(
                f"{path}: is no export ({type(error).__name__})"
            ) from None
        yield from records


def _columns(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {
        column_of(name): row.fields[name] == "1"
        if name == "correction"
        else row.fields[name]
        for name in COLUMNS
    }
    extra = json.dumps(row.extra) if row.extra else None
    return values | {
        "tag": row.tag,
        "entry_ms": row.entry.ms,
        "entry_seq": row.entry.seq,
        "extra": extra,
    }


def _record(values: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "tag": values["tag"],
        "entry": f"{values['entry_ms']}-{values['entry_seq']}",
        # A column that a file is too old to have is empty.
        **{name: values.get(column_of(name), _nothing(name)) for name in COLUMNS},
    }
    record["correction"] = "1" if values["correction"] else "0"
    record["reserved_at_ms"] = round(values["reserved_at"].timestamp() * 1_000)
    extra: dict[str, Any] = json.loads(values["extra"] or "{}")
    return record | extra


def _nothing(name: str) -> str | int | None:
    if name in OPTIONAL_NUMBERS:
        return None
    return 0 if is_number(name) else ""
