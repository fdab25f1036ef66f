"""
The usage streams, as one consumer of a group reads them.

The group is made under each tag once there is a stream, and begins with what the stream
still has: settled exchanges leave nothing behind that is not read. A stream that
nobody writes to for a week expires, its group with it; the next one gets a new group.

What was delivered and not acknowledged stays with the consumer. It gets that again
(`mine`), and takes over what another one has left lying for long (`abandoned`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError, ResponseError

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import all_tags
from tokenweir.ledger import keys
from tokenweir.ledger.formats import asking, require_told
from tokenweir.ledger.servers import Servers, connect

# Nobody waits for it. A server that does not answer for so long is away.
DEADLINE_SECONDS = 10.0
START = "0-0"
# A consumer that lives asks every second.
GONE_MS = 86_400_000

# How errors begin that say so (redis-py leaves "ERR" out).
_GONE = ("NOGROUP", "no such key", "The XGROUP subcommand requires the key to exist")

Command = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    An entry that was delivered.

    Attributes:
        tag: Whose stream it is in.
        entry: Its id, as the server has it.
        fields: What it has; None: it had expired before anybody read it.
    """

    tag: str
    entry: str
    fields: Mapping[bytes, bytes] | None


class Streams:
    """
    Every call raises LedgerUnavailableError if the server has no (sound) answer, and
    NewerFormatError where a newer version has written: nothing is delivered then.

    Args:
        url: See `tokenweir.ledger.address`.
        group: Shared by those who export to the same sink.
        consumer: This one's name in it.
        tags: Where streams can be.
    """

    def __init__(
        self, url: str, group: str, consumer: str, *, tags: Sequence[str] | None = None
    ) -> None:
        self._servers = connect(url)
        self._group = group
        self._consumer = consumer
        self._tags = all_tags() if tags is None else tuple(tags)
        self._joined: dict[str, None] = {}
        # Where something has expired in hands that we took it over from: see `abandoned`.
        self._gaps: set[str] = set()

    @property
    def joined(self) -> tuple[str, ...]:
        """The tags that have a stream, and our group in it."""
        return tuple(self._joined)

    async def join(self) -> None:
        """Make the group under every tag that has a stream by now."""
        missing = [tag for tag in self._tags if tag not in self._joined]
        await self._require_known(missing)
        sizes = await self._call([("XLEN", keys.records(tag)) for tag in missing])
        found = [tag for tag, size in zip(missing, sizes, strict=True) if sound(size)]
        makes = [self._on_group("CREATE", tag, START) for tag in found]
        for tag, made in zip(found, await self._call(makes), strict=True):
            if is_gone(made):
                continue  # it has just expired
            if not _is("BUSYGROUP", made):
                sound(made)
            self._joined[tag] = None

    async def rewind(self) -> None:
        """Have everything delivered once more that the streams still have."""
        commands = [self._on_group("SETID", tag, START) for tag in self._joined]
        for reply in await self._call(commands):
            if not is_gone(reply):
                sound(reply)

    async def skipped(self) -> int:
        """Return how many entries have expired since this group read last."""
        streams = [("XINFO", "STREAM", keys.records(tag)) for tag in self._joined]
        groups = [("XINFO", "GROUPS", keys.records(tag)) for tag in self._joined]
        found = zip(await self._call(streams), await self._call(groups), strict=True)
        return sum(_skipped(info, told, self._group) for info, told in found)

    async def new(self, tags: Sequence[str], count: int) -> list[Delivery]:
        """Return at most *count* entries of each tag that nobody has read yet."""
        await self._require_known(tags)
        return await self._read(tags, count, ">")

    async def mine(self, tags: Sequence[str], count: int) -> list[Delivery]:
        """Return at most *count* of each tag that were delivered to us before."""
        return await self._read(tags, count, START)

    async def abandoned(
        self, cursors: Mapping[str, str], count: int, idle_ms: int
    ) -> tuple[list[Delivery], dict[str, str]]:
        """
        Take over what nobody has acknowledged for *idle_ms*.

        Args:
            cursors: By tag, where to go on; at first `START`.
            count: At most so many of each tag.
            idle_ms: Longer than any consumer that lives has entries in hand.

        Returns:
            The entries, and the cursors of the tags that may have more.
        """
        claim = (self._group, self._consumer, idle_ms)
        commands = [
            ("XAUTOCLAIM", keys.records(tag), *claim, cursor, "COUNT", count)
            for tag, cursor in cursors.items()
        ]
        deliveries: list[Delivery] = []
        left: dict[str, str] = {}
        ended: list[str] = []
        for tag, reply in zip(cursors, await self._call(commands), strict=True):
            if self._is_gone(tag, reply):
                continue
            cursor, entries, *expired = sound(reply)
            # Before Redis 7 there is a gap where one has expired, and it stays ours.
            there = [pair for pair in entries if pair[0]]
            if len(there) < len(entries):
                self._gaps.add(tag)
            deliveries += _deliveries(tag, there)
            deliveries += [
                Delivery(tag, _text(entry), None) for some in expired for entry in some
            ]
            if _text(cursor) != START:
                left[tag] = _text(cursor)
            elif tag in self._gaps:
                ended.append(tag)
        for tag in ended:
            deliveries += await self._expired(tag, count)
            self._gaps.discard(tag)
        return deliveries, left

    async def acknowledge(self, deliveries: Iterable[tuple[str, str]]) -> None:
        """Say that these (tag and entry) need no more be delivered to anybody."""
        by_tag: dict[str, list[str]] = {}
        for tag, entry in deliveries:
            by_tag.setdefault(tag, []).append(entry)
        commands = [
            ("XACK", keys.records(tag), self._group, *entries)
            for tag, entries in by_tag.items()
        ]
        for reply in await self._call(commands):
            sound(reply)

    async def leave(self) -> None:
        """Take our name out of the groups. What is left with us would be lost: ack."""
        for reply in await self._call(
            [
                (*self._on_group("DELCONSUMER", tag), self._consumer)
                for tag in self._joined
            ]
        ):
            if not is_gone(reply):
                sound(reply)

    async def tidy(self) -> None:
        """
        Remove the names of consumers that are long gone.

        One that is killed leaves its name in every group. (One that lives after all,
        with nothing to read for a day, is a consumer again when it reads next.)
        """
        asks = [
            ("XINFO", "CONSUMERS", keys.records(tag), self._group)
            for tag in self._joined
        ]
        told = zip(self._joined, await self._call(asks), strict=True)
        gone = [
            (tag, str(each["name"]))
            for tag, reply in told
            if not is_gone(reply)
            for each in map(as_texts, sound(reply))
            if not each["pending"] and each["idle"] >= GONE_MS
        ]
        removals = [
            (*self._on_group("DELCONSUMER", tag), consumer) for tag, consumer in gone
        ]
        for reply in await self._call(removals):
            if not is_gone(reply):
                sound(reply)

    async def disconnect(self) -> None:
        """Drop the connections, so that the name is looked up again."""
        await self._servers.drop(time.monotonic())

    async def close(self) -> None:
        """Give connections back."""
        await self._servers.close()

    async def _read(
        self, tags: Sequence[str], count: int, after: str
    ) -> list[Delivery]:
        who = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count)
        replies = await self._call(
            [(*who, "STREAMS", keys.records(tag), after) for tag in tags]
        )
        found: list[Delivery] = []
        for tag, reply in zip(tags, replies, strict=True):
            if not self._is_gone(tag, reply):
                found += _deliveries(tag, _entries(sound(reply)))
        return found

    async def _require_known(self, tags: Iterable[str]) -> None:
        require_told(await self._call(asking(map(keys.root, tags))))

    async def _expired(self, tag: str, count: int) -> list[Delivery]:
        """Return what of all that is ours has expired; reads *count* at once."""
        found: list[Delivery] = []
        after = START
        while True:
            page = await self._read([tag], count, after)
            found += [each for each in page if each.fields is None]
            if len(page) < count:
                return found
            after = page[-1].entry

    def _is_gone(self, tag: str, reply: Any) -> bool:
        """Tell if a stream has gone, and forget it: it may come back without group."""
        if is_gone(reply):
            self._joined.pop(tag, None)
            return True
        return False

    def _on_group(self, verb: str, tag: str, *more: str) -> Command:
        return ("XGROUP", verb, keys.records(tag), self._group, *more)

    async def _call(self, commands: Sequence[Command]) -> list[Any]:
        return await call(self._servers, commands)


async def call(servers: Servers, commands: Sequence[Command]) -> list[Any]:
    """
    Return the replies to *commands*, the server's errors among them.

    Raises: LedgerUnavailableError, which says why in a word.
    """
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await servers.pipelined(commands)
    # redis-py raises ValueError on answers that it can't take apart.
    except (RedisError, OSError, TimeoutError, ValueError) as error:
        raise LedgerUnavailableError(type(error).__name__) from error


def sound(reply: Any) -> Any:
    """Return *reply* unless it is an error. Raises: LedgerUnavailableError."""
    if isinstance(reply, ResponseError):
        word = str(reply).partition(" ")[0]
        name = type(reply).__name__
        is_word = name == "ResponseError" and word.isupper() and word.isalpha()
        raise LedgerUnavailableError(word if is_word else name) from reply
    if isinstance(reply, Exception):
        raise LedgerUnavailableError(type(reply).__name__) from reply
    return reply


def is_gone(reply: Any) -> bool:
    """Tell if *reply* says that there is no such stream, or no such group in it."""
    return any(_is(words, reply) for words in _GONE)


def _is(word: str, reply: Any) -> bool:
    return isinstance(reply, ResponseError) and str(reply).startswith(word)


def _entries(reply: Any) -> Sequence[Any]:
    """Return the entries of the one stream in *reply*, in either protocol's form."""
    if not reply:
        return ()
    if isinstance(reply, dict):
        (batches,) = reply.values()
        return batches[0] if batches else ()
    ((_, entries),) = reply
    return entries or ()


def _deliveries(tag: str, entries: Sequence[Any]) -> list[Delivery]:
    return [Delivery(tag, _text(entry), fields or None) for entry, fields in entries]


def _skipped(info: Any, groups: Any, group: str) -> int:
    """Return how many entries have expired unread, if the server counts (Redis 7)."""
    if isinstance(info, Exception) or isinstance(groups, Exception):
        return 0  # it is gone, or about to be
    stream = as_texts(info)
    for each in map(as_texts, groups):
        added, read = stream.get("entries-added"), each.get("entries-read")
        if each.get("name") == group and added is not None and read is not None:
            return max(0, int(added) - int(stream["length"]) - int(read))
    return 0


def as_texts(reply: Any) -> dict[str, Any]:
    """Return what an XINFO says, as a dict, in either protocol's form."""
    items = (
        reply.items()
        if isinstance(reply, dict)
        else zip(reply[::2], reply[1::2], strict=True)
    )
    return {
        _text(name): _text(value) if isinstance(value, bytes) else value
        for name, value in items
    }


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)
