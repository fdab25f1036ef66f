"""Counts exchanges and events for Prometheus. The metrics are `instruments`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from tokenweir.core.budget import NANOUSD_PER_USD, Crossing
from tokenweir.core.hold import CAP_REACHED, UNSET, Settlement, Subject
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT
from tokenweir.core.policy import Policy
from tokenweir.core.pricing import UNPRICED
from tokenweir.core.reason import Reason, reason_of
from tokenweir.core.rejection import QuotaExhausted, Rejection, Unsatisfiable
from tokenweir.telemetry.decision import decision_of
from tokenweir.telemetry.hooks import FROM_FILE, Delivery, ExchangeDetails, Origin
from tokenweir.telemetry.instruments import Instruments
from tokenweir.telemetry.labels import NONE, Labels


class Metrics:
    """
    Is `OnExchangeEnd` and `Events` at once.

    Attributes:
        registry: For the admin server; holds nothing but these metrics.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._instruments = Instruments(self.registry)
        self._labels = Labels()
        self._ineffective: Mapping[tuple[str, str], int] = {}

    def use_policy(self, policy: Policy) -> None:
        """
        Let *policy* say which label values there are.

        Every quota of it shows up at 0 from now on, so that one that never
        matches is seen; those that it no longer has are gone.
        """
        before, self._labels = self._labels, Labels(policy)
        matched = self._instruments.quota_matched
        last_matched = self._instruments.quota_last_matched
        for quota in self._labels.quotas:
            matched.labels(quota)
            last_matched.labels(quota)
            self._instruments.refusals.labels(Reason.QUOTA_EXHAUSTED, quota)
        for quota in before.quotas - self._labels.quotas:
            matched.remove(quota)
            last_matched.remove(quota)

    def watch_holds(self, count: Callable[[], float]) -> None:
        """Have *count* asked for the holds outstanding, at each scrape."""
        self._instruments.holds_outstanding.set_function(count)

    def sink_failed(self, sink: str) -> None:
        """A telemetry sink raised."""
        self._instruments.sink_errors.labels(sink).inc()

    def tally_lost(self, count: int) -> None:
        """So many refusals and matched quotas are missing from usage reports."""
        self._instruments.tally_lost.inc(count)

    def prompts_lost(self, count: int) -> None:
        """So many parts of prompts are missing from audits."""
        self._instruments.prompts_lost.inc(count)

    def envoy_updated(self, outcome: str) -> None:
        """Envoy was told of a change, and *outcome* is what it has made of it."""
        self._instruments.envoy_updates.labels(outcome).inc()

    def line_dropped(self) -> None:
        """A log line was dropped."""
        self._instruments.log_lines_dropped.inc()

    # === OnExchangeEnd =========================================================

    def __call__(self, details: ExchangeDetails) -> None:
        """Count an exchange."""
        limit = NONE
        if details.rejection is not None:
            limit = self._refused(details.rejection)
        self._instruments.exchanges.labels(decision_of(details), limit).inc()
        self._matched(details.quotas)
        for failure in details.shadowed:
            label = self._labels.quota(failure.quota)
            self._instruments.shadow_refusals.labels(label).inc()
        if details.settlement is not None:
            self._settled(details.subject, details.settlement)
            self._saved(details.subject, details.settlement)
        self._instruments.governor.observe(details.governor_ms / 1_000)
        self._instruments.governor_ledger.observe(details.ledger_ms / 1_000)

    def _matched(self, quotas: Sequence[str]) -> None:
        now_s = self._clock() if quotas else 0
        for quota in quotas:
            label = self._labels.quota(quota)
            self._instruments.quota_matched.labels(label).inc()
            self._instruments.quota_last_matched.labels(label).set(now_s)

    def _refused(self, rejection: Rejection) -> str:
        """Count a refusal, by the worst quota if there is one; return its limit."""
        quota, limit = NONE, NONE
        match rejection:
            case QuotaExhausted(failures=(worst, *_)):
                quota, limit = self._labels.quota(worst.quota), str(worst.axis)
            case Unsatisfiable():
                quota, limit = self._labels.quota(rejection.quota), str(rejection.axis)
            case _:
                pass
        self._instruments.refusals.labels(reason_of(rejection), quota).inc()
        return limit

    def _settled(self, subject: Subject, settlement: Settlement) -> None:
        model = self._labels.model(subject.model)
        route = subject.route or NONE
        outcome = settlement.outcome
        self._instruments.outcomes.labels(outcome, route).inc()
        self._instruments.duration.labels(model, route, outcome).observe(
            settlement.duration_ms / 1_000
        )
        if settlement.first_token_ms is not None:
            self._instruments.first_token.labels(model, route).observe(
                settlement.first_token_ms / 1_000
            )
        provider = self._labels.provider(subject.provider)
        self._instruments.attempts.labels(provider).inc(settlement.requests)
        if IMPLAUSIBLE_REPORT in settlement.flags:
            self._instruments.implausible_reports.labels(provider, model).inc()
        if UNPRICED in settlement.flags:
            self._instruments.unpriced.labels(provider, model).inc()
        tenant = self._labels.tenant(subject.tenant)
        cost_usd = settlement.cost_nanousd / NANOUSD_PER_USD
        self._instruments.cost_usd.labels(tenant, model).inc(cost_usd)
        for name, tokens in settlement.usage.by_class().items():
            self._instruments.tokens.labels(
                name.removesuffix("_tokens"), settlement.source, tenant, model
            ).inc(tokens)

    def _saved(self, subject: Subject, settlement: Settlement) -> None:
        tenant = self._labels.tenant(subject.tenant)
        model = self._labels.model(subject.model)
        if subject.output_cap:
            how = "set" if subject.capped_from == UNSET else "lowered"
            self._instruments.capped.labels(how, tenant, model).inc()
        if CAP_REACHED in settlement.flags:
            self._instruments.cap_reached.labels(tenant, model).inc()
        for by, saved in (
            ("downgrade", settlement.saved_nanousd),
            ("cap", settlement.cap_saved_nanousd),
        ):
            if saved:
                saved_usd = saved / NANOUSD_PER_USD
                self._instruments.saved_usd.labels(by, tenant, model).inc(saved_usd)

    # === Events ================================================================

    def ledger_call(
        self,
        verb: str,
        seconds: float,
        *,
        failed: bool,
        reason: str = "",  # noqa: ARG002, the log has it
    ) -> None:
        """Time a ledger call; a failed one counts as such and is timed too."""
        self._instruments.ledger_call.labels(verb).observe(seconds)
        failures = self._instruments.ledger_failures.labels(verb)
        if failed:
            failures.inc()

    def ledger_evicts(self, policy: str) -> None:
        """Tell if the ledger's server would drop keys."""
        self._instruments.ledger_evicts.set(bool(policy))

    def holds_reaped(self, count: int) -> None:
        """Count holds that nobody had settled."""
        self._instruments.holds_lost.inc(count)

    def budget_crossed(self, crossing: Crossing) -> None:
        """Count a threshold of a budget that was passed."""
        quota = self._labels.quota(crossing.limit.partition("|")[0])
        self._instruments.budget_crossed.labels(quota, crossing.percent).inc()

    def spool_size(self, waiting: int) -> None:
        """Tell how many settles wait."""
        self._instruments.spool.set(waiting)

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """Tell which policy is in use, and since when."""
        self._instruments.policy.info(
            {
                "digest": digest,
                "source": origin.source,
                "version": str(origin.version),
                "keys_version": str(origin.keys_version),
            }
        )
        self._instruments.policy_loaded.set(self._clock())

    def policy_refused(self, problems: tuple[str, ...]) -> None:  # noqa: ARG002
        """Count a changed policy that can't be used; the log has its problems."""
        self._instruments.policy_refused.inc()

    def webhook(
        self,
        outcome: Delivery,
        waiting: int,
        reason: str = "",  # noqa: ARG002, the log has it
    ) -> None:
        """Count what became of a message, and tell how many wait."""
        self._instruments.webhook_messages.labels(outcome).inc()
        self._instruments.webhook_waiting.set(waiting)

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        """Tell how much of the policy Envoy has to be rendered anew for."""
        self._instruments.envoy_outdated.set(len(stale))

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:  # noqa: ARG002
        """Tell which quotas have no effect; beyond a bound, how many."""
        gauge, before = self._instruments.quotas_ineffective, self._ineffective
        self._ineffective = Counter(
            (self._labels.quota(quota), reason) for quota, reason in found.items()
        )
        # What stays is never away meanwhile: a scrape is done by another thread.
        for labels, count in self._ineffective.items():
            gauge.labels(*labels).set(count)
        for labels in before.keys() - self._ineffective.keys():
            gauge.remove(*labels)

    def fault(self, where: str, error: BaseException) -> None:  # noqa: ARG002
        """Count what broke; the log has its type and place."""
        self._instruments.faults.labels(where).inc()
