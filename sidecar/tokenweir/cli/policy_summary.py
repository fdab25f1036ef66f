"""What a policy says, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tokenweir.cli.budget_text import after_text, window_text
from tokenweir.cli.cap_text import cap_text
from tokenweir.cli.key_text import key_text
from tokenweir.cli.price_text import price_text
from tokenweir.core.policy import ApiKey, Axis, Model, Policy, Provider, Quota, Tenant

_UNITS = {
    Axis.REQUESTS: "requests per minute",
    Axis.TOKENS: "tokens per minute",
    Axis.INPUT_TOKENS: "input tokens per minute",
    Axis.OUTPUT_TOKENS: "output tokens per minute",
}


def summary(policy: Policy, *, credentials: bool, now_ms: int) -> Iterator[str]:
    """
    Yield a line each; there is no secret in any.

    Set *credentials* to false if they were not looked up, nor prices. *now_ms* is the
    time of day, by which keys end and prices hold.
    """
    yield "\nproviders"
    for provider in policy.providers.values():
        yield f"  {_provider(provider, credentials=credentials)}"
    yield "\nmodels"
    for model in (*policy.models.values(), *policy.model_families):
        yield f"  {_model(model)}"
        # Overlays are not read if nothing outside of the file is.
        price = price_text(model, policy.pricing, now_ms) if credentials else None
        if price is not None:
            yield f"    {price}"
    if policy.caps:
        yield "\ncaps on output, of which the lowest that applies counts"
        yield from (f"  {cap_text(cap)}" for cap in policy.caps)
    yield "\ntenants"
    for tenant in policy.tenants.values():
        keys = [key for key in policy.keys.values() if key.tenant == tenant.name]
        yield f"  {_tenant(tenant, len(keys))}"
        for key in keys:
            yield from _key(key, now_ms)
        yield from (f"    {_quota(quota)}" for quota in tenant.quotas)
    if policy.single_tenant is not None:
        yield f"\nevery caller is tenant {policy.single_tenant}, whatever key it sends"


def _provider(provider: Provider, *, credentials: bool) -> str:
    host = f"[{provider.host}]" if ":" in provider.host else provider.host
    url = f"{provider.scheme}://{host}:{provider.port}{provider.path_prefix}"
    held = "with credential" if provider.credential else "without credential"
    parts = [f"{provider.name}: {provider.dialect} at {url}"]
    return ", ".join([*parts, held] if credentials else parts)


def _model(model: Model) -> str:
    renamed = f" as {model.upstream_model}" if model.upstream_model else ""
    return (
        f"{model.name}: by {model.provider}{renamed}, at most "
        f"{model.max_output_tokens:,} output tokens, "
        f"{model.default_output_tokens:,} if the app sets no cap"
    )


def _tenant(tenant: Tenant, keys: int) -> str:
    models = f"models {_listed(tenant.models)}" if tenant.models else "all models"
    return f"{tenant.name}: {keys} {'key' if keys == 1 else 'keys'}, {models}"


def _key(key: ApiKey, now_ms: int) -> Iterator[str]:
    """Yield what binds *key* alone, if anything does."""
    text = key_text(key, now_ms)
    if text is not None or key.quotas:
        yield f"    key {key.id}: {text or 'with limits of its own'}"
    yield from (f"      {_quota(quota)}" for quota in key.quotas)


def _quota(quota: Quota) -> str:
    if quota.budget is not None:
        text = window_text(quota.axis, quota.capacity, quota.budget.calendar)
    elif quota.axis is Axis.CONCURRENCY:
        text = f"{quota.capacity:,} at a time"
    else:
        text = f"{quota.rate:,} {_UNITS[quota.axis]}"
        if quota.capacity != quota.rate:
            text += f", {quota.capacity:,} at once"
    text += _whose(quota.partition)
    if quota.models:
        text += f", models {_listed(quota.models)}"
    if quota.routes:
        text += f", routes {_listed(quota.routes)}"
    if quota.budget is not None:
        text += f", {after_text(quota.axis, quota.budget)}"
    return f"{text}, in shadow mode" if quota.shadow else text


def _whose(partition: Sequence[str]) -> str:
    """Return who shares a limit that is told below a tenant."""
    others = [part for part in partition if part != "tenant"]
    each = f", for each {_listed(others)}" if others else ""
    return each if "tenant" in partition else f"{each}, shared by all tenants"


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
