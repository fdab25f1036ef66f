"""
Usage records as they are read back: from a stream, or from wherever they were exported.

A hold can have more than one record: an estimate of the reaper and what corrects it, or
copies of one record. `Exchanges` keeps what is best known of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenweir.core.charges import Spender
from tokenweir.core.errors import TokenweirError
from tokenweir.core.hold import Outcome
from tokenweir.core.record import CLASSES, RETRACTED

Value = str | int | None


class UsageRecordError(TokenweirError):
    """This is no usage record. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    What is known of an exchange that has ended.

    Attributes:
        hold_id: Tells it apart.
        spender: Who asked whom for what.
        at_ms: When it was reserved, by the ledger's clock.
        tokens: All classes.
        cost_nanousd: Its cost.
        is_lost: Nobody settled it: the figures are the reaper's estimate.
        corrects: It replaces an earlier record in sums too.
        is_retracted: It was lost, and then given back.
        policy: Digest of the policy that it was decided under.
        entry: When it was written, and which of that moment.
        source: Where this is known from.
    """

    hold_id: str
    spender: Spender
    at_ms: int
    tokens: int
    cost_nanousd: int
    is_lost: bool = False
    corrects: bool = False
    is_retracted: bool = False
    policy: str = ""
    entry: tuple[int, int] = (0, 0)
    source: str = "records"


class Exchanges:
    """Each exchange once: the best that is known of each, by hold."""

    def __init__(self) -> None:
        self.by_hold: dict[str, Exchange] = {}
        # Of exchanges with more than one: which there are.
        self._entries: dict[str, dict[tuple[int, int], bool]] = {}

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.by_hold.values())

    def add(self, exchange: Exchange) -> None:
        """Take note of *exchange*, unless more is known of it already."""
        name = exchange.hold_id
        known = self.by_hold.get(name)
        if known is None:
            self.by_hold[name] = exchange
            return
        if known.entry != exchange.entry:
            entries = self._entries.setdefault(name, {known.entry: known.corrects})
            entries[exchange.entry] = exchange.corrects
        if _is_better(exchange, known):
            self.by_hold[name] = exchange

    def counted(self, exchange: Exchange) -> int:
        """
        Return as how many exchanges sums tell one of these.

        One that was settled when nobody remembered that it was lost is told twice. Where
        all that is left are corrections, there was a record that they correct.
        """
        corrections = self._entries.get(exchange.hold_id, {exchange.entry: False})
        count = sum(not corrects for corrects in corrections.values())
        return max(1, count) - exchange.is_retracted


def exchange_of(
    record: Mapping[str, Value], entry: str, source: str = "records"
) -> Exchange:
    """
    Read a *record*.

    Args:
        record: By field; figures as text or as numbers.
        entry: Its id in the stream, ``"<ms>-<number>"``.
        source: Where it comes from.

    Raises:
        UsageRecordError: Fields are missing, or are no numbers.
    """
    try:
        moment, _, number = entry.partition("-")
        is_lost = _text(record, "outcome") == Outcome.LOST
        return Exchange(
            _text(record, "hold"),
            _spender(record),
            int(_text(record, "reserved_at_ms")),
            sum(int(record.get(name) or 0) for name in CLASSES),
            int(_text(record, "cost_nanousd")),
            is_lost,
            str(record.get("correction")) == "1",
            is_lost and record.get("flags") == RETRACTED,
            str(record.get("policy") or ""),
            (int(moment), int(number)),
            source,
        )
    except KeyError as error:
        raise UsageRecordError(f"a usage record has no {error.args[0]}") from None
    except ValueError:
        raise UsageRecordError("a figure of a usage record is no number") from None


def _spender(record: Mapping[str, Value]) -> Spender:
    return Spender(
        _text(record, "tenant"),
        _text(record, "key"),
        str(record.get("user") or ""),
        str(record.get("route") or ""),
        _text(record, "model"),
        _text(record, "provider"),
        str(record.get("downgraded_from") or ""),
    )


def _text(record: Mapping[str, Value], name: str) -> str:
    return str(record[name])


def _is_better(new: Exchange, known: Exchange) -> bool:
    # A hold that an older snapshot brought back is lost once more: what was settled
    # before is what was used. And what was lost first is corrected later.
    if new.is_lost != known.is_lost:
        return known.is_lost
    return new.entry >= known.entry
