"""What was used, by whom; and what is outstanding now."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tokenweir.core.partition import all_tags, tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.record import SEPARATOR
from tokenweir.ledger.store import Readable


class GroupBy(enum.IntEnum):
    """What sums are kept apart by: its place in a rollup's field."""

    TENANT = 0
    KEY = 1
    MODEL = 2


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
        Figures by name (see `tokenweir.core.record.increments_of`), by the values of
        *by* in that order. An exchange belongs to the hour of its reserve.

    Raises:
        LedgerUnavailableError: There was no answer in time.
    """
    tags = all_tags() if tenant is None else (tag_of(tenant),)
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for rollup in await store.rollups(tags, first_hour, last_hour):
        for name, figure in rollup.items():
            *group, metric = name.split(SEPARATOR)
            if tenant in (None, group[GroupBy.TENANT]):
                key = tuple(group[place] for place in by)
                sums.setdefault(key, Counter())[metric] += figure
    return {key: dict(figures) for key, figures in sums.items()}


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
