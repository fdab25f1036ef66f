"""What the ledger knows of the tour's calls."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ledger.builders import hold, used
from tests.ledger_view import Silent
from tests.servers import Server, start_valkey
from tests.stack.tour.trips import GROUND, QUOTA
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Hold, Limit, Part, Subject
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Axis
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.stack.tour.books import Books
from tokenweir.stack.tour.call import Call

CALL = Call("gpt-4o-mini", "Hello", 60)
LIMIT = Limit(QUOTA, Axis.TOKENS, "tenant=tour", 600, 600)
SUBJECT = Subject("tour", "tour", "", "chat_completions", "gpt-4o-mini", "openai")
# A look that must find nothing ends soon.
HASTY_SECONDS = 0.2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An empty ledger's server."""
    started = start_valkey(tmp_path)
    yield started
    started.stop()


@pytest.fixture
async def ledger(server: Server) -> AsyncIterator[TaggedLedger]:
    """What writes."""
    store = RedisStore(server.url, Silent(), deadline_seconds=10.0)
    yield TaggedLedger(store)
    await store.close()


@pytest.fixture
async def books(server: Server) -> AsyncIterator[Books]:
    """What is tested."""
    made = Books(replace(GROUND, ledger=server.url))
    yield made
    await made.close()


@pytest.fixture
async def hasty(server: Server) -> AsyncIterator[Books]:
    """The same, without patience."""
    made = Books(replace(GROUND, ledger=server.url), HASTY_SECONDS)
    yield made
    await made.close()


def asked(number: int, request_id: str) -> Hold:
    """Return the hold of the request *request_id*: of 100 tokens, made just now."""
    made = hold(number, made_ms=int(time.time() * 1_000))
    subject = replace(SUBJECT, request_id=request_id)
    return replace(made, parts=(Part(tag_of("tour"), (LIMIT,)),), subject=subject)


async def test_what_would_be_reserved(books: Books, ledger: TaggedLedger) -> None:
    """The prompt is counted by the model's tokenizer; what is left follows the ledger."""
    before = await books.forecast(CALL)
    await ledger.reserve(asked(1, "tour-x-1"))
    after = await books.forecast(CALL)

    assert 0 < before.input_tokens < 20
    assert before.counted
    assert (before.quota, before.capacity, before.left) == (QUOTA, 600, 600)
    assert 500 <= after.left <= 600
    assert replace(after, left=600) == before


async def test_a_tenant_without_limits_is_forecast_too(server: Server) -> None:
    """There is no quota to tell, and no capacity."""
    policy = GROUND.policy
    tenants = {**policy.tenants, "tour": replace(policy.tenants["tour"], quotas=())}
    ground = replace(GROUND, ledger=server.url, policy=replace(policy, tenants=tenants))
    books = Books(ground)
    forecast = await books.forecast(CALL)
    await books.close()

    assert forecast.input_tokens > 0
    assert (forecast.quota, forecast.capacity) == ("", 0)


async def test_records_are_found_by_their_ids(
    books: Books, ledger: TaggedLedger
) -> None:
    """Those from before are not the tour's; of the others each is told apart."""
    await ledger.settle(asked(1, "tour-x-0"), used(1, 1))
    [[first]] = [await books_since(books)]
    await ledger.settle(asked(2, "tour-x-1"), used(6, 12))
    await ledger.settle(asked(3, "other"), used(7, 7))
    record = await books.record("tour-x-1")

    assert first == "tour-x-0"
    assert record is not None
    assert (record["input_tokens"], record["output_tokens"]) == ("6", "12")
    assert [each["request_id"] for each in await books.records("tour-x-")] == [
        "tour-x-0",
        "tour-x-1",
    ]


async def books_since(books: Books) -> list[str]:
    """Open *books* from the beginning of time, and return what is in them."""
    books._after = "0-0"
    return [each["request_id"] for each in await books.records("")]


async def test_opening_leaves_out_what_was(hasty: Books, ledger: TaggedLedger) -> None:
    """Records of an earlier tour are not looked at; a missing one is none."""
    await ledger.settle(asked(1, "tour-x-0"), used(1, 1))
    old = asked(2, "tour-x-1")
    # By the ledger's clock the next millisecond is another one.
    began = await hasty._reader.now_ms()
    while await hasty._reader.now_ms() <= began + 1:
        pass
    await hasty.open(CALL)

    assert await hasty.records("") == []
    assert await hasty.record(old.subject.request_id) is None


async def test_what_is_in_flight_is_told_by_id(
    books: Books, hasty: Books, ledger: TaggedLedger
) -> None:
    """A hold counts until it is settled; one of others does not keep it from quiet."""
    mine = asked(1, "tour-x-1")
    await ledger.reserve(mine)
    await ledger.reserve(asked(2, "other"))

    assert await books.reserved("tour-x-1") == 100
    assert await books.reserved("tour-x-2") == 0
    assert not await hasty.is_quiet("tour-x-")
    await ledger.settle(mine, used(1, 1))
    assert await books.is_quiet("tour-x-")


async def test_a_ledger_that_has_gone_is_told(server: Server) -> None:
    """After some patience it is the ledger's failure, and nobody's of the gateway."""
    books = Books(replace(GROUND, ledger=server.url), outage_seconds=HASTY_SECONDS)
    server.stop()

    with pytest.raises(LedgerUnavailableError):
        await books.open()
    await books.close()
