"""Exchanges and a policy for the tests of telemetry."""

from dataclasses import replace

from tokenweir.core.hold import Outcome, Settlement, Subject
from tokenweir.core.policy import Axis, Model, Policy, Provider, Quota, Tenant
from tokenweir.core.rejection import QuotaExhausted, QuotaFailure
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.telemetry.hooks import ExchangeDetails

SUBJECT = Subject(
    tenant="acme",
    key_id="acme-ci",
    user="ann@example.org",
    route="chat_completions",
    model="gpt-4o-mini",
    provider="openai",
    request_id="req-1",
    policy="0123456789ab",
)
SETTLEMENT = Settlement(
    usage=TokenUsage(
        input_tokens=100, cached_input_tokens=20, output_tokens=30, reasoning_tokens=5
    ),
    source=Source.REPORTED,
    outcome=Outcome.COMPLETED,
    requests=2,
    status=200,
    model="gpt-4o-mini-2024-07-18",
    duration_ms=1_500,
    first_token_ms=240,
    cost_nanousd=33_000,
)
ADMITTED = ExchangeDetails(
    SUBJECT,
    method="POST",
    hold_id="1-18f-abc",
    rejection=None,
    settlement=SETTLEMENT,
    governor_ms=3.25,
    ledger_ms=1.5,
    quotas=("acme.requests_per_minute", "acme.tokens_per_minute"),
)
TPM_FAILURE = QuotaFailure(
    "acme.tokens_per_minute",
    Axis.TOKENS,
    "tenant=acme,user=ann@example.org",
    60_000,
    41_000,
    19_000,
    8_200,
    8_200,
)
RPM_FAILURE = QuotaFailure(
    "acme.requests_per_minute", Axis.REQUESTS, "tenant=acme", 600, 600, 0, 1, 100
)
REFUSED = replace(
    ADMITTED,
    hold_id="",
    rejection=QuotaExhausted("acme", (TPM_FAILURE, RPM_FAILURE)),
    settlement=None,
)


def policy_of(*quotas: str, tenants: tuple[str, ...] = ("acme",)) -> Policy:
    """Return a policy in which each tenant has the named quotas."""
    found = {
        name: Tenant(
            name,
            tuple(Quota(quota, Axis.TOKENS, 60_000, 60_000) for quota in quotas),
        )
        for name in tenants
    }
    return Policy(
        digest="0123456789ab",
        providers={"openai": Provider("openai", "openai", "https", "example.org", 443)},
        models={"gpt-4o-mini": Model("gpt-4o-mini", "openai")},
        model_families=(Model("gpt-4o*", "openai"),),
        tenants=found,
        keys={},
    )
