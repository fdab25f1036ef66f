"""The policies under which Tokenweir is measured."""

from __future__ import annotations

import hashlib
from typing import Any

from bench.gateway.capabilities import Build, put
from bench.gateway.loads import KEY, MODEL
from bench.gateway.variants import Variant

TENANT = "bench-{number}"
# One of each axis, and none that anything here comes near to.
LIMITS: tuple[dict[str, Any], ...] = (
    {"requests_per_minute": 10_000_000_000},
    {"tokens_per_minute": 10_000_000_000},
    {"concurrency": 100_000},
    {"budget_usd": 4_000_000, "per": "month"},
)


def policy(
    upstream_port: int,
    quotas: tuple[dict[str, Any], ...] = LIMITS,
    tenants: int = 1,
) -> dict[str, Any]:
    """Return one with *quotas* for each of the *tenants*, all of one provider."""
    return {
        "version": 1,
        "providers": {
            # Known by that name to lists of prices.
            "openai": {
                "base_url": f"http://127.0.0.1:{upstream_port}",
                "dialect": "openai",
            }
        },
        "models": {MODEL: {"provider": "openai", "max_output_tokens": 16_384}},
        "tenants": {
            TENANT.format(number=number): _tenant(number, quotas)
            for number in range(tenants)
        },
    }


def policy_of(
    variant: Variant, build: Build, upstream_port: int, tenants: int = 1
) -> dict[str, Any]:
    """Return the policy of *variant*."""
    quotas = () if variant.limits == "off" else LIMITS
    content = policy(upstream_port, quotas, tenants)
    if build.path_place:
        put(content, build.path_place, variant.path)
    for place in build.lease_places if variant.limits == "leases" else ():
        put(content, place, build.lease_value)
    return content


def _tenant(number: int, quotas: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    digest = hashlib.sha256(KEY.format(number=number).encode()).hexdigest()
    return {
        "keys": [{"id": f"key-{number}", "sha256": digest}],
        "quotas": [dict(quota) for quota in quotas],
    }
