"""Reading back what the scripts wrote: see `tokenweir.ledger.store.Readable`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenweir.core.holding import Holding, State
from tokenweir.core.slots import Slots
from tokenweir.ledger import keys, wire
from tokenweir.ledger.link import Link
from tokenweir.ledger.store import Snapshot

SCAN_COUNT = 1_000


async def holdings(link: Link, tags: Sequence[str]) -> Sequence[Holding]:
    """Return the holds (no tombstones) under *tags*."""
    indexes = await link.read([("ZRANGE", keys.holds(tag), 0, -1) for tag in tags])
    names = [
        keys.hold(tag, hold_id.decode())
        for tag, index in zip(tags, indexes, strict=True)
        for hold_id in index
    ]
    hashes = await link.read([("HGETALL", name) for name in names])
    # One that ended between the two reads is a tombstone by now, or gone.
    found = [wire.holding_of(_texts(fields)) for fields in hashes if fields]
    return [holding for holding in found if holding.state is State.HELD]


async def rollups(
    link: Link, tags: Sequence[str], first_hour: int, last_hour: int
) -> Sequence[Mapping[str, int]]:
    """Return the rollups under *tags* of these hours since 1970, both included."""
    found = await link.read(
        [("ZRANGEBYSCORE", keys.hours(tag), first_hour, last_hour) for tag in tags]
    )
    names = [
        keys.rollup(tag, int(hour))
        for tag, hours in zip(tags, found, strict=True)
        for hour in hours
    ]
    hashes = await link.read([("HGETALL", name) for name in names])
    return [_numbers(fields) for fields in hashes]


async def snapshot(link: Link, tag: str) -> Snapshot:
    """Return all that is under *tag*, key by key: not one moment's picture."""
    names = await _names(link, tag)
    epoch, *_ = await link.read([("GET", f"{keys.root(tag)}:e")])
    return Snapshot(
        epoch=int(epoch or 0),
        buckets={
            name: wire.bucket_of(text.decode())
            for name, text in (await _values(link, tag, "b:", names)).items()
        },
        slots=await _slots(link, tag, names),
        holdings={
            name: wire.holding_of(_texts(fields))
            for name, fields in (await _hashes(link, tag, "h:", names)).items()
        },
        expiries=await _scores(link, keys.holds(tag)),
        rates=_numbers((await _hashes(link, tag, "r", names)).get("", {})),
        records=await _records(link, tag),
        rollups={
            int(name): _numbers(fields)
            for name, fields in (await _hashes(link, tag, "a:", names)).items()
        },
    )


async def _names(link: Link, tag: str) -> list[str]:
    """Return the keys of *tag*, without what all of them begin with."""
    root = f"{keys.root(tag)}:"
    names: set[str] = set()
    cursor = 0
    while True:
        scan = ("SCAN", cursor, "MATCH", f"{root}*", "COUNT", SCAN_COUNT)
        ((cursor, found),) = await link.read([scan])
        names.update(name.decode().removeprefix(root) for name in found)
        if not cursor:
            return sorted(names)


async def _values(
    link: Link, tag: str, kind: str, names: Iterable[str]
) -> dict[str, bytes]:
    chosen = [name for name in names if name.startswith(kind)]
    texts = await link.read([("GET", f"{keys.root(tag)}:{name}") for name in chosen])
    return _by_name(kind, chosen, texts)


async def _hashes(
    link: Link, tag: str, kind: str, names: Iterable[str]
) -> dict[str, dict[bytes, bytes]]:
    chosen = [name for name in names if name.startswith(kind)]
    hashes = await link.read(
        [("HGETALL", f"{keys.root(tag)}:{name}") for name in chosen]
    )
    return _by_name(kind, chosen, hashes)


async def _slots(link: Link, tag: str, names: Sequence[str]) -> dict[str, Slots]:
    medians = await _values(link, tag, "d:", names)
    occupied = {name.removeprefix("s:") for name in names if name.startswith("s:")}
    return {
        key: Slots(
            await _scores(link, f"{keys.root(tag)}:s:{key}"),
            int(medians[key]) if key in medians else None,
        )
        for key in sorted(occupied | set(medians))
    }


async def _scores(link: Link, key: str) -> dict[str, int]:
    (members,) = await link.read([("ZRANGE", key, 0, -1)])
    if not members:
        return {}
    texts = [member.decode() for member in members]
    (scores,) = await link.read([("ZMSCORE", key, *texts)])
    return {
        text: int(score)
        for text, score in zip(texts, scores, strict=True)
        if score is not None
    }


async def _records(link: Link, tag: str) -> tuple[dict[str, str], ...]:
    (entries,) = await link.read([("XRANGE", keys.records(tag), "-", "+")])
    return tuple(_texts(fields) for _, fields in entries)


def _by_name(kind: str, names: list[str], replies: list[Any]) -> dict[str, Any]:
    """Pair *names* with *replies*, without keys that expired between two reads."""
    return {
        name.removeprefix(kind): reply
        for name, reply in zip(names, replies, strict=True)
        if reply
    }


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in fields.items()}


def _numbers(fields: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(number) for name, number in fields.items()}
