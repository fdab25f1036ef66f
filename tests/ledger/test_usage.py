from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.ledger.builders import START_MS, SUBJECT, Clock, Recorder, hold, used
from tokenweir.core.hold import Hold, Part
from tokenweir.core.partition import tag_of, user_code
from tokenweir.core.record import hour_of
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.store import Rollup
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.ledger.usage import GroupBy, Outstanding, outstanding, usage

HOUR = hour_of(START_MS)


def asked_by(number: int, tenant: str, key: str, model: str, at_ms: int) -> Hold:
    """A hold of that subject."""
    subject = replace(SUBJECT, tenant=tenant, key_id=key, model=model)
    return replace(
        hold(number, made_ms=at_ms),
        parts=(Part(tag_of(tenant), ()),),
        subject=subject,
    )


@pytest.fixture
async def store(events: Recorder, clock: Clock) -> MemoryStore:
    """A ledger with a history: two tenants, three keys, two models, three hours."""
    store = MemoryStore(events, now_ms=clock)
    ledger = TaggedLedger(store)
    history = [
        ("acme", "ci", "gpt-4o", 0, 1),
        ("acme", "ci", "gpt-4o", 1, 10),
        ("acme", "ci", "claude", 1, 100),
        ("acme", "dev", "gpt-4o", 1, 1_000),
        ("globex", "ci", "gpt-4o", 2, 10_000),
    ]
    for number, (tenant, key, model, hours, tokens) in enumerate(history):
        clock.now_ms = START_MS + 3_600_000 * hours
        made = asked_by(number, tenant, key, model, clock.now_ms)
        settlement = replace(used(tokens, 2 * tokens), cost_nanousd=3 * tokens)
        await ledger.settle(made, settlement)
    return store


class Forgetful:
    """Reads a store whose sums by user have run out."""

    def __init__(self, store: MemoryStore) -> None:
        self.snapshot, self.holdings = store.snapshot, store.holdings
        self._store = store

    async def rollups(
        self,
        tags: Sequence[str],
        first_hour: int,
        last_hour: int,
        *,
        with_users: bool = False,
    ) -> Sequence[Rollup]:
        assert with_users
        return await self._store.rollups(tags, first_hour, last_hour)


async def inputs(
    store: MemoryStore, first: int, last: int, *by: GroupBy, tenant: str | None = None
) -> dict[tuple[str, ...], int]:
    """Input tokens between two of the hours."""
    sums = await usage(store, HOUR + first, HOUR + last, by, tenant=tenant)
    return {group: figures["input_tokens"] for group, figures in sums.items()}


async def test_sums_are_kept_apart_as_asked(store: MemoryStore) -> None:
    """
    By tenant, key, model, any of them in any order, or by nothing.
    """
    assert await inputs(store, 0, 2) == {(): 11_111}
    assert await inputs(store, 0, 2, GroupBy.TENANT) == {
        ("acme",): 1_111,
        ("globex",): 10_000,
    }
    assert await inputs(store, 0, 2, GroupBy.MODEL, GroupBy.KEY) == {
        ("gpt-4o", "ci"): 10_011,
        ("claude", "ci"): 100,
        ("gpt-4o", "dev"): 1_000,
    }


async def test_only_the_hours_asked_for_are_summed(store: MemoryStore) -> None:
    """
    The first hour and the last are included.
    """
    assert await inputs(store, 1, 1) == {(): 1_110}
    assert await inputs(store, 0, 1) == {(): 1_111}
    assert await inputs(store, 3, 9) == {}


async def test_one_tenant_is_told_apart(store: MemoryStore) -> None:
    """
    Others' sums are left out, even if they lie under the same tag.
    """
    assert await inputs(store, 0, 2, tenant="acme") == {(): 1_111}
    neighbour = next(
        name for name in map(str, range(10_000)) if tag_of(name) == tag_of("acme")
    )
    made = asked_by(9, neighbour, "ci", "gpt-4o", START_MS)
    await TaggedLedger(store).settle(made, used(5, 5))
    assert await inputs(store, 0, 2, tenant="acme") == {(): 1_111}
    assert await inputs(store, 0, 2, tenant=neighbour) == {(): 5}


async def test_all_figures_are_summed(store: MemoryStore) -> None:
    """
    Exchanges, attempts, tokens by class, cost, outcomes and sources.
    """
    sums = await usage(store, HOUR, HOUR + 2)

    assert sums[("acme",)] == {
        "exchanges": 4,
        "with_user": 4,
        "requests": 4,
        "input_tokens": 1_111,
        "output_tokens": 2_222,
        "cost_nanousd": 3_333,
        "outcome_completed": 4,
        "source_reported": 4,
    }


async def test_sums_are_kept_apart_by_provider_and_route(clock: Clock) -> None:
    """
    Who answered, and by which class of paths it was asked.
    """
    store = MemoryStore(Recorder(), now_ms=clock)
    for number, (provider, route) in enumerate(
        [("openai", "chat_completions"), ("azure", "chat_completions"), ("", "models")]
    ):
        made = asked_by(number, "acme", "ci", "gpt-4o", START_MS)
        subject = replace(made.subject, provider=provider, route=route)
        await TaggedLedger(store).settle(replace(made, subject=subject), used(5, 0))

    assert await inputs(store, 0, 0, GroupBy.ROUTE) == {
        ("chat_completions",): 10,
        ("models",): 5,
    }
    assert await inputs(store, 0, 0, GroupBy.PROVIDER, GroupBy.ROUTE) == {
        ("openai", "chat_completions"): 5,
        ("azure", "chat_completions"): 5,
        ("", "models"): 5,
    }


async def test_hours_and_days_are_told_by_their_beginning(store: MemoryStore) -> None:
    """
    In UTC, as RFC 3339 writes it.
    """
    assert await inputs(store, 0, 2, GroupBy.HOUR) == {
        ("2023-11-14T22:00:00Z",): 1,
        ("2023-11-14T23:00:00Z",): 1_110,
        ("2023-11-15T00:00:00Z",): 10_000,
    }
    assert await inputs(store, 0, 2, GroupBy.DAY, GroupBy.TENANT) == {
        ("2023-11-14", "acme"): 1_111,
        ("2023-11-15", "globex"): 10_000,
    }


async def of_users(store: MemoryStore, *users: str) -> MemoryStore:
    """*store* with one more exchange of acme by each of *users*; 7 tokens each."""
    for number, user in enumerate(users):
        made = asked_by(50 + number, "acme", "ci", "gpt-4o", START_MS)
        subject = replace(made.subject, user=user)
        await TaggedLedger(store).settle(replace(made, subject=subject), used(7, 0))
    return store


async def test_users_are_told_by_their_code(clock: Clock) -> None:
    """
    One by one; exchanges that name none are the rest.
    """
    store = MemoryStore(Recorder(), now_ms=clock)
    await of_users(store, "ann", "bob", "", "ann", "")
    ann, bob = user_code("acme", "ann"), user_code("acme", "bob")

    assert await inputs(store, 0, 0, GroupBy.USER) == {
        (ann,): 14,
        (bob,): 7,
        ("-",): 14,
    }
    by_both = await usage(store, HOUR, HOUR, (GroupBy.MODEL, GroupBy.USER))
    assert by_both[("gpt-4o", bob)]["exchanges"] == 1
    assert "with_user" not in by_both[("gpt-4o", "-")]
    assert await inputs(store, 0, 0) == {(): 35}


async def test_forgotten_users_are_not_taken_for_nobody(clock: Clock) -> None:
    """
    Once the sums by user are gone, what named somebody is told apart from what did not.
    """
    store = MemoryStore(Recorder(), now_ms=clock)
    await of_users(store, "ann", "")
    made = asked_by(90, "globex", "ci", "gpt-4o", START_MS)
    made = replace(made, subject=replace(made.subject, user=""))
    await TaggedLedger(store).settle(made, used(3, 0))
    forgetful = Forgetful(store)
    sums = await usage(forgetful, HOUR, HOUR, (GroupBy.TENANT, GroupBy.USER))

    assert {group: figures["input_tokens"] for group, figures in sums.items()} == {
        ("acme", "?"): 14,
        ("globex", "-"): 3,
    }


async def test_a_correction_corrects_the_users_sums(
    events: Recorder, clock: Clock
) -> None:
    """
    A lost exchange that is settled after all leaves no trace of the estimate.
    """
    store = MemoryStore(events, now_ms=clock)
    ledger = TaggedLedger(store)
    made = asked_by(1, "acme", "ci", "gpt-4o", START_MS)
    await ledger.reserve(made)
    clock.now_ms += 30_000
    await store.sweep([tag_of("acme")])
    await ledger.settle(made, used(44, 66))
    sums = await usage(store, HOUR, HOUR, (GroupBy.USER,))

    assert sums == {
        (user_code("acme", "ann"),): {
            "exchanges": 1,
            "with_user": 1,
            "requests": 1,
            "input_tokens": 44,
            "output_tokens": 66,
            "outcome_completed": 1,
            "source_reported": 1,
        }
    }


async def test_what_was_taken_back_is_nowhere(events: Recorder, clock: Clock) -> None:
    """
    An exchange that was lost, and had never been forwarded, makes no line of zeros.
    """
    store = MemoryStore(events, now_ms=clock)
    ledger = TaggedLedger(store)
    made = asked_by(1, "acme", "ci", "gpt-4o", START_MS)
    await ledger.reserve(made)
    clock.now_ms += 30_000
    await store.sweep([tag_of("acme")])
    await ledger.cancel(made)

    assert await usage(store, HOUR, HOUR) == {}


async def test_sums_of_former_versions_are_read(clock: Clock) -> None:
    """
    They had no provider and no route: these are empty.
    """
    store = MemoryStore(Recorder(), now_ms=clock)
    former = {"acme\x1fci\x1fgpt-4o\x1finput_tokens": 7}
    await store.tally(tag_of("acme"), HOUR, former)

    assert await inputs(store, 0, 0, GroupBy.MODEL, GroupBy.PROVIDER) == {
        ("gpt-4o", ""): 7
    }


async def test_nothing_is_outstanding_after_all_was_settled(
    store: MemoryStore,
) -> None:
    """
    That is what every test ends with.
    """
    assert await outstanding(store) == Outstanding()
