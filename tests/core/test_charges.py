"""Which budgets an exchange was charged to, as far as its record tells."""

from dataclasses import replace

import pytest

from tests.core.spenders import SPENDER, budget, policy
from tokenweir.core.charges import Account, Charge, Spender, account, charges
from tokenweir.core.hold import Limit
from tokenweir.core.holding import key_of
from tokenweir.core.partition import shared_tag_of, tag_of
from tokenweir.core.policy import Quota

WHOLE = ("tenant", "key", "user", "route", "model", "provider")
BY_MODEL = ("tenant", "model")
DOWN = replace(SPENDER, model="mini", downgraded_from="gpt-4o")


def found(spender: Spender, *quotas: Quota) -> list[tuple[str, str | None, bool]]:
    """The charges as (quota, partition, is certain)."""
    made = charges(policy(*quotas), quotas, spender)
    return [(each.quota.id, each.partition, each.is_certain) for each in made]


def test_a_partition_is_written_as_limits_are() -> None:
    """Every part by its value; a model by the policy's name; nobody as a dash."""
    whole = budget("b", partition=WHOLE)
    told = "tenant=acme,key=ci,user={},route=chat_completions,model={},provider=openai"

    assert found(SPENDER, whole) == [("b", told.format("-", "gpt-4o"), True)]
    family = replace(SPENDER, user="u1", model="gpt-5")
    assert found(family, whole) == [("b", told.format("u1", "gpt-*"), True)]
    gone = replace(SPENDER, model="llama")
    assert found(gone, whole) == [("b", told.format("-", "llama"), True)]
    none = replace(SPENDER, model="")
    assert found(none, whole) == [("b", told.format("-", "-"), True)]


def test_filters_hold() -> None:
    """Budgets for other models or routes count nothing."""
    right = budget("b", models=("gpt-*",), routes=("chat_completions",))
    others = (budget("m", models=("mini",)), budget("r", routes=("messages",)))

    assert found(SPENDER, *others, right) == [("b", "tenant=acme", True)]


def test_a_user_that_is_no_longer_known() -> None:
    """It is told that somebody's budget counts it, not whose."""
    unknown = replace(SPENDER, user=None)

    assert found(unknown, budget("b", partition=("tenant", "user"))) == [
        ("b", None, True)
    ]
    assert found(unknown, budget("b")) == [("b", "tenant=acme", True)]


def test_the_only_budget_that_downgrades_counts_in_the_asked_models_name() -> None:
    """No other can have changed the model; and budgets that block are as ever."""
    down = budget("d", partition=BY_MODEL, models=("gpt-4o",), downgrade_to=("mini",))
    block = budget("b", partition=BY_MODEL)

    assert found(DOWN, down, block) == [
        ("d", "tenant=acme,model=gpt-4o", True),
        ("b", "tenant=acme,model=mini", True),
    ]
    assert found(DOWN, down, budget("o", models=("gpt-4o",))) == [
        ("d", "tenant=acme,model=gpt-4o", True)
    ]


def test_one_of_two_budgets_was_spent() -> None:
    """Which of them is not written: each may have counted it so or so, or not at all."""
    one = budget("1", models=("gpt-4o",), downgrade_to=("mini",))
    two = budget("2", partition=BY_MODEL, downgrade_to=("mini",))
    alike = budget("3", downgrade_to=("mini",))

    assert found(DOWN, one, two, alike) == [
        ("1", "tenant=acme", False),
        ("2", "tenant=acme,model=gpt-4o", False),
        ("2", "tenant=acme,model=mini", False),
        ("3", "tenant=acme", True),
    ]


def test_a_budget_on_the_way_down_may_have_been_spent_too() -> None:
    """A model in between had budgets of its own; one that nobody tried had none."""
    down = budget("d", models=("gpt-4o",), downgrade_to=("gpt-5", "mini"))
    between = budget("t", models=("gpt-5",), throttle=True)
    never = budget("n", models=("claude",), throttle=True)
    elsewhere = budget(
        "e", models=("gpt-4o",), routes=("messages",), downgrade_to=("mini",)
    )

    assert found(DOWN, down, between, never, elsewhere) == [
        ("d", "tenant=acme", True),
        ("t", "tenant=acme", False),
    ]


@pytest.mark.parametrize("partition", [("tenant",), BY_MODEL])
def test_sums_of_downgraded_exchanges(partition: tuple[str, ...]) -> None:
    """It is not known what was asked for, so whatever depends on it is in doubt."""
    some = replace(SPENDER, model="mini", downgraded_from=None)
    down = budget("d", partition=partition, models=("gpt-4o",), downgrade_to=("mini",))
    spent = "tenant=acme" if partition == ("tenant",) else None
    plain = budget("p", partition=BY_MODEL, throttle=True)

    assert found(some, down, plain) == [
        ("d", spent, False),
        ("p", None, False),
        ("p", "tenant=acme,model=mini", False),
    ]


def test_an_account_is_where_the_limit_is() -> None:
    """Under the tenant's tag, or that of the limit if tenants share it."""
    own, shared = budget("b"), budget("s", partition=("provider",))
    limit = Limit("b", own.axis, "tenant=acme", 0, 1)

    assert account(own, "tenant=acme", "acme") == Account(tag_of("acme"), key_of(limit))
    assert account(shared, "provider=openai", "acme").tag == shared_tag_of(
        "s", "provider=openai"
    )
    assert Charge(own, "tenant=acme").is_certain
