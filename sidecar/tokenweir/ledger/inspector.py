"""
Looking into a ledger as a whole, and putting it right: for operators.

A look at a tag is one script's: counters, holds and the newest record are of the same
moment. So what was settled up to that record is just what the counters have counted,
however many exchanges are under way. And what is looked at of an hour is just what was
written with the records up to that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from tokenweir.core.amendment import Amendment
from tokenweir.core.budget import Spending
from tokenweir.core.partition import all_tags
from tokenweir.core.record import SEPARATOR
from tokenweir.core.rollups import RollupFinding
from tokenweir.ledger import keys, scripts, wire
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.formats import require_known
from tokenweir.ledger.link import Link
from tokenweir.telemetry.hooks import LedgerEvents

PATIENT_SECONDS = 60.0
# Some 600 bytes each.
RECORDS_A_PAGE = 2_000

# A limit's key and the beginning of a window.
CounterName = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Look:
    """
    What is under a tag at one moment.

    Attributes:
        last_record: Id of the newest usage record; ``""``: there is none.
        spendings: Of budgets, by limit and the start of the window.
        taken: What holds have taken of them, ditto.
        holds: Ids of all holds.
    """

    last_record: str = ""
    spendings: Mapping[CounterName, Spending] = field(default_factory=dict)
    taken: Mapping[CounterName, int] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HourLook:
    """
    An hour's sums under a tag, at one moment.

    Attributes:
        last_record: Id of the newest usage record; ``""``: there is none.
        sums: By group and figure.
        users: By group, end user and figure.
    """

    last_record: str = ""
    sums: Mapping[str, int] = field(default_factory=dict)
    users: Mapping[str, int] = field(default_factory=dict)


class Inspector:
    """
    Args:
        url: See `tokenweir.ledger.address`.
        events: Told of every call, and of faults.

    All methods raise `tokenweir.core.errors.LedgerUnavailableError` if there was no
    answer.
    """

    def __init__(self, url: str, events: LedgerEvents) -> None:
        self._link = Link(url, events, deadline_seconds=PATIENT_SECONDS)

    async def now_ms(self) -> int:
        """Return the moment, by the ledger's clock."""
        [[seconds, micros]] = await self._link.read([("TIME",)])
        return int(seconds) * 1_000 + int(micros) // 1_000

    async def counters(self) -> dict[str, set[CounterName]]:
        """Return which counters of budgets there are, by tag."""
        found: dict[str, set[CounterName]] = defaultdict(set)
        for name in await self._link.scan(keys.COUNTERS):
            root, _, rest = name.partition(":w:")
            start, _, key = rest.partition(":")
            found[root.strip("{}")].add((key, int(start)))
        return dict(found)

    async def look(self, tag: str, counters: Sequence[CounterName]) -> Look:
        """Return what is under *tag*: of budgets, only these *counters*."""
        names = [f"{start}:{key}" for key, start in counters]
        arguments: Command = ["", len(names), *names]
        last, told, holds = await self._link.run(
            scripts.LOOK, keys.root(tag), arguments
        )
        taken: dict[CounterName, int] = defaultdict(int)
        for _, *amounts in holds:
            for name, amount in zip(amounts[::2], amounts[1::2], strict=True):
                taken[_name(name.decode())] += int(amount)
        return Look(
            last.decode(),
            {
                name: wire.spending_of(text.decode())
                for name, text in zip(counters, told, strict=True)
                if text
            },
            dict(taken),
            frozenset(hold_id.decode() for hold_id, *_ in holds),
        )

    async def records(
        self, tag: str, since_ms: int, last: str
    ) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
        """
        Yield the records under *tag*, the oldest first, each with its entry's id.

        Args:
            tag: Of a tenant.
            since_ms: From then on, by when they were written.
            last: The entry that is the last one.
        """
        await require_known(self._link, (tag,))
        first = str(since_ms)
        while first:
            page = ("XRANGE", keys.records(tag), first, last, "COUNT", RECORDS_A_PAGE)
            (entries,) = await self._link.read([page])
            for entry, fields in entries:
                texts = {name.decode(): text.decode() for name, text in fields.items()}
                yield entry.decode(), texts
            is_full = len(entries) == RECORDS_A_PAGE
            first = f"({entries[-1][0].decode()}" if is_full else ""

    async def hours(self, first: int, last: int) -> dict[str, set[int]]:
        """
        Return which hours since 1970 have sums, by tag.

        Only hours from *first* to *last*. A tag with records only has none, and is there.
        """
        tags = all_tags()
        await require_known(self._link, tags)
        hours = [("ZRANGEBYSCORE", keys.hours(tag), first, last) for tag in tags]
        newest = [
            ("XREVRANGE", keys.records(tag), "+", "-", "COUNT", 1) for tag in tags
        ]
        found = await self._link.read([*hours, *newest])
        told = zip(tags, found[: len(tags)], found[len(tags) :], strict=True)
        return {
            tag: {int(hour) for hour in some}
            for tag, some, records in told
            if some or records
        }

    async def hour(self, tag: str, hour: int) -> HourLook:
        """Return the sums of an *hour* since 1970 under *tag*."""
        arguments: Command = ["", hour]
        last, sums, users = await self._link.run(
            scripts.HOUR, keys.root(tag), arguments
        )
        return HourLook(
            last.decode(),
            {name: int(figure) for name, figure in _pairs(sums)},
            wire.user_sums_of(dict(_pairs(users))),
        )

    async def mend(
        self, tag: str, hour: int, findings: Sequence[RollupFinding]
    ) -> list[bool]:
        """
        Have sums of an *hour* say what they should, by *findings*.

        Returns:
            Of each whether it was done; False: it has changed since, or is so old that
            such are kept no longer.
        """
        arguments: list[str | int] = ["", hour, len(findings)]
        for each in findings:
            is_user = each.user is not None
            name = (*each.group, each.user or "") if is_user else each.group
            # All that records tell, also what is right: it would change with the rest.
            figures = sorted({**each.says, **each.should})
            arguments += (SEPARATOR.join((*name, "")), int(is_user), len(figures))
            for figure in figures:
                said, due = each.says.get(figure, 0), each.should.get(figure, 0)
                arguments += (figure, said, due)
        done = await self._link.run(scripts.MEND, keys.root(tag), arguments)
        return [bool(each) for each in done]

    async def amend(self, tag: str, amendments: Sequence[Amendment]) -> list[bool]:
        """Carry out *amendments* under *tag*; return of each if it was possible."""
        arguments: list[str | int] = ["", len(amendments)]
        for each in amendments:
            arguments += (each.key, each.window.begin_ms, each.window.end_ms, each.seen)
            arguments += (max(0, each.add), max(0, -each.add), each.capacity)
            arguments.append(wire.thresholds_text(each.thresholds))
        done = await self._link.run(scripts.AMEND, keys.root(tag), arguments)
        return [bool(each) for each in done]

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """Ask to be the only one who amends for *lease_ms*; 0: no longer."""
        arguments: Command = [owner, lease_ms]
        return bool(await self._link.run(scripts.LEASE, keys.REBUILD_LEASE, arguments))

    async def close(self) -> None:
        """Give connections back."""
        await self._link.close()


def _pairs(flat: Sequence[bytes]) -> list[tuple[str, str]]:
    texts = [each.decode() for each in flat]
    return list(zip(texts[::2], texts[1::2], strict=True))


def _name(text: str) -> CounterName:
    start, _, key = text.partition(":")
    return key, int(start)
