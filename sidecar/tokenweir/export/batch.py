"""What an exporter has in hand: delivered, and not yet acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tokenweir.export.record import BadEntry, Row, row_of
from tokenweir.export.streams import Delivery


@dataclass(slots=True)
class Batch:
    """
    Entries, sorted by what becomes of them.

    Attributes:
        rows: Usage records, for the sink.
        bad: What is none, for the sink to keep apart.
        expired: How many were gone before anybody had read them.
        taken: Tag and entry of all of them, to be acknowledged.
        since: When the first one came, in seconds of a monotonic clock.
    """

    rows: list[Row] = field(default_factory=list)
    bad: list[BadEntry] = field(default_factory=list)
    expired: int = 0
    taken: list[tuple[str, str]] = field(default_factory=list)
    since: float = 0.0

    def __len__(self) -> int:
        return len(self.taken)

    def add(self, deliveries: Iterable[Delivery], now: float) -> None:
        """Sort *deliveries* in. *now* is by the same clock as `since`."""
        for delivery in deliveries:
            if not self.taken:
                self.since = now
            self.taken.append((delivery.tag, delivery.entry))
            if delivery.fields is None:
                self.expired += 1
                continue
            found = row_of(delivery.tag, delivery.entry, delivery.fields)
            if isinstance(found, Row):
                self.rows.append(found)
            else:
                self.bad.append(found)
