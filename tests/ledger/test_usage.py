from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.builders import START_MS, SUBJECT, Clock, Recorder, hold, used
from tokenweir.core.hold import Hold, Part
from tokenweir.core.partition import tag_of
from tokenweir.core.record import hour_of
from tokenweir.ledger.memory import MemoryStore
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


async def test_nothing_is_outstanding_after_all_was_settled(
    store: MemoryStore,
) -> None:
    """
    That is what every test ends with.
    """
    assert await outstanding(store) == Outstanding()
