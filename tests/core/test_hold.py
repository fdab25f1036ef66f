"""What limits count of a hold."""

from dataclasses import replace

import pytest

from tests.examples import hold
from tokenweir.core.hold import (
    Amounts,
    Limit,
    Outcome,
    Settlement,
    amount_of,
    quotas_in,
)
from tokenweir.core.policy import Axis
from tokenweir.core.usage import Source, TokenUsage


@pytest.mark.parametrize(
    ("axis", "amount"),
    [
        (Axis.REQUESTS, 3),
        (Axis.TOKENS, 1_200),
        (Axis.INPUT_TOKENS, 200),
        (Axis.OUTPUT_TOKENS, 1_000),
        (Axis.CONCURRENCY, 1),
        (Axis.BUDGET_TOKENS, 1_200),
        (Axis.BUDGET_USD, 77),
    ],
)
def test_amount_by_axis(axis: Axis, amount: int) -> None:
    """Each axis counts its own part; an exchange has one slot, however it retries."""
    assert amount_of(axis, Amounts(3, 200, 1_000, 77)) == amount


def test_every_axis_counts_something() -> None:
    """There is no axis for which a request would be free."""
    assert all(amount_of(axis, Amounts(1, 1, 1, 1)) > 0 for axis in Axis)


def test_quotas_of_all_tags() -> None:
    """A hold's quotas are those of all its parts, the tenant's first."""
    parts = hold().parts

    assert quotas_in(parts) == ("acme.tokens_per_minute", "*.tpm_by_provider")


def test_settlement_amounts() -> None:
    """Limits are charged by attempts, and by all classes of either side."""
    usage = TokenUsage(
        input_tokens=10, cached_input_tokens=5, output_tokens=7, reasoning_tokens=2
    )
    settlement = Settlement(
        usage, Source.REPORTED, Outcome.COMPLETED, requests=2, cost_nanousd=33
    )

    assert settlement.amounts == Amounts(2, 15, 9, 33)


def test_what_is_enforced() -> None:
    """A hard limit counts where it is above the capacity."""
    limit = Limit("q", Axis.BUDGET_USD, "tenant=acme", 0, 50)

    assert limit.most == 50
    assert replace(limit, hard_limit=40).most == 50
    assert replace(limit, hard_limit=60).most == 60
