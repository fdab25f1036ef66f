from dataclasses import replace

from tests.ledger.builders import START_MS, Clock, Recorder
from tests.telemetry.exchanges import policy_of
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import ApiKey, Axis, Quota
from tokenweir.core.record import SEPARATOR, hour_of
from tokenweir.core.tally import Tallied
from tokenweir.ledger.matched import (
    Idle,
    idle_quotas,
    never_matched,
    quota_matches,
    tallied,
)
from tokenweir.ledger.memory import MemoryStore

HOUR = hour_of(START_MS)


async def counted(clock: Clock) -> MemoryStore:
    """A ledger in which two processors have counted for two tenants, in two hours."""
    store = MemoryStore(Recorder(), now_ms=clock)
    clock.now_ms += 3_600_000
    for tenant, hour, figures in (
        ("acme", HOUR, {"matched_acme.tpm": 5, "refused_acme.tpm": 1}),
        ("acme", HOUR + 1, {"matched_acme.tpm": 7, "refused:draining": 1}),
        ("globex", HOUR, {"matched_globex.tpm": 2, "shadow_globex.tpm": 1}),
    ):
        group = SEPARATOR.join((tenant, "ci", "gpt-4o", "openai", "chat_completions"))
        sums = {f"{group}{SEPARATOR}{name}": n for name, n in figures.items()}
        await store.tally(tag_of(tenant), hour, sums)
    return store


async def test_matches_are_those_of_the_span(clock: Clock) -> None:
    """
    All processors, all tenants; both ends are included.
    """
    store = await counted(clock)

    assert await quota_matches(store, HOUR, HOUR + 1) == {
        "acme.tpm": 12,
        "globex.tpm": 2,
    }
    assert await quota_matches(store, HOUR + 1, HOUR + 9) == {"acme.tpm": 7}
    assert await quota_matches(store, HOUR + 2, HOUR + 9) == {}


async def test_refusals_are_told_by_limit(clock: Clock) -> None:
    """
    Of one tenant, or of all.
    """
    store = await counted(clock)
    acme = await tallied(store, HOUR, HOUR + 1, tenant="acme")

    assert acme == Tallied({"acme.tpm": 1}, {"draining": 1}, {}, {"acme.tpm": 12})
    assert (await tallied(store, HOUR, HOUR + 1)).shadowed == {"globex.tpm": 1}


def test_a_quota_that_matched_nothing_is_named() -> None:
    """
    A quota that is not among the matches, or is there with none; a key's own too.
    """
    policy = policy_of("a", "b", "c")
    own = ApiKey("ci", "acme", quotas=(Quota("key", Axis.TOKENS, 1, 1),))
    keyed = replace(policy, keys={"00" * 32: own})

    assert never_matched(policy, {"a": 1, "b": 0}) == ("b", "c")
    assert never_matched(keyed, {"a": 1, "b": 9}) == ("c", "key")


def test_where_all_are_one_tenant_only_its_quotas_count() -> None:
    """
    Keys and other tenants play no part then, so nothing is wrong with their quotas.
    """
    policy = replace(policy_of("a", tenants=("acme", "globex")), single_tenant="acme")
    other = replace(policy.tenants["globex"], quotas=(Quota("x", Axis.TOKENS, 1, 1),))
    policy = replace(policy, tenants={**policy.tenants, "globex": other})

    assert never_matched(policy, {}) == ("a",)


async def test_idle_quotas_tell_how_many_calls_they_missed(clock: Clock) -> None:
    """Refused or forwarded: a tenant's calls, and of a key's own quota that key's."""
    store = await counted(clock)
    group = SEPARATOR.join(("acme", "app", "gpt-4o", "openai", "chat_completions"))
    await store.tally(tag_of("acme"), HOUR, {f"{group}{SEPARATOR}exchanges": 9})
    policy = policy_of("acme.tpm", "acme.x", tenants=("acme", "silent"))
    own = (Quota("acme/ci.rpm", Axis.REQUESTS, 1, 1),)
    secrets = [ApiKey("ci", "acme", quotas=own), ApiKey("app", "acme")]
    rotated = [*secrets, replace(secrets[0], ends_at_ms=1)]
    policy = replace(policy, keys={f"{at:064x}": key for at, key in enumerate(rotated)})
    silent = replace(policy.tenants["silent"], quotas=(replace(own[0], id="silent.q"),))
    policy = replace(policy, tenants={**policy.tenants, "silent": silent})

    assert await idle_quotas(store, policy, HOUR, HOUR + 1) == (
        Idle("acme.x", 11),
        Idle("silent.q", 0),
        Idle("acme/ci.rpm", 2),
    )
    assert await idle_quotas(store, policy, HOUR + 2, HOUR + 3) == tuple(
        Idle(name, 0) for name in ("acme.tpm", "acme.x", "silent.q", "acme/ci.rpm")
    )
