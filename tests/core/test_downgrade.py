"""What follows once a budget is spent."""

from datetime import UTC

from tokenweir.core.downgrade import Attempt, next_attempt, with_next_model
from tokenweir.core.policy import Axis, Budget, OnExceeded, Quota
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.window import Calendar, Per

DAY = Calendar(Per.DAY, UTC)


def budget(name: str, *chain: str, percent: int = 100) -> Quota:
    """A budget that downgrades to *chain*, or throttles, or blocks."""
    follows = OnExceeded.BLOCK
    if chain:
        follows = OnExceeded.DOWNGRADE
    elif percent < 100:
        follows = OnExceeded.THROTTLE
    return Quota(
        name, Axis.BUDGET_USD, 0, 100, budget=Budget(DAY, follows, chain, percent)
    )


QUOTAS = {
    quota.id: quota
    for quota in (
        budget("block"),
        budget("small", "mini", "nano"),
        budget("other", "nano", "pico"),
        budget("slow", percent=25),
        Quota("tpm", Axis.TOKENS, 100, 100),
    )
}
FIRST = Attempt("large")


def failing(*names: str) -> list[QuotaFailure]:
    """What the ledger says of these quotas."""
    return [
        QuotaFailure(name, Axis.BUDGET_USD, "tenant=acme", 100, 99, 0, 5, 9)
        for name in names
    ]


def test_a_spent_budget_makes_a_cheaper_model_answer() -> None:
    """The first of its chain, with the budget relaxed."""
    after = next_attempt(FIRST, failing("small"), QUOTAS)

    assert after == Attempt(
        "mini", 1, frozenset({"small"}), ("nano",), frozenset({"large", "mini"})
    )


def test_any_other_failure_refuses() -> None:
    """Only when every failing quota downgrades is there another attempt."""
    for others in (("tpm",), ("block",), ("small", "tpm"), ("block", "slow"), ("?",)):
        assert next_attempt(FIRST, failing(*others), QUOTAS) is None


def test_the_chain_is_followed_to_its_end() -> None:
    """A hard limit that refuses one model may have room for a cheaper one."""
    second = next_attempt(FIRST, failing("small"), QUOTAS)
    assert second is not None
    third = next_attempt(second, failing("small"), QUOTAS)
    assert third is not None

    assert (third.model, third.number) == ("nano", 2)
    assert next_attempt(third, failing("small"), QUOTAS) is None


def test_another_budget_brings_its_own_chain() -> None:
    """Models are tried once, in the order in which they were named."""
    second = next_attempt(FIRST, failing("small", "other"), QUOTAS)
    assert second is not None

    assert second.relaxed == {"small", "other"}
    assert (second.model, second.chain) == ("mini", ("nano", "pico"))


def test_a_throttled_budget_keeps_the_model() -> None:
    """It is the pace that changes; a second refusal ends it."""
    second = next_attempt(FIRST, failing("slow"), QUOTAS)
    assert second is not None

    assert (second.model, second.relaxed) == ("large", frozenset({"slow"}))
    assert next_attempt(second, failing("slow"), QUOTAS) is None


def test_a_model_that_can_not_answer_is_passed_over() -> None:
    """What is not allowed, or of another API, leaves its place to the next."""
    second = next_attempt(FIRST, failing("small"), QUOTAS)
    assert second is not None
    third = with_next_model(second)
    assert third is not None

    assert (third.model, third.relaxed, third.number) == (
        "nano",
        frozenset({"small"}),
        1,
    )
    assert with_next_model(third) is None
