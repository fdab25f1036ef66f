"""
The records of exchanges under one tag, and their sums.

WARNING: `ledger/lua/rollups.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.core import record
from tokenweir.core.holding import Holding

# The newest that are kept. Here records are for reading back, not for exporting.
MAX_RECORDS = 10_000
# How late a tally may come and still belong to its own hour. It says itself what that
# is, by its processor's clock: beyond that the clock is not believed.
TALLY_HOURS = 24


@dataclass(slots=True)
class RecordBook:
    """
    Attributes:
        records: Usage records, the oldest first.
        rollups: Sums by hour, then by group and figure (see `core.record`).
        user_rollups: Of exchanges that name an end user: by hour, then by group, user
            and figure.
    """

    records: deque[dict[str, str]] = field(
        default_factory=lambda: deque(maxlen=MAX_RECORDS)
    )
    rollups: dict[int, dict[str, int]] = field(default_factory=dict)
    user_rollups: dict[int, dict[str, int]] = field(default_factory=dict)

    def write(
        self, before: Holding, text: Mapping[str, str], increments: Mapping[str, int]
    ) -> None:
        """
        Write a record, or what corrects the one that *before* has already.

        Without *text* another tag keeps the record.
        """
        if not text:
            return
        self.records.append(
            {
                **text,
                "reserved_at_ms": str(before.started_ms),
                "correction": "0" if before.recorded is None else "1",
            }
        )
        hour = record.hour_of(before.started_ms)
        added = record.difference(increments, before.recorded or {})
        group = f"{record.group_of(text)}{record.SEPARATOR}"
        _add(self.rollups.setdefault(hour, {}), group, added)
        if text["user"]:
            of_user = f"{group}{text['user']}{record.SEPARATOR}"
            _add(self.user_rollups.setdefault(hour, {}), of_user, added)

    def tally(self, hour: int, sums: Mapping[str, int], now_ms: int) -> None:
        """
        Add to the rollup of an hour what no record tells.

        Args:
            hour: Since 1970, as the caller has it; at the latest this one, at the
                earliest `TALLY_HOURS` ago.
            sums: By group and figure, as rollups have it.
            now_ms: The moment.
        """
        this_hour = record.hour_of(now_ms)
        hour = min(max(this_hour - TALLY_HOURS, hour), this_hour)
        _add(self.rollups.setdefault(hour, {}), "", sums)


def _add(sums: dict[str, int], prefix: str, added: Mapping[str, int]) -> None:
    for name, figure in added.items():
        field_name = f"{prefix}{name}"
        sums[field_name] = sums.get(field_name, 0) + figure
