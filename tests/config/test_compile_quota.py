"""Quotas are compiled, and have ids that outlive a reordering of the file."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tokenweir.config.compile_quota import (
    EVERY_TENANT,
    THRESHOLDS,
    compile_quota,
    key_scope,
    quota_id,
)
from tokenweir.config.schema import QuotaEntry
from tokenweir.core.policy import Axis, Budget, OnExceeded, OnLedgerFailure, Quota
from tokenweir.core.window import Calendar, Per

CLOSED, OPEN = OnLedgerFailure.CLOSED, OnLedgerFailure.OPEN
CI = key_scope("acme", "ci")


def entry(**fields: Any) -> QuotaEntry:
    """Return the entry with *fields*."""
    return QuotaEntry.model_validate(fields)


def test_a_quota_with_nothing_but_its_axis() -> None:
    """One minute's worth at once, for the tenant as a whole, enforced."""
    assert compile_quota(entry(tokens_per_minute=600), "acme", CLOSED) == Quota(
        id="acme.tokens_per_minute",
        axis=Axis.TOKENS,
        rate=600,
        capacity=600,
        partition=("tenant",),
    )


def test_a_quota_with_everything() -> None:
    """Each field of the file has its place."""
    quota = compile_quota(
        entry(
            requests_per_minute=5,
            capacity=9,
            partition=["model", "key"],
            mode="shadow",
            models=["gpt-*"],
            routes=["messages"],
            on_ledger_failure="open",
            name="mine",
        ),
        "acme",
        CLOSED,
    )

    assert quota == Quota(
        id="acme.mine",
        axis=Axis.REQUESTS,
        rate=5,
        capacity=9,
        partition=("tenant", "key", "model"),
        shadow=True,
        models=("gpt-*",),
        routes=("messages",),
        on_ledger_failure=OPEN,
    )


def test_slices_are_taken_if_the_policy_says_so() -> None:
    """
    Not by default.
    """
    fields: dict[str, Any] = {"requests_per_minute": 5}
    made = compile_quota(
        entry(**fields, leases=True, on_ledger_failure="bounded"), "acme", CLOSED
    )

    assert made.leased
    assert made.on_ledger_failure is OnLedgerFailure.BOUNDED
    assert not compile_quota(entry(**fields), "acme", CLOSED).leased


def test_refused_callers_are_staggered_if_the_policy_says_so() -> None:
    """Not otherwise."""
    fields = {"tokens_per_minute": 1}

    assert compile_quota(entry(**fields, stagger=True), "acme", CLOSED).staggered
    assert not compile_quota(entry(**fields), "acme", CLOSED).staggered


def test_slots_have_no_rate() -> None:
    """The capacity of a concurrency limit is its number of slots."""
    quota = compile_quota(entry(concurrency=8), "acme", CLOSED)

    assert (quota.axis, quota.rate, quota.capacity) == (Axis.CONCURRENCY, 0, 8)


@pytest.mark.parametrize(
    ("fields", "axis"),
    [
        ({"tokens_per_minute": 1}, Axis.TOKENS),
        ({"tokens_per_minute": 1, "counts": "total"}, Axis.TOKENS),
        ({"tokens_per_minute": 1, "counts": "input"}, Axis.INPUT_TOKENS),
        ({"tokens_per_minute": 1, "counts": "output"}, Axis.OUTPUT_TOKENS),
        ({"input_tokens_per_minute": 1}, Axis.INPUT_TOKENS),
        ({"output_tokens_per_minute": 1}, Axis.OUTPUT_TOKENS),
    ],
)
def test_both_ways_to_say_what_counts(fields: dict[str, Any], axis: Axis) -> None:
    """A kind of token is an axis, however it is written."""
    quota = compile_quota(entry(**fields), "acme", CLOSED)

    assert (quota.axis, quota.rate, quota.capacity) == (axis, 1, 1)


@pytest.mark.parametrize(
    ("scope", "partition", "compiled"),
    [
        ("acme", None, ("tenant",)),
        ("acme", ["tenant"], ("tenant",)),
        ("acme", ["user"], ("tenant", "user")),
        ("acme", ["provider", "route"], ("tenant", "route", "provider")),
        (EVERY_TENANT, ["tenant"], ("tenant",)),
        (EVERY_TENANT, ["model"], ("model",)),
        (EVERY_TENANT, ["provider", "model"], ("model", "provider")),
        (EVERY_TENANT, ["model", "user"], ("tenant", "user", "model")),
        (EVERY_TENANT, ["key"], ("tenant", "key")),
        (CI, None, ("tenant", "key")),
        (CI, ["model"], ("tenant", "key", "model")),
    ],
)
def test_partitions(
    scope: str, partition: list[str] | None, compiled: tuple[str, ...]
) -> None:
    """No user or key is ever mixed up with another tenant's."""
    fields = {"concurrency": 1} if partition is None else {"partition": partition}
    quota = compile_quota(entry(**{"concurrency": 1, **fields}), scope, CLOSED)

    assert quota.partition == compiled


@pytest.mark.parametrize(
    ("scope", "fields", "identity"),
    [
        ("acme", {}, "acme.concurrency"),
        ("acme", {"partition": ["tenant"]}, "acme.concurrency"),
        ("acme", {"partition": ["key"]}, "acme.concurrency_by_key"),
        ("acme", {"partition": ["model", "user"]}, "acme.concurrency_by_user_model"),
        ("acme", {"partition": ["user"], "name": "slow"}, "acme.slow"),
        (CI, {}, "acme/ci.concurrency"),
        (CI, {"partition": ["key", "tenant"]}, "acme/ci.concurrency"),
        (CI, {"partition": ["model"]}, "acme/ci.concurrency_by_model"),
        (CI, {"name": "mine"}, "acme/ci.mine"),
        (EVERY_TENANT, {"partition": ["tenant"]}, "*.concurrency"),
        (EVERY_TENANT, {"partition": ["model"]}, "*.concurrency_by_model"),
        (
            EVERY_TENANT,
            {"partition": ["tenant", "model"]},
            "*.concurrency_by_tenant_model",
        ),
    ],
)
def test_ids(scope: str, fields: dict[str, Any], identity: str) -> None:
    """An id says what is limited and whose it is, or what its author says."""
    quota = entry(concurrency=1, **fields)

    assert quota_id(quota, scope) == identity
    assert compile_quota(quota, scope, CLOSED).id == identity


def test_a_budget_with_nothing_but_its_window() -> None:
    """It begins with the calendar's windows in UTC, blocks, and tells three times."""
    quota = compile_quota(entry(budget_usd=0.25, per="day"), "acme", CLOSED)

    assert quota == Quota(
        id="acme.budget_usd_per_day",
        axis=Axis.BUDGET_USD,
        rate=0,
        capacity=250_000_000,
        budget=Budget(Calendar(Per.DAY, ZoneInfo("UTC"))),
    )
    assert quota.budget is not None
    assert quota.budget.thresholds == THRESHOLDS == (50, 80, 95)


def test_a_budget_with_everything() -> None:
    """Each field of the file has its place; alerts are in order."""
    quota = compile_quota(
        entry(
            budget_tokens=1000,
            per="week",
            time_zone="Asia/Tokyo",
            anchor={"hour": 6, "weekday": "sunday"},
            on_exceeded={"downgrade_to": ["b", "a"], "hard_limit_tokens": 2000},
            alerts=[90, 10, 90],
            partition=["key"],
        ),
        EVERY_TENANT,
        CLOSED,
    )

    assert (quota.id, quota.axis) == (
        "*.budget_tokens_per_week_by_tenant_key",
        Axis.BUDGET_TOKENS,
    )
    assert (quota.rate, quota.capacity) == (0, 1000)
    assert quota.budget == Budget(
        Calendar(Per.WEEK, ZoneInfo("Asia/Tokyo"), hour=6, weekday=6),
        OnExceeded.DOWNGRADE,
        ("b", "a"),
        hard_limit=2000,
        thresholds=(10, 90),
    )


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        (
            {"on_exceeded": {"throttle_percent": 20, "hard_limit_usd": 9}},
            {
                "on_exceeded": OnExceeded.THROTTLE,
                "throttle_percent": 20,
                "hard_limit": 9_000_000_000,
            },
        ),
        ({"on_exceeded": "block", "alerts": []}, {"thresholds": ()}),
        ({"on_exceeded": {}}, {}),
    ],
)
def test_what_follows_once_a_budget_is_spent(
    fields: dict[str, Any], budget: dict[str, Any]
) -> None:
    """The kind of what follows is told by what is given."""
    quota = compile_quota(entry(budget_usd=5, per="month", **fields), "acme", CLOSED)

    assert quota.budget == Budget(Calendar(Per.MONTH, ZoneInfo("UTC")), **budget)


def test_months_begin_on_a_day() -> None:
    """The day is the file's, and 1 without it."""
    fields = {"budget_usd": 5, "per": "month"}
    late = compile_quota(entry(**fields, anchor={"day": 31}), "acme", CLOSED).budget
    first = compile_quota(entry(**fields, anchor={"hour": 5}), "acme", CLOSED).budget

    assert late is not None
    assert first is not None
    assert (late.calendar.day, late.calendar.hour) == (31, 0)
    assert (first.calendar.day, first.calendar.hour) == (1, 5)


def test_what_follows_when_the_ledger_is_silent() -> None:
    """The entry decides; if it does not say, what it is in."""
    silent, closed = (
        entry(concurrency=1),
        entry(concurrency=1, on_ledger_failure="closed"),
    )

    assert compile_quota(silent, "acme", OPEN).on_ledger_failure is OPEN
    assert compile_quota(silent, "acme", CLOSED).on_ledger_failure is CLOSED
    assert compile_quota(closed, "acme", OPEN).on_ledger_failure is CLOSED
