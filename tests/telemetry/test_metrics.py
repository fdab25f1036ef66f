from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.exchanges import (
    ADMITTED,
    REFUSED,
    SETTLEMENT,
    SUBJECT,
    TPM_FAILURE,
    policy_of,
)
from tokenweir.core.budget import Crossing
from tokenweir.core.hold import CAP_REACHED
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import InternalFault, UnknownKey, Unsatisfiable
from tokenweir.core.usage import TokenUsage
from tokenweir.core.window import Window
from tokenweir.telemetry.hooks import Delivery, Origin
from tokenweir.telemetry.metrics import Metrics

RPM, TPM = "acme.requests_per_minute", "acme.tokens_per_minute"


@pytest.fixture
def metrics() -> Metrics:
    """Return metrics that know a policy."""
    metrics = Metrics(clock=lambda: 1_767_268_800.0)
    metrics.use_policy(policy_of(RPM, TPM))
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return a sample, or None if there is no such one."""
    return metrics.registry.get_sample_value(f"tokenweir_{name}", labels)


def label_values(metrics: Metrics, label: str) -> set[str]:
    """Return every value that *label* has in what is exposed."""
    text = generate_latest(metrics.registry).decode()
    return {
        sample.labels[label]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if label in sample.labels
    }


def test_admitted(metrics: Metrics) -> None:
    """An admitted exchange counts once as such, and its quotas as matched."""
    metrics(ADMITTED)

    assert value(metrics, "exchanges_total", decision="admitted", limit="none") == 1
    assert value(metrics, "quota_matched_total", quota=TPM) == 1
    assert value(
        metrics, "outcomes_total", outcome="completed", route="chat_completions"
    )
    assert value(metrics, "upstream_attempts_total", provider="openai") == 2


def test_tokens(metrics: Metrics) -> None:
    """Tokens count by class and source, for tenant and model."""
    metrics(ADMITTED)
    metrics(ADMITTED)
    labels = {"source": "reported", "tenant": "acme", "model": "gpt-4o-mini"}

    assert value(metrics, "tokens_total", **labels, **{"class": "input"}) == 200
    assert value(metrics, "tokens_total", **labels, **{"class": "cached_input"}) == 40
    assert value(metrics, "tokens_total", **labels, **{"class": "reasoning"}) == 10
    assert value(metrics, "tokens_total", **labels, **{"class": "audio_input"}) is None


def test_times(metrics: Metrics) -> None:
    """Durations are in seconds, by model and route."""
    metrics(ADMITTED)
    labels = {"model": "gpt-4o-mini", "route": "chat_completions"}

    assert value(metrics, "time_to_first_token_seconds_sum", **labels) == 0.24
    assert value(metrics, "governor_seconds_sum") == 0.00325
    assert value(metrics, "governor_ledger_seconds_sum") == 0.0015
    assert (
        value(metrics, "request_duration_seconds_sum", **labels, outcome="completed")
        == 1.5
    )


def test_cost(metrics: Metrics) -> None:
    """Money is counted in US dollars; what has no price is counted apart."""
    assert SETTLEMENT.cost_nanousd == 33_000
    metrics(ADMITTED)
    unpriced = replace(SETTLEMENT, flags=("unpriced",))
    metrics(replace(ADMITTED, settlement=unpriced))

    labels = {"tenant": "acme", "model": "gpt-4o-mini"}
    assert value(metrics, "cost_usd_total", **labels) == pytest.approx(0.000066)
    labels = {"provider": "openai", "model": "gpt-4o-mini"}
    assert value(metrics, "unpriced_total", **labels) == 1


def test_caps_and_savings(metrics: Metrics) -> None:
    """How often a cap was the policy's, how often it was reached, and what was saved."""
    labels = {"tenant": "acme", "model": "gpt-4o-mini"}
    lowered = replace(SUBJECT, capped_from="2000", output_cap="300")
    reached = replace(SETTLEMENT, flags=(CAP_REACHED,), cap_saved_nanousd=2_000_000_000)
    cheaper = replace(SETTLEMENT, saved_nanousd=500_000_000)
    metrics(ADMITTED)
    metrics(replace(ADMITTED, subject=lowered, settlement=reached))
    metrics(replace(ADMITTED, subject=replace(lowered, capped_from="unset")))
    metrics(replace(ADMITTED, settlement=cheaper))

    assert value(metrics, "capped_total", how="lowered", **labels) == 1
    assert value(metrics, "capped_total", how="set", **labels) == 1
    assert value(metrics, "cap_reached_total", **labels) == 1
    assert value(metrics, "saved_usd_total", by="cap", **labels) == 2.0
    assert value(metrics, "saved_usd_total", by="downgrade", **labels) == 0.5


def test_budget_crossed(metrics: Metrics) -> None:
    """By quota and threshold; one that the policy does not have is other."""
    for limit in ("acme.tokens_per_minute|x|tenant=acme", "forged|y"):
        metrics.budget_crossed(Crossing(limit, 80, 9, 10, Window(0, 9)))

    for quota in ("acme.tokens_per_minute", "other"):
        labels = {"quota": quota, "percent": "80"}
        assert value(metrics, "budget_crossed_total", **labels) == 1


def test_implausible_reports(metrics: Metrics) -> None:
    """A report that was not believed counts by who made it."""
    metrics(ADMITTED)
    flags = ("ledger_open", "implausible_report")
    metrics(replace(ADMITTED, settlement=replace(SETTLEMENT, flags=flags)))
    labels = {"provider": "openai", "model": "gpt-4o-mini"}

    assert value(metrics, "implausible_reports_total", **labels) == 1


def test_no_first_token(metrics: Metrics) -> None:
    """An answer that is no stream has no time to first token."""
    metrics(replace(ADMITTED, settlement=replace(SETTLEMENT, first_token_ms=None)))
    labels = {"model": "gpt-4o-mini", "route": "chat_completions"}

    assert value(metrics, "time_to_first_token_seconds_count", **labels) is None


def test_refused(metrics: Metrics) -> None:
    """A refusal counts once, by the worst quota, however many failed."""
    metrics(REFUSED)

    assert value(
        metrics, "exchanges_total", decision="refused", limit="tokens_per_minute"
    )
    assert value(metrics, "refusals_total", reason="quota_exhausted", quota=TPM) == 1
    assert value(metrics, "refusals_total", reason="quota_exhausted", quota=RPM) == 0


def test_refused_for_other_reasons(metrics: Metrics) -> None:
    """A refusal without a quota counts by its reason; one that never fits has one."""
    never = Unsatisfiable(TPM, Axis.TOKENS, "tenant=acme", 1, 2)
    metrics(replace(REFUSED, rejection=UnknownKey("no")))
    metrics(replace(REFUSED, rejection=never))

    assert value(metrics, "exchanges_total", decision="refused", limit="none") == 1
    assert value(metrics, "refusals_total", reason="unknown_key", quota="none") == 1
    assert value(metrics, "refusals_total", reason="request_exceeds_limit", quota=TPM)


def test_shadow(metrics: Metrics) -> None:
    """What a shadow quota would have refused counts apart from refusals."""
    metrics(replace(ADMITTED, shadowed=(replace(TPM_FAILURE, shadow=True),)))

    assert value(metrics, "shadow_refusals_total", quota=TPM) == 1
    assert value(metrics, "refusals_total", reason="quota_exhausted", quota=TPM) == 0


def test_a_quota_that_never_matched_is_seen(metrics: Metrics) -> None:
    """Every quota of the policy is there at 0 from the beginning."""
    assert value(metrics, "quota_matched_total", quota=RPM) == 0
    assert value(metrics, "quota_matched_total", quota=TPM) == 0


def test_a_reload_changes_the_quotas(metrics: Metrics) -> None:
    """After a reload new quotas are there at 0, old ones are gone, others go on."""
    metrics(ADMITTED)
    metrics.use_policy(policy_of(TPM, "acme.concurrency"))

    assert value(metrics, "quota_matched_total", quota=TPM) == 1
    assert value(metrics, "quota_matched_total", quota="acme.concurrency") == 0
    assert value(metrics, "quota_matched_total", quota=RPM) is None


def test_labels_are_bounded(metrics: Metrics) -> None:
    """S06: a client that invents models, tenants and users adds no label value."""
    for n in range(50):
        subject = replace(
            SUBJECT, model=f"m{n}", tenant=f"t{n}", provider=f"p{n}", user=f"u{n}"
        )
        metrics(replace(ADMITTED, subject=subject, quotas=(f"q{n}",)))

    assert label_values(metrics, "model") == {"other"}
    assert label_values(metrics, "tenant") == {"other"}
    assert label_values(metrics, "provider") == {"other"}
    assert label_values(metrics, "quota") == {RPM, TPM, "other"}


def test_no_canary(metrics: Metrics) -> None:
    """S08: neither keys nor users nor the text of errors show up in metrics."""
    metrics(
        replace(
            ADMITTED,
            subject=replace(SUBJECT, model="sk-CANARY1", user="CANARY2"),
            method="CANARY3",
        )
    )
    metrics(replace(REFUSED, rejection=UnknownKey("sk-CANARY1")))
    metrics.fault("request", ValueError("sk-CANARY1"))
    metrics.policy_refused(("providers.x.credential: CANARY2",))

    assert b"CANARY" not in generate_latest(metrics.registry)


def test_ledger(metrics: Metrics) -> None:
    """Ledger calls are timed by verb; those without an answer count apart."""
    metrics.ledger_call("reserve", 0.002, failed=False)
    metrics.ledger_call("reserve", 0.25, failed=True)

    assert value(metrics, "ledger_call_seconds_count", verb="reserve") == 2
    assert value(metrics, "ledger_failures_total", verb="reserve") == 1


def test_ledger_without_failures(metrics: Metrics) -> None:
    """A verb that never failed is there at 0, so that a rate can be taken."""
    metrics.ledger_call("settle", 0.002, failed=False)

    assert value(metrics, "ledger_failures_total", verb="settle") == 0


def test_holds(metrics: Metrics) -> None:
    """Holds outstanding are asked for at each scrape; lost ones count."""
    holds = [1, 2, 3]
    metrics.watch_holds(lambda: len(holds))
    metrics.holds_reaped(4)

    assert value(metrics, "holds_outstanding") == 3
    holds.pop()
    assert value(metrics, "holds_outstanding") == 2
    assert value(metrics, "holds_lost_total") == 4


def test_events(metrics: Metrics) -> None:
    """Spool, faults, dropped lines and broken sinks are counted."""
    metrics.spool_size(7)
    metrics.fault("session", ValueError())
    metrics.line_dropped()
    metrics.prompts_lost(3)
    metrics.tally_lost(5)
    metrics.sink_failed("JsonLog")

    assert value(metrics, "spool_settles") == 7
    assert value(metrics, "faults_total", where="session") == 1
    assert value(metrics, "log_lines_dropped_total") == 1
    assert value(metrics, "prompts_lost_total") == 3
    assert value(metrics, "tally_lost_total") == 5
    assert value(metrics, "sink_errors_total", sink="JsonLog") == 1


def test_webhook(metrics: Metrics) -> None:
    """Tries are counted by how they ended, from 0 on, and who waits is told."""
    before = value(metrics, "webhook_messages_total", outcome="failed")
    metrics.webhook(Delivery.FAILED, 3, "status_500")
    metrics.webhook(Delivery.DELIVERED, 2)

    assert before == 0
    assert value(metrics, "webhook_messages_total", outcome="failed") == 1
    assert value(metrics, "webhook_messages_total", outcome="delivered") == 1
    assert value(metrics, "webhook_messages_total", outcome="dropped") == 0
    assert value(metrics, "webhook_waiting") == 2


def test_eviction(metrics: Metrics) -> None:
    """1 as long as the ledger's server would drop keys."""
    seen = []
    for policy in ("allkeys-lru", ""):
        metrics.ledger_evicts(policy)
        seen.append(value(metrics, "ledger_evicts"))

    assert seen == [1, 0]


def test_policy(metrics: Metrics) -> None:
    """One policy is in use at a time, since a moment; refused ones count."""
    metrics.policy_loaded("0123456789ab")
    metrics.policy_loaded("ba9876543210")
    metrics.policy_refused(("tenants: missing",))

    origin = {"source": "file", "version": "0", "keys_version": "0"}
    assert value(metrics, "policy_info", digest="ba9876543210", **origin) == 1
    assert value(metrics, "policy_info", digest="0123456789ab", **origin) is None
    assert value(metrics, "policy_loaded_timestamp_seconds") == 1_767_268_800
    assert value(metrics, "policy_refused_total") == 1


def test_a_published_policy(metrics: Metrics) -> None:
    """Of what was published it is told which version is in use, by whatever way."""
    metrics.policy_loaded("0123456789ab", Origin("last_good", 7, keys_version=3))

    labels = {"source": "last_good", "version": "7", "keys_version": "3"}
    assert value(metrics, "policy_info", digest="0123456789ab", **labels) == 1


def test_envoy_rendering(metrics: Metrics) -> None:
    """It is told for how many parts of the policy Envoy has to be rendered anew."""
    metrics.envoy_rendering(("providers.openai", "retries"))
    assert value(metrics, "envoy_outdated") == 2
    metrics.envoy_rendering(())

    assert value(metrics, "envoy_outdated") == 0


def test_envoy_updates(metrics: Metrics) -> None:
    """Changes that Envoy was told of are counted, by what it has made of them."""
    for outcome in ("applied", "refused", "applied"):
        metrics.envoy_updated(outcome)

    assert value(metrics, "envoy_updates_total", outcome="applied") == 2
    assert value(metrics, "envoy_updates_total", outcome="refused") == 1


def test_quotas_ineffective(metrics: Metrics) -> None:
    """Each is told with its reason, until it has an effect, or another reason."""
    metrics.quotas_ineffective("d", {RPM: "outdone", TPM: "misspelt"})
    assert value(metrics, "quotas_ineffective", quota=RPM, reason="outdone") == 1
    metrics.quotas_ineffective("d", {RPM: "no_keys"})

    assert value(metrics, "quotas_ineffective", quota=RPM, reason="outdone") is None
    assert value(metrics, "quotas_ineffective", quota=RPM, reason="no_keys") == 1
    assert value(metrics, "quotas_ineffective", quota=TPM, reason="misspelt") is None
    metrics.quotas_ineffective("d", {})
    assert not label_values(metrics, "reason") & {"outdone", "no_keys", "misspelt"}


def test_more_quotas_than_are_told_apart(metrics: Metrics) -> None:
    """Beyond the bound it is told how many have no effect."""
    metrics.quotas_ineffective("d", {"x": "outdone", "y": "outdone", TPM: "outdone"})

    assert value(metrics, "quotas_ineffective", quota="other", reason="outdone") == 2
    assert value(metrics, "quotas_ineffective", quota=TPM, reason="outdone") == 1


def test_when_a_quota_last_matched() -> None:
    """It is the moment of the last exchange; 0 as long as there was none."""
    moments = iter([100.0, 200.0])
    metrics = Metrics(clock=lambda: next(moments))
    metrics.use_policy(policy_of(RPM, TPM))
    name = "quota_last_matched_timestamp_seconds"
    assert (value(metrics, name, quota=RPM), value(metrics, name, quota=TPM)) == (0, 0)
    metrics(replace(ADMITTED, quotas=(TPM,)))
    metrics(replace(ADMITTED, quotas=()))
    assert value(metrics, name, quota=TPM) == 100.0
    metrics.use_policy(policy_of(TPM))
    metrics(replace(ADMITTED, quotas=(TPM,)))

    assert value(metrics, name, quota=TPM) == 200.0
    assert value(metrics, name, quota=RPM) is None


def test_abandoned(metrics: Metrics) -> None:
    """An exchange whose client left before the answer is neither of the others."""
    metrics(replace(ADMITTED, settlement=None))

    assert value(metrics, "exchanges_total", decision="abandoned", limit="none") == 1


def test_before_a_policy() -> None:
    """Exchanges that are refused before any policy is known count as well."""
    metrics = Metrics()
    metrics(replace(REFUSED, rejection=InternalFault(1)))
    settlement = replace(SETTLEMENT, usage=TokenUsage(output_tokens=3))
    metrics(
        replace(ADMITTED, subject=replace(SUBJECT, route=""), settlement=settlement)
    )

    assert value(metrics, "refusals_total", reason="internal_fault", quota="none") == 1
    assert value(metrics, "outcomes_total", outcome="completed", route="none") == 1


def test_two_registries() -> None:
    """Two processors in one process, as in tests, do not share metrics."""
    first, second = Metrics(), Metrics()
    first.holds_reaped(1)

    assert value(second, "holds_lost_total") == 0
