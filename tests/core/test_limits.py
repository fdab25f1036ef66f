"""Quotas as they apply to one partition."""

from dataclasses import replace

from tests.examples import NOW_MS, frugal_quotas
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.hold import Limit
from tokenweir.core.limits import enforced, parts_of
from tokenweir.core.partition import queue_of, shared_tag_of, tag_of
from tokenweir.core.policy import Axis, OnLedgerFailure, Quota

DAY_MS = 86_400_000
TODAY_MS = NOW_MS - NOW_MS % DAY_MS
VALUES = {"tenant": "frugal", "key": "ci", "provider": "openai"}
TPM, CHEAPER, SLOWER, BLOCK = frugal_quotas()


def limits(*quotas: Quota, relaxed: tuple[str, ...] = ()) -> list[Limit]:
    """Return the limits of *quotas*."""
    parts = parts_of(quotas, VALUES, NOW_MS, dict.fromkeys(relaxed, VALUES))
    return [limit for part in parts for limit in part.limits]


def test_a_quota_applies_to_a_partition() -> None:
    """The tenant's own are under its tag, shared ones under tags of their own."""
    shared = replace(TPM, id="*.tpm_by_provider", partition=("provider",))
    by_key = replace(TPM, partition=("tenant", "key"))
    own, other = parts_of((shared, by_key), VALUES, NOW_MS)

    assert (own.tag, other.tag) == (
        tag_of("frugal"),
        shared_tag_of("*.tpm_by_provider", "provider=openai"),
    )
    assert [limit.partition for limit in own.limits] == ["tenant=frugal,key=ci"]
    assert [limit.partition for limit in other.limits] == ["provider=openai"]


def test_the_tenants_tag_is_there_without_limits() -> None:
    """It keeps the usage records."""
    assert [part.tag for part in parts_of((), VALUES)] == [tag_of("frugal")]


def test_a_budget_brings_its_windows() -> None:
    """Three of them, since the ledger's clock may be another."""
    [limit] = limits(CHEAPER)

    assert limit.turns == tuple(TODAY_MS + n * DAY_MS for n in (-1, 0, 1, 2))
    assert limit.thresholds == (50, 80, 95)
    assert (limit.capacity, limit.most) == (50_000, 50_000)
    assert limits(TPM)[0].turns == ()


def test_a_relaxed_budget_records_up_to_its_hard_limit() -> None:
    """Without one of its own, other budgets see to that."""
    assert CHEAPER.budget is not None
    hard = replace(CHEAPER, budget=replace(CHEAPER.budget, hard_limit=60_000))
    [limit] = limits(CHEAPER, relaxed=("frugal.cheaper",))
    [bounded] = limits(hard, relaxed=("frugal.cheaper",))

    assert (limit.capacity, limit.most) == (50_000, MAX_SPENT)
    assert (bounded.capacity, bounded.most) == (50_000, 60_000)
    assert limits(hard)[0].most == 50_000


def test_a_relaxed_budget_keeps_its_partition() -> None:
    """What is spent in place of a model is spent in the model's name."""
    by_model = replace(CHEAPER, partition=("tenant", "model"))
    values, before = VALUES | {"model": "mini"}, VALUES | {"model": "large"}
    parts = parts_of((by_model,), values, NOW_MS, {by_model.id: before})

    assert parts[0].limits[0].partition == "tenant=frugal,model=large"


def test_a_throttling_budget_slows_every_rate() -> None:
    """By a level of its own; what is no rate, or only looked at, stays as it is."""
    rpm = Quota("frugal.rpm", Axis.REQUESTS, 3, 60)
    slots = Quota("frugal.slots", Axis.CONCURRENCY, 0, 8)
    shadow = replace(rpm, id="frugal.shadow", shadow=True)
    found = limits(TPM, SLOWER, BLOCK, rpm, slots, shadow, relaxed=("frugal.slower",))
    slowed = [limit for limit in found if limit.quota.startswith("frugal.slower.")]

    assert [(each.quota, each.rate, each.capacity) for each in slowed] == [
        ("frugal.slower.frugal.tokens_per_minute", 2_500, 10_000),
        ("frugal.slower.frugal.rpm", 1, 60),
    ]
    assert len(found) == 6 + 2


def test_a_limit_staggers_as_its_quota_does() -> None:
    """So does the slower twin that a throttling budget puts beside it."""
    staggered = replace(TPM, staggered=True)

    assert not limits(TPM)[0].staggered
    assert limits(staggered)[0].staggered
    twins = limits(SLOWER, staggered, relaxed=(SLOWER.id,))
    assert [limit.staggered for limit in twins] == [False, True, True]


def test_a_limit_is_leased_as_its_quota_is() -> None:
    """So is its slower twin; bounded only if there are leases to bound it."""
    leased = replace(TPM, leased=True)
    bounded = replace(leased, on_ledger_failure=OnLedgerFailure.BOUNDED)
    twins = limits(SLOWER, bounded, relaxed=(SLOWER.id,))

    assert [(each.leased, each.bounded) for each in twins] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    [one] = limits(leased)
    [other] = limits(replace(bounded, leased=False))
    assert (one.leased, one.bounded) == (True, False)
    assert (other.leased, other.bounded) == (False, False)


def test_who_shares_a_limit_has_a_queue_of_its_own() -> None:
    """Where only one tenant has a limit, or it does not stagger, there is none."""
    plain = replace(TPM, id="plain", partition=("provider",))
    shared = replace(TPM, id="shared", partition=("provider",), staggered=True)
    own, *others = parts_of(
        (replace(TPM, staggered=True), plain, shared), VALUES, NOW_MS
    )
    queues = {limit.quota: limit.queue for part in others for limit in part.limits}

    assert {limit.queue for limit in own.limits} == {""}
    assert queues == {"plain": "", "shared": queue_of(VALUES["tenant"])}


def test_only_what_is_enforced() -> None:
    """Limits in shadow mode refuse nobody."""
    shadow = replace(TPM, shadow=True)
    parts = parts_of((shadow, BLOCK), VALUES, NOW_MS)

    assert [limit.quota for limit in enforced(parts)] == ["frugal.block"]
