"""
Sums of refusals and matched quotas, on their way to the ledger's rollups.

They are kept here for a few seconds and written together, so that an exchange costs no
call of its own. What is written is written at most once: a batch that may have been
applied is never sent again, and what is lost so is counted. As long as the ledger
answers nothing no batch is sent, and sums wait for it, up to a bound.

Names come from the policy: a model that it does not know is told as ``"other"``, and
who calls with an unknown key is no tenant, so is not in these sums (metrics count
them). No client can make them grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.hold import Subject
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Policy
from tokenweir.core.record import SEPARATOR, group_of, hour_of
from tokenweir.core.tally import tally_of
from tokenweir.ledger.store import Tallying
from tokenweir.telemetry.hooks import ExchangeDetails, LedgerEvents
from tokenweir.telemetry.labels import OTHER

INTERVAL_SECONDS = 5.0
# Figures that wait: a few megabytes. A policy's tenants and models make no more, but in
# fleets where one processor sees all of them while the ledger is away.
MAX_WAITING = 20_000
# Figures of one call: a script has them all as arguments, and takes a millisecond.
PER_CALL = 400

Batch = tuple[str, int, Mapping[str, int]]


class Tally:
    """
    Counts exchanges for the rollups. It is an `OnExchangeEnd`, and does not raise.

    Args:
        on_lost: Told how many refusals and matches no report will show.
        now_ms: The time of day.
        interval_seconds: Between two writes.
        max_waiting: Figures; what would be one more is lost.
    """

    def __init__(
        self,
        on_lost: Callable[[int], None],
        now_ms: Callable[[], int],
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._on_lost = on_lost
        self._now_ms = now_ms
        self._interval_seconds = interval_seconds
        self._max_waiting = max_waiting
        self._policy: Policy | None = None
        self._sums: dict[tuple[str, int], dict[str, int]] = {}
        self._waiting = 0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def use_policy(self, policy: Policy) -> None:
        """Let *policy* say which models there are."""
        self._policy = policy

    def __call__(self, details: ExchangeDetails) -> None:
        """Count an exchange."""
        subject = details.subject
        if not subject.tenant:
            return
        figures = tally_of(details.rejection, details.shadowed, details.quotas)
        if figures:
            is_recorded = details.settlement is not None
            group = group_of(self._labels(subject, is_recorded=is_recorded))
            named = {f"{group}{SEPARATOR}{name}": n for name, n in figures.items()}
            self._add(tag_of(subject.tenant), hour_of(self._now_ms()), named)

    def start(self, store: Tallying, events: LedgerEvents) -> None:
        """Write to *store* from now on, again and again; *events* are told of faults."""
        self._task = asyncio.create_task(self._run(store, events))

    async def stop(self) -> None:
        """Write what waits, and end. What can't be written is lost."""
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None
        self._lose(figure for sums in self._sums.values() for figure in sums.values())
        self._sums, self._waiting = {}, 0

    async def flush(self, store: Tallying) -> None:
        """Write what waits to *store*, if it answers."""
        if not self._sums:
            return
        try:
            await store.ping()
        except LedgerUnavailableError:
            return
        batches = self._take()
        try:
            while batches and await self._write(store, batches.pop()):
                pass
        finally:
            for batch in batches:
                self._add(*batch)

    # === parts =================================================================

    async def _run(self, store: Tallying, events: LedgerEvents) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._interval_seconds)
            is_last = self._stopping.is_set()
            try:
                await self.flush(store)
            except Exception as error:  # noqa: BLE001, nobody would start it again
                events.fault("tally", error)

    async def _write(self, store: Tallying, batch: Batch) -> bool:
        """Write *batch*, once; return whether another may fare better."""
        is_written = False
        try:
            await store.tally(*batch)
            is_written = True
        except LedgerRefusedError:
            return True
        except LedgerUnavailableError:
            return False
        finally:
            if not is_written:
                self._lose(batch[2].values())
        return True

    def _add(self, tag: str, hour: int, figures: Mapping[str, int]) -> None:
        sums = self._sums.setdefault((tag, hour), {})
        for name, figure in figures.items():
            if name in sums:
                sums[name] += figure
            elif self._waiting < self._max_waiting:
                sums[name] = figure
                self._waiting += 1
            else:
                self._lose((figure,))

    def _take(self) -> list[Batch]:
        taken, self._sums, self._waiting = self._sums, {}, 0
        return [
            (tag, hour, dict(list(sums.items())[first : first + PER_CALL]))
            for (tag, hour), sums in taken.items()
            for first in range(0, len(sums), PER_CALL)
        ]

    def _lose(self, figures: Iterable[int]) -> None:
        lost = sum(figures)
        if lost:
            self._on_lost(lost)

    def _labels(self, subject: Subject, *, is_recorded: bool) -> Mapping[str, str]:
        """Return what the sums of *subject* are kept apart by."""
        model = self._policy.model(subject.model) if self._policy else None
        name = subject.model
        if name and not is_recorded:  # who records it has judged the name
            name = OTHER if model is None else model.name
        labels = {
            "tenant": subject.tenant,
            "key": subject.key_id,
            "model": name,
            "provider": subject.provider or (model.provider if model else ""),
            "route": subject.route,
        }
        return {label: text.replace(SEPARATOR, " ") for label, text in labels.items()}
