"""
How limits stand in Redis, read and not touched.

Every command here only reads: GET, HGETALL, TIME, ZRANGE, ZMSCORE. What is read is not one
moment's picture, and is old by the time it is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tokenweir.core.budget import window_at
from tokenweir.core.calibration import Learned
from tokenweir.core.hold import Limit
from tokenweir.core.holding import key_of
from tokenweir.core.levels import Levels
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.slots import Slots
from tokenweir.ledger import keys, wire
from tokenweir.ledger.calibration import CalibrationLedger, Spot
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.formats import require_known
from tokenweir.ledger.link import Link
from tokenweir.telemetry.hooks import LedgerEvents


class LevelSource(Protocol):
    """Where to look how limits stand."""

    async def now_ms(self) -> int:
        """Return the time by the ledger's clock. Raises: LedgerUnavailableError."""

    async def levels(self, tag: str, limits: Sequence[Limit], now_ms: int) -> Levels:
        """
        Return a copy of how *limits* under *tag* stand.

        Raises: LedgerUnavailableError.
        """

    async def learned(self, tenant: str) -> Mapping[Spot, Learned]:
        """
        Return what *tenant*'s estimates of tokens are corrected by.

        Raises: LedgerUnavailableError.
        """


class LevelsReader:
    """A `LevelSource` that reads the ledger at *url*."""

    def __init__(self, url: str, events: LedgerEvents) -> None:
        self._link = Link(url, events)

    async def now_ms(self) -> int:
        """See `LevelSource`."""
        ((seconds, micros),) = await self._link.read([("TIME",)])
        return int(seconds) * 1_000 + int(micros) // 1_000

    async def levels(self, tag: str, limits: Sequence[Limit], now_ms: int) -> Levels:
        """See `LevelSource`."""
        await require_known(self._link, (tag,))
        levels = Levels()
        for limit in limits:
            if limit.axis is Axis.CONCURRENCY:
                levels.slots[key_of(limit)] = await self._slots(tag, limit)
            elif limit.axis in BUDGETS:
                await self._read_spending(tag, limit, now_ms, levels)
            else:
                text = await self._text(f"{keys.root(tag)}:b:{key_of(limit)}")
                if text:
                    levels.buckets[key_of(limit)] = wire.bucket_of(text)
        return levels

    async def learned(self, tenant: str) -> Mapping[Spot, Learned]:
        """See `LevelSource`."""
        return await CalibrationLedger(self._link).read([tenant])

    async def close(self) -> None:
        """Give connections back."""
        await self._link.close()

    async def _read_spending(
        self, tag: str, limit: Limit, now_ms: int, levels: Levels
    ) -> None:
        window = window_at(limit.turns, now_ms)
        if window is None:
            return
        key = key_of(limit)
        text = await self._text(f"{keys.root(tag)}:w:{window.begin_ms}:{key}")
        if text:
            levels.spendings[key, window.begin_ms] = wire.spending_of(text)

    async def _slots(self, tag: str, limit: Limit) -> Slots:
        name = f"{keys.root(tag)}:s:{key_of(limit)}"
        members, median = await self._link.read(
            [("ZRANGE", name, 0, -1), ("GET", f"{keys.root(tag)}:d:{key_of(limit)}")]
        )
        until_ms: dict[str, int] = {}
        if members:
            holds = [member.decode() for member in members]
            (scores,) = await self._link.read([("ZMSCORE", name, *holds)])
            pairs = zip(holds, scores, strict=True)
            # One that was given back between the two reads has no score any more.
            until_ms = {hold: int(score) for hold, score in pairs if score is not None}
        return Slots(until_ms, int(median) if median else None)

    async def _text(self, name: str) -> str:
        command: Command = ("GET", name)
        (value,) = await self._link.read([command])
        return value.decode() if value else ""
