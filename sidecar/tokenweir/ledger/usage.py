"""What was used, by whom; and what is outstanding now."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tokenweir.core.partition import all_tags, tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.record import GROUP, SEPARATOR, WITH_USER, difference
from tokenweir.ledger.store import Readable, Rollup

# Stand for an end user: of exchanges that name none, and of those in hours of which it
# is no longer known who named whom (sums by user are kept for 35 days).
NO_USER = "-"
FORGOTTEN_USER = "?"


class GroupBy(enum.IntEnum):
    """What sums are kept apart by: its place in a group, which is completed here."""

    TENANT = 0
    KEY = 1
    MODEL = 2
    PROVIDER = 3
    ROUTE = 4
    USER = 5
    HOUR = 6
    DAY = 7


@dataclass(frozen=True, slots=True)
class Outstanding:
    """
    What exchanges in flight have taken, and nobody has accounted for.

    Attributes:
        holds: Their number; one under several tags counts under each.
        reserved: Tokens, requests or slots, by limit (``"quota|axis|partition"``).
    """

    holds: int = 0
    reserved: Mapping[str, int] = field(default_factory=dict)


async def usage(
    store: Readable,
    first_hour: int,
    last_hour: int,
    by: Sequence[GroupBy] = (GroupBy.TENANT,),
    *,
    tenant: str | None = None,
) -> dict[tuple[str, ...], dict[str, int]]:
    """
    Return the sums of a time range.

    Args:
        store: Where they are.
        first_hour: Hours since 1970 (UTC), see `tokenweir.core.record.hour_of`.
        last_hour: Included.
        by: What sums are kept apart by; nothing: one sum of all.
        tenant: Only of this one; None: of all.

    Returns:
        Figures by name (see `tokenweir.core.record.increments_in`) without zeros, by
        the values of *by* in that order. An exchange belongs to the hour of its reserve.
        Hours and days are told by their beginning, such as ``"2026-11-30T04:00:00Z"``
        and ``"2026-11-30"`` (UTC). A user is told by their code, see
        `tokenweir.core.partition.user_code`; or `NO_USER`, where refusals and matched
        quotas are counted too, or `FORGOTTEN_USER`.

    Raises:
        LedgerUnavailableError: There was no answer in time.
    """
    tags = all_tags() if tenant is None else (tag_of(tenant),)
    by_user = GroupBy.USER in by
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for rollup in await store.rollups(tags, first_hour, last_hour, with_users=by_user):
        times = (_hour(rollup.hour), _day(rollup.hour))
        for names, figures in _groups(rollup, by_user=by_user):
            if tenant in (None, names[GroupBy.TENANT]):
                group = (*names, *times)
                total = sums.setdefault(tuple(group[place] for place in by), Counter())
                total.update(figures)
    found = {group: difference(figures, {}) for group, figures in sums.items()}
    return {group: figures for group, figures in found.items() if figures}


async def outstanding(
    store: Readable, tags: Sequence[str] | None = None
) -> Outstanding:
    """
    Return what is outstanding under *tags*; None: under all.

    Raises:
        LedgerUnavailableError: There was no answer in time.
    """
    found = await store.holdings(all_tags() if tags is None else tags)
    reserved: Counter[str] = Counter()
    for holding in found:
        for taken in holding.taken:
            is_slot = taken.axis is Axis.CONCURRENCY
            reserved[taken.key] += 1 if is_slot else taken.taken
    return Outstanding(len(found), dict(reserved))


def _groups(
    rollup: Rollup, *, by_user: bool
) -> Iterator[tuple[tuple[str, ...], Mapping[str, int]]]:
    """Yield the groups of *rollup*, user included, and the figures of each."""
    users = _by_group(rollup.users, len(GROUP) + 1)
    of_users: dict[tuple[str, ...], Counter[str]] = {}
    for group, figures in users.items():
        of_users.setdefault(group[:-1], Counter()).update(figures)
        yield group, figures
    for group, figures in _by_group(rollup.sums, len(GROUP)).items():
        rest = difference(figures, of_users.get(group, {}))
        # Sums by user end before the others do: then some are missing from them.
        is_whole = not by_user or not rest.get(WITH_USER)
        yield (*group, NO_USER if is_whole else FORGOTTEN_USER), rest


def _by_group(
    sums: Mapping[str, int], names: int
) -> dict[tuple[str, ...], dict[str, int]]:
    groups: dict[tuple[str, ...], dict[str, int]] = {}
    for name, figure in sums.items():
        *group, metric = name.split(SEPARATOR)
        # Sums of former versions do not tell the provider and the route.
        padded = (*group, *[""] * (names - len(group)))
        figures = groups.setdefault(padded, {})
        figures[metric] = figures.get(metric, 0) + figure
    return groups


def _hour(hour: int) -> str:
    return _moment(hour).strftime("%Y-%m-%dT%H:%M:%SZ")


def _day(hour: int) -> str:
    return _moment(hour).strftime("%Y-%m-%d")


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3_600, tz=UTC)
