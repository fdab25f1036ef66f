"""How far behind exporters are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenweir.core.partition import all_tags
from tokenweir.export.streams import START, Command, as_texts, call, is_gone, sound
from tokenweir.ledger import keys
from tokenweir.ledger.servers import Servers, connect

# Entries that are read at once where they have to be counted one by one.
PAGE = 1_000

_Infos = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Lag:
    """
    Attributes:
        behind: Entries that are not exported yet.
        pending: Those of them that were delivered to an exporter.
        oldest_ms: When the oldest of them was written (Unix time); None: none is left.
        oldest_age_ms: How long ago that is.
    """

    behind: int = 0
    pending: int = 0
    oldest_ms: int | None = None
    oldest_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """
    Where one group is in one stream.

    Attributes:
        key: Of the stream.
        group: Its name.
        delivered: The last entry that was delivered to it.
        pending: How many of those delivered are not acknowledged.
        unread: How many were not delivered; None: the server can't tell.
    """

    key: str
    group: str
    delivered: str
    pending: int
    unread: int | None


async def lag_of_all(
    url: str, groups: Sequence[str] = (), *, now_s: Callable[[], float] = time.time
) -> dict[str, Lag]:
    """
    Return how far behind each group is.

    Args:
        url: Of the ledger.
        groups: These too, if nobody has read under their names yet.
        now_s: The clock that ages go by, in seconds.

    Raises:
        LedgerUnavailableError: There was no answer.
    """
    servers = connect(url)
    try:
        streams = [keys.records(tag) for tag in all_tags()]
        sizes = await _ask(servers, [("XLEN", key) for key in streams])
        found = [key for key, size in zip(streams, sizes, strict=True) if size]
        told = await _ask(servers, [("XINFO", "GROUPS", key) for key in found])
        infos = dict(zip(found, map(_by_name, told), strict=True))
        names = sorted({*groups, *(name for info in infos.values() for name in info)})
        now_ms = round(now_s() * 1_000)
        return {name: await _lag(servers, name, infos, now_ms) for name in names}
    finally:
        await servers.close()


async def _lag(servers: Servers, group: str, infos: _Infos, now_ms: int) -> Lag:
    places = [_place(key, group, info) for key, info in infos.items()]
    unread = [
        await _count_after(servers, place) if place.unread is None else place.unread
        for place in places
    ]
    moments = await _oldest_unread(servers, places) + await _oldest_pending(
        servers, [place for place in places if place.pending]
    )
    pending = sum(place.pending for place in places)
    behind = sum(unread) + pending
    if not moments:
        return Lag(behind, pending)
    return Lag(behind, pending, min(moments), max(0, now_ms - min(moments)))


async def _oldest_unread(servers: Servers, places: Sequence[_Place]) -> list[int]:
    commands = [
        ("XRANGE", place.key, f"({place.delivered}", "+", "COUNT", 1)
        for place in places
    ]
    replies = await _ask(servers, commands)
    return [_ms(entries[0][0]) for entries in replies if entries]


async def _oldest_pending(servers: Servers, places: Sequence[_Place]) -> list[int]:
    commands = [("XPENDING", place.key, place.group) for place in places]
    summaries = await _ask(servers, commands)
    return [_ms(each["min"]) for each in summaries if each["min"]]


async def _count_after(servers: Servers, place: _Place) -> int:
    """Count what was not delivered, for servers that don't (before Redis 7)."""
    count, last = 0, place.delivered
    while True:
        page = ("XRANGE", place.key, f"({last}", "+", "COUNT", PAGE)
        (entries,) = await _ask(servers, [page])
        count += len(entries)
        if len(entries) < PAGE:
            return count
        last = entries[-1][0].decode()


def _place(key: str, group: str, info: Mapping[str, Mapping[str, Any]]) -> _Place:
    """Return where *group* is in a stream: at its start, if it has never read it."""
    told = info.get(group, {"last-delivered-id": START, "pending": 0})
    delivered, pending = told["last-delivered-id"], int(told["pending"])
    return _Place(key, group, delivered, pending, told.get("lag"))


def _by_name(reply: Any) -> dict[str, Mapping[str, Any]]:
    return {each["name"]: each for each in map(as_texts, reply)}


def _ms(entry: bytes) -> int:
    return int(entry.partition(b"-")[0])


async def _ask(servers: Servers, commands: Sequence[Command]) -> list[Any]:
    """Return what the server answers. A stream that is gone by now has nothing."""
    replies = await call(servers, commands)
    return [[] if is_gone(reply) else sound(reply) for reply in replies]
