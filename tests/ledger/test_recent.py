from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.ledger.builders import hold, used
from tokenweir.core.hold import Amounts
from tokenweir.core.record import (
    RETRACTED,
    increments_in,
    labels_of,
    lost_record,
    record_of,
)
from tokenweir.ledger.live import Entry
from tokenweir.ledger.recent import LastMinute, figures_of

NOW_MS = 1_767_225_600_000
TAGS = ("tw:001", "tw:002")


class Streams:
    """Streams in memory; counts what is read of them."""

    def __init__(self) -> None:
        self.entries_by_tag: dict[str, list[Entry]] = {tag: [] for tag in TAGS}
        self.pages: list[int] = []

    def add(self, at_ms: int, tag: str = TAGS[0], **fields: str) -> None:
        """Write a record."""
        entries = self.entries_by_tag[tag]
        record = record_of(hold(len(entries)), used(10, 0))
        record |= {"hold": str(len(entries)), "model": "m", "user": "", **fields}
        entries.append(Entry(f"{at_ms}-{len(entries)}", record))

    async def entries(
        self, after: Mapping[str, str], count: int
    ) -> dict[str, list[Entry]]:
        """See `Tailing`."""
        self.pages.append(count)
        return {
            tag: [
                entry
                for entry in self.entries_by_tag[tag]
                if tuple(map(int, entry.id.split("-")))
                > tuple(map(int, last.split("-")))
            ][:count]
            for tag, last in after.items()
        }


@pytest.fixture
def streams() -> Streams:
    """Empty streams."""
    return Streams()


async def inputs(
    minute: LastMinute, now_ms: int = NOW_MS
) -> dict[tuple[str, ...], int]:
    """Return the input tokens of the last minute, by group."""
    sums = await minute.sums(now_ms)
    return {group: figures.get("input_tokens", 0) for group, figures in sums.items()}


async def test_the_last_minute(streams: Streams) -> None:
    """What was written within a minute counts, from the first look on."""
    streams.add(NOW_MS - 61_000)
    streams.add(NOW_MS - 59_000)
    streams.add(NOW_MS - 1, TAGS[1], tenant="globex", input_tokens="7")
    minute = LastMinute(streams, TAGS, ("tenant",))

    assert await inputs(minute) == {("acme",): 10, ("globex",): 7}
    assert minute.is_whole(NOW_MS)


async def test_it_moves_on(streams: Streams) -> None:
    """What is older than a minute is forgotten, and what is new is added, once."""
    streams.add(NOW_MS - 30_000)
    minute = LastMinute(streams, TAGS, ("model",))
    await minute.sums(NOW_MS)
    streams.add(NOW_MS + 5_000, input_tokens="1")

    assert await inputs(minute, NOW_MS + 6_000) == {("m",): 11}
    assert await inputs(minute, NOW_MS + 7_000) == {("m",): 11}
    assert await inputs(minute, NOW_MS + 40_000) == {("m",): 1}
    assert await inputs(minute, NOW_MS + 90_000) == {}


async def test_groups(streams: Streams) -> None:
    """Sums are kept apart by any fields, in order; who names no user is told as such."""
    streams.add(NOW_MS, user="u1")
    streams.add(NOW_MS)
    minute = LastMinute(streams, TAGS, ("user", "model"))

    assert await inputs(minute) == {("u1", "m"): 10, ("-", "m"): 10}


async def test_one_tenant(streams: Streams) -> None:
    """Others under the same tag do not count."""
    streams.add(NOW_MS)
    streams.add(NOW_MS, tenant="globex")
    minute = LastMinute(streams, TAGS[:1], ("tenant",), tenant="globex")

    assert await inputs(minute) == {("globex",): 10}


async def test_corrections(streams: Streams) -> None:
    """What the reaper had estimated is replaced by what was used, not added to it."""
    streams.add(NOW_MS - 9_000, hold="h", outcome="lost", input_tokens="500")
    streams.add(NOW_MS - 5_000, hold="h", correction="1")
    minute = LastMinute(streams, TAGS, ("tenant",))
    (figures,) = (await minute.sums(NOW_MS)).values()

    assert figures["input_tokens"] == 10
    assert figures["exchanges"] == 1
    assert "outcome_lost" not in figures


async def test_a_late_correction(streams: Streams) -> None:
    """What was lost before the last minute is not taken off what is told of it."""
    streams.add(NOW_MS, hold="h", outcome="lost")
    minute = LastMinute(streams, TAGS, ("tenant",))
    await minute.sums(NOW_MS)
    await minute.sums(NOW_MS + 70_000)
    streams.add(NOW_MS + 71_000, hold="h", correction="1")

    assert await inputs(minute, NOW_MS + 72_000) == {("acme",): 10}


async def test_reads_are_bounded(streams: Streams) -> None:
    """What is too much for one read is skipped and told, for a minute; then all is well."""
    for number in range(500):
        streams.add(NOW_MS - 500 + number)
    minute = LastMinute(streams, TAGS, ("tenant",), most=100)
    told = await inputs(minute)

    assert told[("acme",)] <= 10 * 150
    assert sum(streams.pages) <= 200
    assert not minute.is_whole(NOW_MS)
    streams.add(NOW_MS + 1_000)
    assert (await inputs(minute, NOW_MS + 2_000))[("acme",)] == told[("acme",)] + 10
    assert not minute.is_whole(NOW_MS + 59_000)
    assert minute.is_whole(NOW_MS + 60_000)


async def test_pages_are_read_to_the_end(streams: Streams) -> None:
    """As long as it is not too much, one read takes all there is."""
    for _ in range(500):
        streams.add(NOW_MS)
    minute = LastMinute(streams, TAGS, ("tenant",), most=600)

    assert await inputs(minute) == {("acme",): 5_000}
    assert minute.is_whole(NOW_MS)


async def test_after_an_outage(streams: Streams) -> None:
    """What was written meanwhile, and is older than a minute, is not read."""
    minute = LastMinute(streams, TAGS, ("tenant",))
    await minute.sums(NOW_MS)
    streams.add(NOW_MS + 1_000)
    streams.add(NOW_MS + 500_000)

    assert await inputs(minute, NOW_MS + 501_000) == {("acme",): 10}


def test_figures() -> None:
    """A record tells what its rollup would; what can't be read is an exchange at least."""
    record = record_of(hold(1), used(40, 60))

    assert figures_of(record) == increments_in(record)
    assert figures_of({"hold": "of another version"}) == {"exchanges": 1}
    assert figures_of(record | {"input_tokens": "many"}) == {"exchanges": 1}


def test_what_was_given_back() -> None:
    """A lost exchange of which nothing was forwarded after all is none."""
    lost = lost_record(labels_of(hold(1)), Amounts(1, 40, 60), 5, RETRACTED)

    assert figures_of(lost) == {}
