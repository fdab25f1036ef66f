"""
Whether an hour's sums say what records say, and what has to be done about them.

A record and what it adds to sums are written in one step, so both agree, unless one of
them lost something. Records are kept for a shorter time: where they tell of fewer
exchanges than sums do, sums know more, and nothing can be said against them. Where they
tell of as many, or of more (an export has them), sums should say what the best record of
each exchange says, neither more nor less.

What no record tells, refusals and matched quotas (`tokenweir.core.tally`), is neither
compared nor touched.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tokenweir.core.hold import CAP_REACHED
from tokenweir.core.pricing import UNPRICED
from tokenweir.core.record import (
    GROUP,
    LABELS,
    SEPARATOR,
    SUMMED,
    WITH_USER,
    difference,
    increments_in,
)
from tokenweir.core.usage_record import (
    Exchange,
    Exchanges,
    UsageRecordError,
    Value,
    exchange_of,
)

# The figures of sums that records tell, and how the names of others of them begin.
RECORDED = frozenset(
    {
        *("exchanges", WITH_USER, "downgraded", "capped", CAP_REACHED, UNPRICED),
        *SUMMED,
    }
)
RECORDED_KINDS = ("outcome_", "source_", "tokens_")
# What records of former versions lack.
_BLANK: Mapping[str, str] = {
    **dict.fromkeys(LABELS, ""),
    **dict.fromkeys(SUMMED, "0"),
    "flags": "",
}
# Sums of former versions tell neither the provider nor the route.
_FORMER = len(GROUP) - 2

Group = tuple[str, ...]
Figures = Mapping[str, int]


class RollupVerdict(enum.StrEnum):
    """Of a sum."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNPROVEN = "records are gone"  # they tell of fewer exchanges than the sum


@dataclass(frozen=True, slots=True)
class Recorded:
    """An exchange as one record tells it, and what that adds to sums."""

    exchange: Exchange
    figures: Figures


@dataclass(frozen=True, slots=True)
class RollupFinding:
    """
    A sum and what is known of it.

    Attributes:
        hour: Since 1970 (UTC).
        group: The values of `tokenweir.core.record.GROUP`.
        user: Whose it is; None: it is of all of the group.
        verdict: What the comparison says.
        says: Its figures, as far as records tell such.
        should: What they should be, by the records that there are.
    """

    hour: int
    group: Group
    user: str | None
    verdict: RollupVerdict
    says: Figures
    should: Figures


def recorded(
    record: Mapping[str, Value], entry: str, source: str = "records"
) -> Recorded:
    """
    Read a *record*; see `tokenweir.core.usage_record.exchange_of`.

    Raises:
        UsageRecordError: Fields are missing, or are no numbers.
    """
    exchange = exchange_of(record, entry, source)
    texts = {name: str(value) for name, value in record.items() if value is not None}
    try:
        return Recorded(exchange, increments_in({**_BLANK, **texts}))
    except KeyError as error:
        raise UsageRecordError(f"a usage record has no {error.args[0]}") from None
    except ValueError:
        raise UsageRecordError("a figure of a usage record is no number") from None


def compare_hour(
    hour: int, sums: Figures, users: Figures | None, told: Iterable[Recorded]
) -> Iterator[RollupFinding]:
    """
    Yield what is found of each sum of an *hour*.

    Args:
        hour: Since 1970 (UTC).
        sums: As they are stored: by group and figure.
        users: Ditto, by group, user and figure; None: they are no longer kept.
        told: Records of exchanges that were reserved in that hour. One may come twice.
    """
    due = _Due(told)
    said = _by_name(sums, len(GROUP))
    said_of_users = _by_name(users or {}, len(GROUP) + 1)
    former = {name for name in said if len(name) == _FORMER}
    named: dict[Group, set[str]] = {}
    for *name, user in {**said_of_users, **due.of_users}:
        named.setdefault(tuple(name), set()).add(user)
    for group in sorted({**said, **due.of_groups}.keys() - former):
        says = said.get(group, {})
        should: Figures = due.of_groups.get(group, {})
        of_users = {
            user: said_of_users.get((*group, user), {})
            for user in sorted(named.get(group, ()))
        }
        if not says and not should:
            continue  # refusals only
        is_known = due.knows(group, says) and all(
            due.knows((*group, user), figures) for user, figures in of_users.items()
        )
        if not is_known or group[:_FORMER] in former:
            yield RollupFinding(hour, group, None, RollupVerdict.UNPROVEN, says, should)
            continue
        yield _judged(hour, group, None, says, should)
        for user, figures in of_users.items() if users is not None else ():
            should = due.of_users.get((*group, user), {})
            yield _judged(hour, group, user, figures, should)


class _Due:
    """What sums should say, and of how many exchanges there are records."""

    def __init__(self, told: Iterable[Recorded]) -> None:
        exchanges = Exchanges()
        figures: dict[tuple[str, tuple[int, int]], Figures] = {}
        for each in told:
            exchanges.add(each.exchange)
            figures[each.exchange.hold_id, each.exchange.entry] = each.figures
        self.of_groups: dict[Group, Counter[str]] = {}
        self.of_users: dict[Group, Counter[str]] = {}
        self._counts: Counter[Group] = Counter()
        for exchange in exchanges:
            own = figures[exchange.hold_id, exchange.entry]
            group = _group_of(exchange)
            self.of_groups.setdefault(group, Counter()).update(own)
            self._counts[group] += exchanges.counted(exchange)
            if user := exchange.spender.user:
                name = (*group, user)
                self.of_users.setdefault(name, Counter()).update(own)
                self._counts[name] += exchanges.counted(exchange)

    def knows(self, name: Group, says: Figures) -> bool:
        """Tell if records tell of all the exchanges that a sum *says*."""
        return says.get("exchanges", 0) <= self._counts[name]


def _judged(
    hour: int, group: Group, user: str | None, says: Figures, should: Figures
) -> RollupFinding:
    agrees = not difference(should, says)
    verdict = RollupVerdict.AGREES if agrees else RollupVerdict.DIFFERS
    return RollupFinding(hour, group, user, verdict, says, should)


def _group_of(exchange: Exchange) -> Group:
    spender = exchange.spender
    return (
        spender.tenant,
        spender.key,
        spender.model,
        spender.provider,
        spender.route,
    )


def _by_name(sums: Figures, names: int) -> dict[Group, dict[str, int]]:
    """Return the figures of each group that records tell, without zeros."""
    found: dict[Group, dict[str, int]] = {}
    for field, figure in sums.items():
        *name, metric = field.split(SEPARATOR)
        if len(name) > names or not _is_recorded(metric):
            continue
        figures = found.setdefault(tuple(name), {})
        if figure:
            figures[metric] = figure
    return found


def _is_recorded(figure: str) -> bool:
    return figure in RECORDED or figure.startswith(RECORDED_KINDS)
