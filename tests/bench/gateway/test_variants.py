"""What is compared, and what is skipped."""

from __future__ import annotations

from bench.gateway.capabilities import Build
from bench.gateway.loads import LOADS
from bench.gateway.variants import Kind, Variant, choose, variants

LEAST = Build(
    frozenset({"path:inspect", "transport:grpcio", "limits:off", "limits:redis"})
)


def test_names_tell_variants_apart() -> None:
    """No two have the same."""
    names = [variant.name for variant in variants()]

    assert len(set(names)) == len(names)
    assert "Tokenweir, native, limits leases, asyncio" in names


def test_envoy_alone_needs_nothing_and_comes_first() -> None:
    """It is the measure of all others, under every load."""
    alone = variants()[0]

    assert alone.kind is Kind.ALONE
    assert alone.needs == ()
    assert alone.loads() == list(LOADS)


def test_what_a_build_lacks_is_skipped_and_told() -> None:
    """By name, with what it lacks."""
    chosen, skipped = choose(variants(), LEAST)

    assert [variant.name for variant in chosen] == [
        "Envoy alone",
        "Envoy + no-op ext_proc, grpcio",
        "Tokenweir, inspect, limits redis, grpcio",
        "Tokenweir, inspect, limits off, grpcio",
    ]
    assert len(chosen) + len(skipped) == len(variants())
    assert skipped["LiteLLM"] == ["litellm"]


def test_only_some_may_be_wanted() -> None:
    """Envoy alone stays; what is not wanted is not even told."""
    chosen, skipped = choose(variants(), LEAST, "LIMITS OFF, grpcio")

    assert [variant.name for variant in chosen] == [
        "Envoy alone",
        "Tokenweir, inspect, limits off, grpcio",
    ]
    assert all("limits off" in name for name in skipped)


def test_others_get_the_main_loads_only() -> None:
    """One of each shape, so that each has a place in the table."""
    few = Variant(Kind.TOKENWEIR, "observe", "off", "grpcio").loads()

    assert [load.name for load in few] == ["json-16", "sse-16-paced"]
