"""What repeats in prompts is summed by day, bounded, and read back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import pytest
import redis

from tests.ledger.builders import Recorder
from tests.ledger.conftest import PATIENCE
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import tag_of, tenant_tags
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.ledger import keys, prompts
from tokenweir.ledger.keys import ACCESS, PROMPT_KEPT_MS
from tokenweir.ledger.link import Link
from tokenweir.ledger.prompts import (
    BATCH,
    OTHER,
    PromptKey,
    PromptLedger,
    PromptSum,
)

TAG = tag_of("acme")
DAY_S = 86_400
SYSTEM = PromptKey("acme", "gpt-4o", Kind.SYSTEM, "0123456789abcdef")
COST = PromptCost(2, 1_000, 900, 300, 4_000, 9_007_199_254)


def key_of(number: int, **changes: str) -> PromptKey:
    """Return the key of another prompt."""
    names = {"tenant": "acme", "model": "gpt-4o", **changes}
    return PromptKey(**names, kind=Kind.PREFIX, digest=f"{number:016x}")


@pytest.fixture
def today() -> int:
    """The day by the servers' clock, and it does not end within the test."""
    left_s = DAY_S - time.time() % DAY_S
    if left_s < PATIENCE:
        time.sleep(left_s + 1)
    return int(time.time() // DAY_S)


@pytest.fixture
async def ledger(server: Server, events: Recorder) -> AsyncIterator[PromptLedger]:
    """The sums of each server, empty."""
    link = Link(server.url, events, deadline_seconds=PATIENCE)
    yield PromptLedger(link)
    await link.close()


async def test_sums_add_up(ledger: PromptLedger, today: int) -> None:
    """Within a day and over days; a large figure stays a whole number."""
    await ledger.ping()
    for day in (today - 1, today, today):
        await ledger.add(
            "acme", day, [PromptSum(SYSTEM, COST), PromptSum(key_of(1), COST)]
        )
    both = COST + COST + COST

    assert await ledger.read(today - 1, today) == {SYSTEM: both, key_of(1): both}
    assert (await ledger.read(today - 1, today - 1))[SYSTEM] == COST
    assert await ledger.read(today - 9, today - 2) == {}
    assert await ledger.read(today, today, tenant="globex") == {}
    assert (await ledger.read(today, today, tenant="acme"))[SYSTEM] == COST + COST


async def test_a_long_span_is_read_in_pieces(
    ledger: PromptLedger, today: int, events: Recorder
) -> None:
    """Each has its own time, so that a slow server can be asked for all days."""
    await ledger.add("acme", today, [PromptSum(SYSTEM, COST)])
    found = await ledger.read(today - 34, today)
    texts = await ledger.texts(key_of(number) for number in range(BATCH + 1))

    assert found == {SYSTEM: COST}
    assert texts == {}
    verbs = [verb for verb, _ in events.calls]
    # Of all days, of the texts, and before them of which form it is.
    assert verbs.count("read") == len(tenant_tags()) * 35 // BATCH + 2 + 1


async def test_a_wrong_clock_fills_no_other_days(
    ledger: PromptLedger, today: int
) -> None:
    """What is said to be of another year is of today or of yesterday."""
    await ledger.add("acme", today + 400, [PromptSum(SYSTEM, COST)])
    await ledger.add("acme", 0, [PromptSum(SYSTEM, COST)])

    assert (await ledger.read(today - 1, today + 1))[SYSTEM] == COST + COST


async def test_a_day_has_a_bound(
    ledger: PromptLedger, today: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is new beyond it is summed with others of its kind, and has no text."""
    monkeypatch.setattr(prompts, "MAX_MEMBERS", 2)
    rows = [PromptSum(key_of(number), COST, "text") for number in range(4)]
    await ledger.add("acme", today, rows)
    await ledger.add("acme", today, rows[:1])
    other = PromptKey("acme", OTHER, Kind.PREFIX, OTHER)

    assert await ledger.read(today, today) == {
        key_of(0): COST + COST,
        key_of(1): COST,
        other: COST + COST,
    }
    kept = await ledger.texts([row.key for row in rows])
    assert kept == {key_of(0).digest: "text", key_of(1).digest: "text"}


async def test_each_tenant_has_a_bound_of_its_own(
    ledger: PromptLedger, today: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever floods a day pushes nobody else out who lies in the same place."""
    neighbour = next(
        name for name in map("t{}".format, range(5_000)) if tag_of(name) == TAG
    )
    monkeypatch.setattr(prompts, "MAX_MEMBERS", 1)
    for tenant in ("acme", neighbour):
        rows = [PromptSum(key_of(number, tenant=tenant), COST) for number in range(3)]
        await ledger.add(tenant, today, rows)
    found = await ledger.read(today, today, tenant=neighbour)

    assert found[key_of(0, tenant=neighbour)] == COST
    assert {key.tenant for key in found} == {neighbour}
    assert len(await ledger.read(today, today)) == 4


async def test_texts_have_a_bound(
    ledger: PromptLedger, today: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are new in a day; one that is there is kept on."""
    monkeypatch.setattr(prompts, "MAX_NEW_TEXTS", 1)
    rows = [PromptSum(key_of(number), COST, f"text {number}") for number in range(2)]
    await ledger.add("acme", today, rows)
    await ledger.add("acme", today, rows)

    assert await ledger.texts([row.key for row in rows]) == {key_of(0).digest: "text 0"}


async def test_texts(ledger: PromptLedger, today: int, client: redis.Redis) -> None:
    """Only what was sent is kept, for as long as the sums are; they have an expiry."""
    await ledger.add(
        "acme",
        today,
        [PromptSum(SYSTEM, COST, "Bé brief."), PromptSum(key_of(1), COST)],
    )

    assert await ledger.texts([SYSTEM, key_of(1)]) == {SYSTEM.digest: "Bé brief."}
    assert await ledger.texts([]) == {}
    for name in (keys.prompts(TAG, today), keys.prompt_text(TAG, SYSTEM.digest)):
        assert PROMPT_KEPT_MS - 60_000 < int(client.pttl(name)) <= PROMPT_KEPT_MS
    assert client.dbsize() == 2


async def test_names_cannot_be_mistaken(ledger: PromptLedger, today: int) -> None:
    """A separator in a name, which no policy allows, becomes a blank."""
    odd = key_of(1, tenant="a\x1fb", model="m\x1f")
    await ledger.add("acme", today, [PromptSum(odd, COST)])

    assert await ledger.read(today, today) == {
        key_of(1, tenant="a b", model="m "): COST
    }


async def test_what_is_not_ours(
    ledger: PromptLedger, today: int, client: redis.Redis
) -> None:
    """Somebody else's writing is told, and not read as costs."""
    client.hset(keys.prompts(TAG, today), "acme", "1 2 3 4 5")

    with pytest.raises(LedgerUnavailableError):
        await ledger.read(today, today)


async def test_a_processor_may_do_all_of_it(
    server: Server, client: redis.Redis, events: Recorder, today: int
) -> None:
    """With the rights that we ask for, nothing more is needed."""
    as_admin: Callable[..., object] = client.execute_command
    as_admin("ACL", "SETUSER", "weir", "reset", "on", ">pw", *ACCESS)
    url = server.url.replace("unix://", "unix://weir:pw@")
    link = Link(url, events, deadline_seconds=PATIENCE)
    ledger = PromptLedger(link)
    await ledger.add("acme", today, [PromptSum(SYSTEM, COST, "text")])

    assert await ledger.read(today, today) == {SYSTEM: COST}
    assert await ledger.texts([SYSTEM]) == {SYSTEM.digest: "text"}
    await link.close()
