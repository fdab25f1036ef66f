"""`tokenweir check`: what is wrong with a policy, or what it says."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, Subparsers
from tokenweir.cli.budget_text import after_text, window_text
from tokenweir.cli.cap_text import cap_text
from tokenweir.cli.key_text import key_text
from tokenweir.cli.price_text import price_text
from tokenweir.cli.problems import tell
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import ApiKey, Axis, Model, Policy, Provider, Quota, Tenant

_DESCRIPTION = """\
Check a policy file and print every problem, one a line, each beginning with its
path in the file. If there is none, print what the policy says, and what in it is
probably not meant. Nothing is changed, and no secret is printed.
"""

NS_PER_MS = 1_000_000

_UNITS = {
    Axis.REQUESTS: "requests per minute",
    Axis.TOKENS: "tokens per minute",
    Axis.INPUT_TOKENS: "input tokens per minute",
    Axis.OUTPUT_TOKENS: "output tokens per minute",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="check a policy file, and say what it means",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="the policy")
    parser.add_argument(
        "--without-secrets",
        action="store_true",
        help="do not look up credentials and certificates, as where a policy is "
        "reviewed but not used",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the file."""
    from tokenweir.config.advice import advise  # noqa: PLC0415 -- slow
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    file, credentials = arguments.file, not arguments.without_secrets
    try:
        policy = load_policy(file, os.environ, credentials=credentials)
    except PolicyError as error:
        tell(file, error, sys.stdout, sys.stderr)
        return EXIT_PROBLEMS
    print(f"{file}: fine (digest {policy.digest})")
    print("\n".join(_summary(policy, credentials=credentials)))
    warnings = advise(policy, credentials=credentials)
    if warnings:
        print("\nwarnings")
        print("\n".join(f"  {warning}" for warning in warnings))
    return EXIT_FINE


def _summary(policy: Policy, *, credentials: bool) -> Iterator[str]:
    yield "\nproviders"
    for provider in policy.providers.values():
        yield f"  {_provider(provider, credentials=credentials)}"
    yield "\nmodels"
    now_ms = time.time_ns() // NS_PER_MS
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
