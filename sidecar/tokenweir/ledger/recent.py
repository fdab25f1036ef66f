"""
What was used within the last minute, read from the usage streams as they grow.

Streams, not rollups: a rollup knows its hour only, and what has changed in it is known
to nobody who did not look a minute ago. A stream's entry tells when it was written, and
each is read once: so the work follows the traffic, not the number of tenants, and it is
bounded. If more comes than `MOST_RECORDS` in one read, the rest is skipped, and the
minute is told to be not whole; the hourly sums are not touched by that.

Refused requests have no record: see rollups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from tokenweir.core.hold import Outcome
from tokenweir.core.record import increments_in
from tokenweir.ledger.live import Entry, Record
from tokenweir.ledger.usage import NO_USER

MINUTE_MS = 60_000
# Of one read. A record is about a kilobyte; a server sends a million of them in some
# seconds, in which nobody else should wait.
MOST_RECORDS = 20_000
# Of one command: a millisecond's work.
LEAST_PAGE, MOST_PAGE = 50, 1_000

Group = tuple[str, ...]
Figures = Mapping[str, int]


class Tailing(Protocol):
    """What it reads from: see `tokenweir.ledger.live.LiveReader`."""

    async def entries(
        self, after: Mapping[str, str], count: int
    ) -> dict[str, list[Entry]]:
        """Return the next entries, at most *count* of each tag, *after* that of an id."""


class LastMinute:
    """
    What was used within the last minute, by group.

    Args:
        reader: Where records come from.
        tags: Whose streams are read.
        by: What sums are kept apart by: names of a record's fields.
        tenant: Only of this one; None: of all.
        most: Records of one read.
    """

    def __init__(
        self,
        reader: Tailing,
        tags: Sequence[str],
        by: Sequence[str],
        *,
        tenant: str | None = None,
        most: int = MOST_RECORDS,
    ) -> None:
        self._reader = reader
        self._tags = tuple(tags)
        self._by = tuple(by)
        self._tenant = tenant
        self._most = most
        self._after: dict[str, str] = {}
        self._seconds: dict[int, dict[Group, Counter[str]]] = {}
        # What the reaper has estimated, in case the true figures follow.
        self._lost: dict[str, tuple[int, Group, Figures]] = {}
        self._skipped_ms = 0

    def is_whole(self, now_ms: int) -> bool:
        """Tell if no record of the last minute was skipped."""
        return self._skipped_ms <= now_ms - MINUTE_MS

    async def sums(self, now_ms: int) -> dict[Group, Figures]:
        """
        Read on, and return the figures of the last minute by group.

        Args:
            now_ms: By the ledger's clock.

        Raises:
            LedgerUnavailableError: There was no answer in time; the next read goes on.
        """
        await self._read(now_ms)
        self._forget(now_ms)
        total: dict[Group, Counter[str]] = {}
        for groups in self._seconds.values():
            for group, figures in groups.items():
                total.setdefault(group, Counter()).update(figures)
        return {group: _told(figures) for group, figures in total.items()}

    async def _read(self, now_ms: int) -> None:
        begin = f"{now_ms - MINUTE_MS}-0"
        pending = dict.fromkeys(self._tags, begin)
        for tag, entry in self._after.items():
            # After an outage there is no use in what is older than a minute.
            pending[tag] = max(entry, begin, key=_order)
        left = self._most
        while pending and left > 0:
            page = max(LEAST_PAGE, min(MOST_PAGE, left // len(pending)))
            found = await self._reader.entries(pending, page)
            for tag, entries in found.items():
                self._take(entries)
                self._after[tag] = entries[-1].id if entries else pending[tag]
            left -= sum(map(len, found.values()))
            pending = {
                tag: self._after[tag]
                for tag, entries in found.items()
                if len(entries) == page
            }
        if pending:
            self._skipped_ms = now_ms
            self._after.update(dict.fromkeys(pending, f"{now_ms}-0"))

    def _take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            record = entry.record
            if self._tenant in (None, record.get("tenant")):
                self._add(entry.at_ms // 1_000, record)

    def _add(self, second: int, record: Record) -> None:
        hold = record.get("hold", "")
        group = tuple(_name(record, name) for name in self._by)
        figures = figures_of(record)
        if (former := self._lost.pop(hold, None)) is not None:
            self._seconds[former[0]][former[1]].subtract(former[2])
        if record.get("outcome") == Outcome.LOST:
            self._lost[hold] = (second, group, figures)
        self._seconds.setdefault(second, {}).setdefault(group, Counter()).update(
            figures
        )

    def _forget(self, now_ms: int) -> None:
        oldest = (now_ms - MINUTE_MS) // 1_000
        for second in [each for each in self._seconds if each < oldest]:
            del self._seconds[second]
        self._lost = {
            hold: lost for hold, lost in self._lost.items() if lost[0] >= oldest
        }


def figures_of(record: Record) -> Mapping[str, int]:
    """Return what *record* adds to sums, by the names that rollups have for it."""
    try:
        return increments_in(record)
    except (KeyError, ValueError):
        return {"exchanges": 1}  # of a version that writes other fields


def _told(figures: Mapping[str, int]) -> dict[str, int]:
    return {name: figure for name, figure in figures.items() if figure}


def _name(record: Record, name: str) -> str:
    value = record.get(name, "")
    return value or NO_USER if name == "user" else value


def _order(entry: str) -> tuple[int, int]:
    moment, _, number = entry.partition("-")
    return int(moment), int(number)
