"""
Files of JSON lines, one for each day: a sink, and how to read them back.

    <folder>/usage-2026-11-30.jsonl     records by the (UTC) day of their entry
    <folder>/dead-letters.jsonl         entries that are no records, and why

A line has the fields of a record, and `tag` and `entry`. A record may be there twice,
and one that corrects another stands beside it: which of the lines with one `hold` is
right is told by `tokenweir.export.record.Rank`, and `current_records` returns that.

What the same exporter writes again, since it was killed or cut off before it could say
that it had, is left out as far as that is cheap to tell: by what is in the end of the
file, and by what was written last.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenweir.core.hold import Outcome
from tokenweir.export.folder_lock import FolderLock
from tokenweir.export.lines_file import append_lines, read_lines, read_tail
from tokenweir.export.record import BadEntry, EntryId, Rank, Row
from tokenweir.export.sink import SinkUnavailableError, UnreadableExportError

PREFIX, SUFFIX = "usage-", ".jsonl"
DEAD_LETTERS = "dead-letters.jsonl"

# More than any batch: what is written again is what was not acknowledged.
REMEMBERED_ENTRIES = 50_000
REMEMBERED_BYTES = 32 * 2**20


class JsonlSink:
    """A `tokenweir.export.sink.Sink`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FolderLock(folder)
        self._written: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._looked_into: set[Path] = set()

    @property
    def place(self) -> str:
        """See `tokenweir.export.sink.Sink.place`."""
        return f"jsonl:{self._folder}"

    def open(self) -> None:
        """See `tokenweir.export.sink.Sink.open`."""
        self._lock.acquire()

    def write(self, rows: Sequence[Row], bad: Sequence[BadEntry]) -> int:
        """See `tokenweir.export.sink.Sink.write`."""
        by_path: dict[Path, list[Mapping[str, Any]]] = {}
        for row in rows:
            path = self._folder / file_of(row)
            by_path.setdefault(path, []).append(row.as_dict())
        if bad:
            letters: list[Mapping[str, Any]] = [entry.as_dict() for entry in bad]
            by_path[self._folder / DEAD_LETTERS] = letters
        try:
            for path, documents in by_path.items():
                self._append(path, documents)
        except OSError as error:
            raise SinkUnavailableError(error.strerror or type(error).__name__) from None
        return 0

    def close(self) -> None:
        """See `tokenweir.export.sink.Sink.close`."""
        self._lock.release()

    def _append(self, path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
        self._look_into(path)
        new: dict[tuple[str, str], str] = {}
        for document in documents:
            key = (document["tag"], document["entry"])
            if key not in self._written:
                new[key] = json.dumps(document, separators=(",", ":"))
        if new:
            append_lines(path, list(new.values()))
            self._remember(new)

    def _look_into(self, path: Path) -> None:
        """Remember what is in the end of a file that another process has written."""
        if path in self._looked_into:
            return
        for line in read_tail(path, REMEMBERED_BYTES):
            try:
                document = json.loads(line)
                self._remember({(document["tag"], document["entry"]): ""})
            except (ValueError, TypeError, KeyError):
                continue  # not ours, and for whoever reads the file to find
        self._looked_into.add(path)

    def _remember(self, keys: Mapping[tuple[str, str], str]) -> None:
        for key in keys:
            self._written[key] = None
            self._written.move_to_end(key)
        while len(self._written) > REMEMBERED_ENTRIES:
            self._written.popitem(last=False)


def file_of(row: Row) -> str:
    """Return the name of the file that a record goes into."""
    moment = datetime.fromtimestamp(row.entry.ms / 1_000, tz=UTC)
    return f"{PREFIX}{moment:%Y-%m-%d}{SUFFIX}"


def read_records(source: Path) -> Iterator[dict[str, Any]]:
    """
    Return the exported records as they were written, file by file.

    A record may come twice, and its correction later or earlier: see
    `current_records`. The last line of a file is left out while it is half written.

    Args:
        source: A file, or a folder with files by day.

    Raises:
        UnreadableExportError: There is none, or a line is no record.
    """
    for path in _files(source):
        try:
            for number, line in read_lines(path):
                yield _document(line, f"{path}:{number}")
        except OSError as error:
            raise UnreadableExportError(f"{path}: {error.strerror}") from None


def current_records(source: Path) -> dict[str, dict[str, Any]]:
    """Return the record that is right for each hold. Raises like `read_records`."""
    return newest(read_records(source))


def newest(records: Iterator[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the one of *records* that is right for each hold, by hold."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        other = found.get(record["hold"])
        if other is None or rank_of(record) > rank_of(other):
            found[record["hold"]] = record
    return found


def rank_of(record: Mapping[str, Any]) -> Rank:
    """Return how a record that was read back stands to others of its hold."""
    return Rank(record.get("outcome") != Outcome.LOST, entry_of(record))


def entry_of(record: Mapping[str, Any]) -> EntryId:
    """Return the entry of a record that was read back, for comparing."""
    ms, seq = str(record["entry"]).split("-")
    return EntryId(int(ms), int(seq))


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = sorted(source.glob(f"{PREFIX}*{SUFFIX}"))
    if not found:
        raise UnreadableExportError(f"{source}: no {PREFIX}*{SUFFIX} in it")
    return found


def _document(line: bytes, where: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(line)
        document["hold"], document["tag"], entry_of(document)
    except (ValueError, TypeError, KeyError):
        raise UnreadableExportError(f"{where}: is no usage record") from None
    return document
