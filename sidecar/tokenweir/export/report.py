"""
What an exporter tells: log lines and metrics.

A ledger or sink that is away is told once, and once more when it is back. No line holds
anything of a record but its tag and entry.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tokenweir.export.instruments import ExportInstruments
from tokenweir.export.lag import Lag
from tokenweir.export.record import BadEntry
from tokenweir.telemetry.logs import JsonLog, Level
from tokenweir.telemetry.throttle import Throttle

DEAD_LETTER = "dead_letter"


class Report:
    """Tells *log* and *instruments*."""

    def __init__(self, log: JsonLog, instruments: ExportInstruments) -> None:
        self._log = log
        self._instruments = instruments
        self._throttle = Throttle(time.monotonic)
        self._away: str | None = None

    def started(self, sink: str, group: str, consumer: str) -> None:
        """It is about to read."""
        self._log.event("export_started", sink=sink, group=group, consumer=consumer)

    def stopped(self, *, drained: bool) -> None:
        """It has ended; *drained*: nothing was left in hand."""
        level = Level.INFO if drained else Level.WARNING
        self._log.event("export_stopped", level, drained=drained)

    def away(self, where: str, reason: str, wait_seconds: float) -> None:
        """The ledger or the sink does not answer, for now."""
        self._instruments.failures.labels(where).inc()
        if self._away != where:
            self._away = where
            self._log.event(
                "export_waiting",
                Level.WARNING,
                where=where,
                reason=reason,
                wait_seconds=round(wait_seconds, 1),
            )

    def exported(self, records: int) -> None:
        """A sink has made so many durable, and the ledger has heard of it."""
        self._instruments.records.inc(records)

    def well(self) -> None:
        """All streams were read, and nothing was away."""
        self._instruments.last.set_to_current_time()
        if self._away is not None:
            self._log.event("export_resumed", where=self._away)
            self._away = None

    def expired(self, count: int) -> None:
        """So many entries were gone before they were exported."""
        if count:
            self._instruments.expired.inc(count)
            self._log.event("export_expired", Level.ERROR, count=count)

    def dead_letters(self, bad: Sequence[BadEntry], refused: int) -> None:
        """*bad* were no records, and the sink has refused so many of the others."""
        self._instruments.dead_letters.inc(len(bad) + refused)
        for entry in bad:
            self._dead_letter(tag=entry.tag, entry=entry.entry, problem=entry.problem)
        if refused:
            self._dead_letter(problem="the sink refuses it", count=refused)

    def _dead_letter(self, **fields: object) -> None:
        left_out = self._throttle.admit(DEAD_LETTER)
        if left_out is None:
            return
        if left_out:
            fields["left_out"] = left_out
        self._log.event(DEAD_LETTER, Level.ERROR, **fields)

    def lag(self, lag: Lag) -> None:
        """How far behind the group is."""
        self._instruments.behind.set(lag.behind)
        self._instruments.oldest.set((lag.oldest_age_ms or 0) / 1_000)
