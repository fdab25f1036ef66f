"""
Sums of refusals and matched quotas, on their way to the ledger's rollups.

They are kept here for a few seconds and written together, so that an exchange costs no
call of its own; see `tokenweir.driver.write_behind`. While the ledger is away they wait,
up to a bound; what is lost is counted.

Names come from the policy: a model that it does not know is told as ``"other"``, and
who calls with an unknown key is no tenant, so is not in these sums (metrics count
them). No client can make them grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tokenweir.core.hold import Subject
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Policy
from tokenweir.core.record import SEPARATOR, group_of, hour_of
from tokenweir.core.tally import tally_of
from tokenweir.driver.write_behind import INTERVAL_SECONDS, WriteBehind
from tokenweir.ledger.store import Tallying
from tokenweir.telemetry.hooks import ExchangeDetails, LedgerEvents
from tokenweir.telemetry.labels import OTHER

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
        self._max_waiting = max_waiting
        self._policy: Policy | None = None
        self._sums: dict[tuple[str, int], dict[str, int]] = {}
        self._waiting = 0
        self._writer = WriteBehind("tally", self, _write, interval_seconds)

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
        self._writer.start(store, events)

    async def stop(self) -> None:
        """Write what waits, and end. What can't be written is lost."""
        await self._writer.stop()

    async def flush(self, store: Tallying) -> None:
        """Write what waits to *store*, if it answers."""
        await self._writer.flush(store)

    # === what waits, for the writer ============================================

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._sums

    def take(self) -> list[Batch]:
        """Give away all that waits, each batch for one call."""
        taken, self._sums, self._waiting = self._sums, {}, 0
        return [
            (tag, hour, dict(list(sums.items())[first : first + PER_CALL]))
            for (tag, hour), sums in taken.items()
            for first in range(0, len(sums), PER_CALL)
        ]

    def put_back(self, batch: Batch) -> None:
        """Let *batch*, which was not sent, wait again."""
        self._add(*batch)

    def lose(self, batch: Batch) -> None:
        """Count *batch* as lost."""
        self._lose(batch[2].values())

    # === parts =================================================================

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


async def _write(store: Tallying, batch: Batch) -> None:
    await store.tally(*batch)
