"""Reading back what the scripts wrote: see `tokenweir.ledger.store.Readable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenweir.core.holding import Holding, State
from tokenweir.core.slots import Slots
from tokenweir.ledger import keys, wire
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.formats import require_known
from tokenweir.ledger.link import Link
from tokenweir.ledger.store import Rollup, Snapshot


async def holdings(link: Link, tags: Sequence[str]) -> Sequence[Holding]:
    """Return the holds (no tombstones) under *tags*."""
    await require_known(link, tags)
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
) -> Sequence[Rollup]:
    """Return the rollups under *tags* of these hours since 1970, both included."""
    await require_known(link, tags)
    found = await link.read(
        [("ZRANGEBYSCORE", keys.hours(tag), first_hour, last_hour) for tag in tags]
    )
    places = [
        (tag, int(hour))
        for tag, hours in zip(tags, found, strict=True)
        for hour in hours
    ]
    hashes = await link.read([("HGETALL", keys.rollup(*place)) for place in places])
    return [
        Rollup(*place, _numbers(fields))
        for place, fields in zip(places, hashes, strict=True)
    ]


async def with_users(link: Link, rollups: Sequence[Rollup]) -> Sequence[Rollup]:
    """Return *rollups* with the sums by end user, as far as they are still known."""
    hashes = await link.read(
        [("HGETALL", keys.user_rollup(each.tag, each.hour)) for each in rollups]
    )
    return [
        replace(each, users=wire.user_sums_of(_texts(fields)))
        for each, fields in zip(rollups, hashes, strict=True)
    ]


async def snapshot(link: Link, tag: str) -> Snapshot:
    """Return all that is under *tag*, key by key: not one moment's picture."""
    await require_known(link, (tag,))
    names = await _names(link, tag)
    replies = await link.read([_reading(tag, name) for name in names])
    found = {
        # One that expired between the two reads has nothing to say.
        name: reply
        for name, reply in zip(names, replies, strict=True)
        if reply
    }
    scores = await _scores(link, tag, found)
    medians = {key: int(text) for key, text in _of_kind("d:", found).items()}
    return Snapshot(
        epoch=int(found.get("e", 0)),
        buckets={
            key: wire.bucket_of(text.decode())
            for key, text in _of_kind("b:", found).items()
        },
        slots={
            key: Slots(scores.get(f"s:{key}", {}), medians.get(key))
            for key in sorted(medians | _of_kind("s:", scores))
        },
        spendings={
            (key.partition(":")[2], int(key.partition(":")[0])): wire.spending_of(
                text.decode()
            )
            for key, text in _of_kind("w:", found).items()
        },
        holdings={
            hold_id: wire.holding_of(_texts(fields))
            for hold_id, fields in _of_kind("h:", found).items()
        },
        expiries=scores.get("x", {}),
        rates=_numbers(found.get("r", {})),
        records=tuple(_texts(fields) for _, fields in found.get("u", ())),
        rollups={
            int(hour): _numbers(fields)
            for hour, fields in _of_kind("a:", found).items()
        },
        user_rollups={
            int(hour): wire.user_sums_of(_texts(fields))
            for hour, fields in _of_kind("n:", found).items()
        },
    )


async def _names(link: Link, tag: str) -> list[str]:
    """Return the keys of *tag*, without what all of them begin with."""
    root = f"{keys.root(tag)}:"
    return sorted(name.removeprefix(root) for name in await link.scan(f"{root}*"))


def _reading(tag: str, name: str) -> Command:
    """Return the command that reads a key, by its kind: see `keys`."""
    key = f"{keys.root(tag)}:{name}"
    match name.split(":", 1):
        case ["h" | "a" | "l" | "n" | "p", _] | ["r"]:
            return ("HGETALL", key)
        case ["s", _] | ["x" | "a"]:
            return ("ZRANGE", key, 0, -1)
        case ["u"]:
            return ("XRANGE", key, "-", "+")
        case _:
            return ("GET", key)


async def _scores(
    link: Link, tag: str, found: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    """Return the members of every sorted set, by name, with their scores."""
    sets = {
        name: [member.decode() for member in members]
        for name, members in found.items()
        if name == "x" or name.startswith("s:")
    }
    replies = await link.read(
        [("ZMSCORE", f"{keys.root(tag)}:{name}", *sets[name]) for name in sets]
    )
    return {
        name: {
            member: int(score)
            for member, score in zip(members, scores, strict=True)
            if score is not None
        }
        for (name, members), scores in zip(sets.items(), replies, strict=True)
    }


def _of_kind(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix(kind): reply
        for name, reply in found.items()
        if name.startswith(kind)
    }


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in fields.items()}


def _numbers(fields: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(number) for name, number in fields.items()}
