from dataclasses import replace

import pytest

from tokenweir.admin.readiness import Readiness, ReadinessProbe, closed_without_ledger
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.policy import (
    ApiKey,
    Axis,
    KeyEnd,
    OnLedgerFailure,
    Policy,
    Quota,
    Tenant,
)
from tokenweir.ledger.store import Contact

CLOSED, OPEN = OnLedgerFailure.CLOSED, OnLedgerFailure.OPEN


def policy_of(*tenants: Tenant) -> Policy:
    """Return a policy of *tenants*, each with a key that has no quotas of its own."""
    keys = {name: ApiKey(name, name) for name in (each.name for each in tenants)}
    return Policy("0123456789ab", {}, {}, (), {t.name: t for t in tenants}, keys)


def tenant(
    *modes: OnLedgerFailure, own: OnLedgerFailure = CLOSED, shadow: bool = False
) -> Tenant:
    """Return a tenant with a quota for each of *modes*."""
    quotas = tuple(
        Quota(f"q{n}", Axis.TOKENS, 1, 1, on_ledger_failure=mode, shadow=shadow)
        for n, mode in enumerate(modes)
    )
    return Tenant(f"{modes}{own}", quotas, on_ledger_failure=own)


class World:
    """What readiness depends on."""

    def __init__(self, policy: Policy | str) -> None:
        self.policy = policy
        self.now_s = 1_000.0
        self.silent = False
        self.stale: tuple[str, ...] | None = ()
        self.contact = Contact()
        self.probe = ReadinessProbe(
            lambda: self.policy,
            self.ping,
            lambda: self.contact,
            stale=lambda: self.stale,
            patience_s=10,
            clock=lambda: self.now_s,
        )

    async def ping(self) -> None:
        """Answer, or not."""
        self.call(answered=not self.silent)
        if self.silent:
            raise LedgerUnavailableError

    def call(self, *, answered: bool) -> None:
        """Be told how a call of anybody ended."""
        if answered:
            self.contact = Contact(self.now_s)
        else:
            missed = self.contact.unanswered + 1
            self.contact = replace(self.contact, unanswered=missed)


@pytest.fixture
def world() -> World:
    """Return a processor that lacks nothing."""
    return World(policy_of(tenant(CLOSED)))


async def test_ready(world: World) -> None:
    """With a policy and a ledger that answers, exchanges can come."""
    assert await world.probe() == Readiness(
        ready=True,
        checks={"draining": "ok", "policy": "ok", "ledger": "ok", "envoy": "ok"},
    )


@pytest.mark.parametrize(
    ("stale", "check"),
    [
        (None, "has not called yet"),
        (("retries",), "is to be rendered anew for retries"),
        (("a", "b"), "is to be rendered anew for a, b"),
    ],
)
async def test_envoy(world: World, stale: tuple[str, ...] | None, check: str) -> None:
    """What Envoy was not rendered from is told; the rest can be served."""
    world.stale = stale
    found = await world.probe()

    assert found.ready
    assert found.checks["envoy"] == check


async def test_draining(world: World) -> None:
    """A processor that drains is not ready, and says so."""
    world.probe.draining = True
    found = await world.probe()

    assert not found.ready
    assert found.checks["draining"] == "no new exchanges are taken"


async def test_no_policy(world: World) -> None:
    """Without a policy no exchange can be decided."""
    world.policy = "none is published"
    found = await world.probe()

    assert not found.ready
    assert found.checks["policy"] == "none is published"
    assert found.checks["ledger"] == "ok"


async def test_neither_policy_nor_ledger(world: World) -> None:
    """Without a policy nobody knows if one would admit without the ledger."""
    world.policy = "none is published"
    world.silent = True
    found = await world.probe()

    assert not found.ready
    assert found.checks["ledger"] == "no answer yet"


async def test_ledger_never_answered(world: World) -> None:
    """Until the ledger has answered once, a closed policy can admit nothing."""
    world.silent = True
    found = await world.probe()

    assert not found.ready
    assert found.checks["ledger"] == "no answer yet"


async def test_ledger_silent_for_long(world: World) -> None:
    """A short silence is borne, a long one is not, and an answer ends it."""
    await world.probe()
    world.silent = True
    world.now_s += 9
    assert (await world.probe()).ready
    world.now_s += 1
    assert (await world.probe()).ready
    world.now_s += 1
    found = await world.probe()
    world.silent = False

    assert not found.ready
    assert found.checks["ledger"] == "no answer for 11 s"
    assert (await world.probe()).ready


async def test_one_slow_ping(world: World) -> None:
    """One ping without an answer says nothing, however long ago the last one was."""
    await world.probe()
    world.now_s += 60
    world.silent = True
    assert (await world.probe()).ready
    assert (await world.probe()).ready

    assert not (await world.probe()).ready


async def test_calls_that_are_answered(world: World) -> None:
    """A ledger that answers exchanges is there, whatever becomes of pings."""
    await world.probe()
    world.silent = True
    for _ in range(10):
        world.now_s += 5
        world.call(answered=True)
        assert (await world.probe()).ready


async def test_an_answer_to_a_call_ends_the_silence(world: World) -> None:
    """Ready again at the first answer to anything, not at the next ping."""
    await world.probe()
    world.silent = True
    world.now_s += 11
    for _ in range(3):
        found = await world.probe()
    assert not found.ready
    world.call(answered=True)

    assert (await world.probe()).ready


async def test_open_policy(world: World) -> None:
    """A policy that admits without the ledger stays ready, and tells of the silence."""
    world.policy = policy_of(tenant(OPEN))
    world.silent = True
    found = await world.probe()

    assert found.ready
    assert found.checks["ledger"] == "no answer yet; the policy admits without it"


@pytest.mark.parametrize(
    ("tenants", "closed"),
    [
        ([tenant(CLOSED)], True),
        ([tenant(OPEN)], False),
        ([tenant(OPEN, CLOSED)], True),
        ([tenant(CLOSED), tenant(OPEN)], False),
        ([tenant(own=CLOSED)], True),
        ([tenant(own=OPEN)], False),
        ([tenant(CLOSED, own=OPEN, shadow=True)], False),
        ([], True),
    ],
)
def test_closed_without_ledger(tenants: list[Tenant], closed: bool) -> None:
    """A policy is closed if it leaves no tenant to serve without the ledger."""
    assert closed_without_ledger(policy_of(*tenants)) is closed


@pytest.mark.parametrize(
    ("modes", "own", "closed"),
    [
        ((CLOSED,), (OPEN,), True),
        ((OPEN,), (CLOSED,), True),
        ((OPEN,), (), False),
        ((), (), True),
        ((OPEN,), (OPEN,), False),
        ((OnLedgerFailure.BOUNDED,), (OPEN,), True),
    ],
)
def test_the_quotas_of_keys_count(
    modes: tuple[OnLedgerFailure, ...], own: tuple[OnLedgerFailure, ...], closed: bool
) -> None:
    """One closed quota of a key closes, and an open one opens a tenant without any."""
    acme = tenant(*own)
    key = ApiKey("ci", acme.name, quotas=tenant(*modes).quotas)

    assert closed_without_ledger(replace(policy_of(acme), keys={"0": key})) is closed


def test_one_key_that_is_served_is_enough() -> None:
    """Another key of the same tenant may be refused; a revoked one can't be served."""
    acme = tenant(OPEN)
    bound = ApiKey("bound", acme.name, quotas=tenant(CLOSED).quotas)
    free = ApiKey("free", acme.name)
    expiring = replace(free, ends_at_ms=9)
    revoked = replace(expiring, end=KeyEnd.REVOKED)
    for other, closed in ((free, False), (expiring, False), (revoked, True)):
        policy = replace(policy_of(acme), keys={"0": bound, "1": other})
        assert closed_without_ledger(policy) is closed


def test_a_single_tenant_needs_no_key() -> None:
    """It is the only one that is asked for, whatever others there are."""
    acme, other = tenant(OPEN), tenant(CLOSED)
    both = replace(policy_of(acme, other), keys={})

    assert closed_without_ledger(both)
    assert not closed_without_ledger(replace(both, single_tenant=acme.name))
    assert closed_without_ledger(replace(both, single_tenant=other.name))


def test_closed_is_the_default() -> None:
    """Who says nothing gets a closed policy."""
    default = replace(tenant(), quotas=(Quota("q", Axis.TOKENS, 1, 1),))

    assert closed_without_ledger(policy_of(default))
