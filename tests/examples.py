"""A policy, its callers, and what stands between them: for tests of exchanges."""

from datetime import UTC
from hashlib import sha256

from tokenweir.core.events import Headers, RequestHead
from tokenweir.core.hold import Amounts, Hold, Limit, LimitState, Part, Subject
from tokenweir.core.policy import (
    ApiKey,
    Axis,
    Budget,
    Model,
    OnExceeded,
    OnLedgerFailure,
    Policy,
    Provider,
    Quota,
    Secret,
    Tenant,
)
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.ticket import Ticket
from tokenweir.core.window import Calendar, Per

NOW_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z

# Each of them must never be seen where a test looks for secrets.
ACME_KEY = "sk-CANARY-acme"
FRUGAL_KEY = "sk-CANARY-frugal"
OPEN_KEY = "sk-CANARY-open"
BARE_KEY = "sk-CANARY-bare"
BARE_OPEN_KEY = "sk-CANARY-bare-open"
PROVIDER_KEY = "sk-CANARY-provider"

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"


def policy() -> Policy:
    """
    Return a policy of five tenants.

    *acme* has limits that fail closed, *open* has one that fails open, *frugal* has
    budgets of which one downgrades to ``fast`` and one throttles; *bare* and
    *bare-open* have none, and differ in what follows if the ledger is silent.
    """
    openai = Provider(
        "openai", "openai", "https", "api.example", 443, "", Secret(PROVIDER_KEY)
    )
    anthropic = Provider(
        "anthropic", "anthropic", "https", "a.example", 443, "", Secret(PROVIDER_KEY)
    )
    own = Provider("own", "openai", "http", "127.0.0.1", 8000)
    models = (
        Model("gpt-4o-mini", "openai", None, 1_000, 400),
        Model("fast", "openai", "gpt-4o-mini", 1_000, 400, "o200k_base", "quick"),
        Model("claude", "anthropic", "claude-haiku-4-5", 1_000, 400),
    )
    tenants = (
        Tenant("acme", acme_quotas()),
        Tenant(
            "open",
            (
                Quota(
                    "open.tokens_per_minute",
                    Axis.TOKENS,
                    10_000,
                    10_000,
                    on_ledger_failure=OnLedgerFailure.OPEN,
                ),
            ),
        ),
        Tenant("frugal", frugal_quotas()),
        Tenant("bare"),
        Tenant("bare-open", on_ledger_failure=OnLedgerFailure.OPEN),
    )
    keys = {
        ACME_KEY: ApiKey("acme-ci", "acme"),
        OPEN_KEY: ApiKey("open-ci", "open"),
        FRUGAL_KEY: ApiKey("frugal-ci", "frugal"),
        BARE_KEY: ApiKey("bare-ci", "bare"),
        BARE_OPEN_KEY: ApiKey("bare-open-ci", "bare-open"),
    }
    return Policy(
        digest="0123456789ab",
        providers={provider.name: provider for provider in (openai, anthropic, own)},
        models={model.name: model for model in models},
        model_families=(Model("local-large-*", "own"), Model("local-*", "own")),
        tenants={tenant.name: tenant for tenant in tenants},
        keys={sha256(key.encode()).hexdigest(): entry for key, entry in keys.items()},
        default_providers={"openai": "openai", "anthropic": "anthropic"},
        route_timeouts={"chat_completions": "slow"},
    )


def acme_quotas() -> tuple[Quota, ...]:
    """Return the quotas of *acme*."""
    return (
        Quota("acme.requests_per_minute", Axis.REQUESTS, 60, 60),
        Quota("acme.tokens_per_minute", Axis.TOKENS, 10_000, 10_000),
        Quota("acme.concurrency", Axis.CONCURRENCY, 0, 8),
    )


def frugal_quotas() -> tuple[Quota, ...]:
    """Return the quotas of *frugal*."""
    day = Calendar(Per.DAY, UTC)
    month = Calendar(Per.MONTH, UTC)
    axis = Axis.BUDGET_TOKENS
    cheaper = Budget(day, OnExceeded.DOWNGRADE, ("claude", "fast"))
    slower = Budget(day, OnExceeded.THROTTLE, throttle_percent=25)
    return (
        Quota("frugal.tokens_per_minute", Axis.TOKENS, 10_000, 10_000),
        Quota("frugal.cheaper", axis, 0, 50_000, budget=cheaper),
        Quota("frugal.slower", axis, 0, 50_000, budget=slower),
        Quota("frugal.block", axis, 0, 900_000, budget=Budget(month)),
    )


def spent(quota: str) -> QuotaFailure:
    """Return what the ledger says of a budget of *frugal* that is spent."""
    figures = (50_000, 49_900, 0, 700, 3_600_000)
    return QuotaFailure(quota, Axis.BUDGET_TOKENS, "tenant=frugal", *figures)


def head(
    method: str = "POST",
    path: str = CHAT,
    *,
    key: str | None = ACME_KEY,
    headers: Headers = (),
    ended: bool = False,
) -> RequestHead:
    """Return a request's head that carries *key* as OpenAI's SDK does."""
    own = () if key is None else (("authorization", f"Bearer {key}"),)
    return RequestHead(method, path, (*own, *headers), ended)


LIMIT = Limit("acme.tokens_per_minute", Axis.TOKENS, "tenant=acme", 10_000, 10_000)
STATE = LimitState(LIMIT, 9_000, 6_000)
FAILURE = QuotaFailure(
    "acme.tokens_per_minute", Axis.TOKENS, "tenant=acme", 10_000, 9_500, 0, 700, 1_200
)
SUBJECT = Subject("acme", "acme-ci", "ann", "chat_completions", "gpt-4o-mini", "openai")


def hold(input_tokens: int = 30, output_tokens: int = 200) -> Hold:
    """Return a hold under the tenant's tag and a shared one."""
    shared = Limit("*.tpm_by_provider", Axis.TOKENS, "provider=openai", 9_000, 9_000)
    return Hold(
        "0-19b7a0e1c00-abc",
        (Part("tw:017", (LIMIT,)), Part("tw:s004", (shared,))),
        Amounts(1, input_tokens, output_tokens),
        SUBJECT,
    )


def ticket(
    *,
    dialect: str = "chat_completions",
    output_cap: int | None = None,
    input_tokens: int = 30,
    output_tokens: int = 200,
) -> Ticket:
    """Return what the request side left of a request of *acme*."""
    return Ticket(
        hold(input_tokens, output_tokens),
        started_ms=NOW_MS,
        method="POST",
        dialect=dialect,
        counting_model="gpt-4o-mini" if dialect else "",
        output_cap=output_cap,
        states=(STATE,),
    )
