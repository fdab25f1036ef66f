"""Reports to several sinks, of which none can stop traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tokenweir.core.budget import Crossing
from tokenweir.telemetry.hooks import (
    FROM_FILE,
    Delivery,
    Events,
    ExchangeDetails,
    OnExchangeEnd,
    Origin,
)


class Sink(OnExchangeEnd, Events, Protocol):
    """Takes exchanges and events, such as a log or metrics."""


class Fanout:
    """
    Is `OnExchangeEnd` and `Events`, and passes each call on to all *sinks*.

    What a sink raises is swallowed: *on_error* is told the class of the sink, and
    may raise itself. The other sinks are called all the same.

    *on_crossing* is told of budgets besides, and does not raise; *on_end* of exchanges.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        on_error: Callable[[str], None] = lambda _: None,
        on_crossing: Callable[[Crossing], None] = lambda _: None,
        on_end: OnExchangeEnd = lambda _: None,
    ) -> None:
        self._sinks = tuple(sinks)
        self._on_error = on_error
        self._on_crossing = on_crossing
        self._on_end = on_end

    def __call__(self, details: ExchangeDetails) -> None:
        """See `OnExchangeEnd`."""
        self._each(lambda sink: sink(details))
        try:
            self._on_end(details)
        except Exception:  # noqa: BLE001 - nor does whoever is no sink
            self._tell(self._on_end)

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """See `LedgerEvents`."""
        self._each(
            lambda sink: sink.ledger_call(verb, seconds, failed=failed, reason=reason)
        )

    def ledger_evicts(self, policy: str) -> None:
        """See `LedgerEvents`."""
        self._each(lambda sink: sink.ledger_evicts(policy))

    def holds_reaped(self, count: int) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.holds_reaped(count))

    def budget_crossed(self, crossing: Crossing) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.budget_crossed(crossing))
        self._on_crossing(crossing)

    def spool_size(self, waiting: int) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.spool_size(waiting))

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.policy_loaded(digest, origin))

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.policy_refused(problems))

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        """See `Events`."""
        self._each(lambda sink: sink.webhook(outcome, waiting, reason))

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.envoy_rendering(stale))

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.quotas_ineffective(digest, found))

    def fault(self, where: str, error: BaseException) -> None:
        """See `Events`."""
        self._each(lambda sink: sink.fault(where, error))

    def _each(self, call: Callable[[Sink], None]) -> None:
        for sink in self._sinks:
            try:
                call(sink)
            except Exception:  # noqa: BLE001 - a broken exporter stops no traffic
                self._tell(sink)

    def _tell(self, sink: object) -> None:
        # Whoever counts the errors may be the broken one.
        with contextlib.suppress(Exception):
            self._on_error(type(sink).__name__)
