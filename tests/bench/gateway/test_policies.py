"""The policies under which Tokenweir is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench.gateway.capabilities import Build
from bench.gateway.loads import KEY
from bench.gateway.policies import LIMITS, policy_of
from bench.gateway.variants import Kind, Variant
from tokenweir.config.load import load_policy

BUILD = Build(
    frozenset(),
    path_place=("responses",),
    lease_places=(("quotas", "[]", "lease"), ("tenants", "*", "quotas", "[]", "lease")),
    lease_value=True,
)


def variant(limits: str, path: str = "native") -> Variant:
    """Return one of Tokenweir."""
    return Variant(Kind.TOKENWEIR, path, limits, "grpcio")


@pytest.mark.parametrize("limits", ["redis", "off"])
def test_policies_are_valid(limits: str, tmp_path: Path) -> None:
    """The product takes them, with as many tenants as were asked for."""
    path = tmp_path / "policy.yaml"
    content = policy_of(variant(limits), Build(frozenset()), 8_000, tenants=3)
    path.write_text(yaml.safe_dump(content))

    assert set(load_policy(path, {}).tenants) == {"bench-0", "bench-1", "bench-2"}


def test_the_build_says_where_choices_are_put() -> None:
    """A path always, leases where they are on."""
    leased = policy_of(variant("leases"), BUILD, 8_000)
    plain = policy_of(variant("redis"), BUILD, 8_000)

    assert leased["responses"] == plain["responses"] == "native"
    assert all(quota["lease"] for quota in leased["tenants"]["bench-0"]["quotas"])
    assert plain["tenants"]["bench-0"]["quotas"] == list(LIMITS)


def test_limits_off_are_none_at_all() -> None:
    """No quota, and no key in clear."""
    content = policy_of(variant("off"), Build(frozenset()), 8_000)

    assert content["tenants"]["bench-0"]["quotas"] == []
    assert KEY.format(number=0) not in yaml.safe_dump(content)
