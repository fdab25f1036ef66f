"""Whatever comes between, a response passes and is settled once."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest

from tests.driver.fakes import Gate, Kit, raising
from tests.examples import NOW_MS, ticket
from tests.wire import DONE, FINISH, JSON, STREAM, USAGE_EVENT, delta
from tokenweir.core import accounting
from tokenweir.core.commands import PassChunk, PassHead
from tokenweir.core.events import ResponseChunk, ResponseHead
from tokenweir.core.hold import Outcome, Settlement
from tokenweir.core.holding import HOLD_MS
from tokenweir.core.prompt_part import Kind, PromptCost, PromptPart, PromptParts
from tokenweir.core.response import ResponseReader
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.driver import response as module
from tokenweir.driver.handoff import CLAIM_SECONDS
from tokenweir.driver.response import ResponseDriver

HEAD = ResponseHead(200, STREAM)
END = ResponseChunk(DONE, ended=True)
BROKEN = RuntimeError("broken")


@pytest.fixture
async def kit() -> Kit:
    """Return services whose ledger has the ticket's hold."""
    kit = Kit()
    await kit.ledger.reserve(ticket().hold)
    return kit


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let renewals come all the time."""
    monkeypatch.setattr(module, "FIRST_RENEWAL_SECONDS", 0.0)
    monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.001)


def driver_of(kit: Kit, of: Ticket | None = None) -> ResponseDriver:
    """Return a driver of the ticket's exchange."""
    return ResponseDriver(of or ticket(), kit.services)


async def settlement_of(kit: Kit) -> Settlement:
    """Return the only settlement, once nothing is left to be done."""
    await assert_over(kit)
    [settlement] = kit.ledger.settlements
    [details] = kit.recorder.exchanges
    assert details.settlement == settlement
    assert details.rejection is None
    assert details.hold_id == ticket().hold.id
    return settlement


async def assert_over(kit: Kit) -> None:
    """Assert that nothing is reserved, in flight, timed, or worked on."""
    await kit.quiet()
    assert await kit.ledger.reserved() == {}
    assert kit.services.responding == set()
    assert kit.services.settling == set()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert [timer for timer in timers if not timer.cancelled()] == []


# === whole responses ==============================================================


async def test_settled(kit: Kit) -> None:
    """A response is answered piece by piece, and settled once by its report."""
    driver = driver_of(kit)
    assert kit.services.responding == {driver}
    answer = driver.advance(HEAD)
    assert isinstance(answer, PassHead)
    assert answer.watch_body
    for piece in (delta("Hello"), FINISH, USAGE_EVENT):
        assert driver.advance(ResponseChunk(piece)) == PassChunk()
    assert not driver.over
    assert driver.advance(END) == PassChunk()
    assert driver.over
    driver.closed()

    settlement = await settlement_of(kit)
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert settlement.outcome is Outcome.COMPLETED
    assert kit.recorder.faults == []
    assert kit.ledger.count("cancel") == 0


async def test_what_the_prompt_cost(kit: Kit) -> None:
    """It is told once, with whose it was, when the exchange is settled."""
    part = PromptPart(Kind.SYSTEM, "0123456789abcdef", 50)
    of = replace(ticket(), prompt=PromptParts((part,), 100))
    driver = driver_of(kit, of)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(USAGE_EVENT))
    assert kit.prompts.costs == []
    driver.advance(END)
    driver.closed()

    await settlement_of(kit)
    cost = PromptCost(1, 5, 5, 0, 11, 0)
    assert kit.prompts.costs == [(of.hold.subject, ((part, cost),))]


async def test_no_prompt_to_audit(kit: Kit) -> None:
    """Then nothing is told."""
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.closed()

    await assert_over(kit)
    assert kit.prompts.costs == []


async def test_reported(kit: Kit) -> None:
    """What is reported is what the ticket and the settlement say."""
    of = Ticket(ticket().hold, NOW_MS, "GET", governor_ms=3.5, ledger_ms=1.5)
    driver = driver_of(kit, of)
    kit.now_ms += 250
    driver.advance(ResponseHead(200, JSON, ended=True))
    driver.closed()

    settlement = await settlement_of(kit)
    [details] = kit.recorder.exchanges
    assert (details.governor_ms, details.ledger_ms) == (3.5, 1.5)
    assert details.method == "GET"
    assert details.subject == of.hold.subject
    assert details.quotas == ("acme.tokens_per_minute", "*.tpm_by_provider")
    assert settlement.duration_ms == 250


async def test_outstanding_until_settled(kit: Kit) -> None:
    """A hold is outstanding as long as the ledger has not answered its settle."""
    gate = kit.ledger.after["settle"] = Gate()
    driver = driver_of(kit)
    driver.advance(ResponseHead(200, JSON, ended=True))
    driver.closed()
    await gate.reached.wait()

    assert kit.services.responding == set()
    assert len(kit.services.settling) == 1
    gate.opened.set()
    await assert_over(kit)


async def test_counted(kit: Kit) -> None:
    """Without a report what passed is counted, and then settled."""
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(delta("Hello")))
    driver.advance(END)
    assert not driver.over
    driver.closed()

    settlement = await settlement_of(kit)
    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=30)
    assert settlement.source is Source.COUNTED
    assert kit.counter.asked == [(("Hello",), "gpt-4o-mini", None, 0)]


async def test_answers_do_not_wait(kit: Kit) -> None:
    """No answer waits for the ledger or the tokenizer."""
    gate = Gate()
    kit.counter.point = gate
    kit.ledger.before["settle"] = gate
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(delta("Hello")))

    assert driver.advance(END) == PassChunk()
    driver.closed()
    assert kit.ledger.settlements == []
    gate.opened.set()
    await settlement_of(kit)


# === ends of other kinds ==========================================================


@pytest.mark.parametrize("pieces", [None, [], [delta("Hello")], [USAGE_EVENT]])
async def test_closed(kit: Kit, pieces: list[bytes] | None) -> None:
    """Whenever Envoy closes the stream: it is settled, once."""
    driver = driver_of(kit)
    if pieces is not None:
        driver.advance(HEAD)
    for piece in pieces or ():
        driver.advance(ResponseChunk(piece))
    driver.closed()
    driver.closed()

    settlement = await settlement_of(kit)
    assert settlement.usage.total_input_tokens in (30, 11)


@pytest.mark.parametrize("pieces", [None, [], [delta("Hello")], [USAGE_EVENT]])
async def test_drain(kit: Kit, pieces: list[bytes] | None) -> None:
    """At a drain what passed is settled; the rest passes, and changes nothing."""
    driver = driver_of(kit)
    if pieces is not None:
        driver.advance(HEAD)
    for piece in pieces or ():
        driver.advance(ResponseChunk(piece))
    driver.drain()
    await kit.quiet()
    assert driver.over
    if pieces is None:
        answer = driver.advance(HEAD)
        assert isinstance(answer, PassHead)
        assert not answer.watch_body
    assert driver.advance(ResponseChunk(delta(" there!"))) == PassChunk()
    assert driver.advance(END) == PassChunk()
    driver.drain()
    driver.closed()

    settlement = await settlement_of(kit)
    assert settlement.outcome is Outcome.DRAINED
    assert kit.recorder.faults == []


async def test_drain_of_many(kit: Kit) -> None:
    """A drain can go through all responses in flight while they settle."""
    drivers = [driver_of(kit) for _ in range(3)]
    for drainable in tuple(kit.services.responding):
        drainable.drain()

    assert all(driver.over for driver in drivers)
    assert kit.services.responding == set()
    await kit.quiet()


# === renewal ======================================================================


async def until(condition: Callable[[], bool]) -> None:
    """Return once *condition* holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a timer is what is tested
            await asyncio.sleep(0.001)


async def test_renewals(kit: Kit, eager: None) -> None:
    """A hold is renewed before and while the response flows, and not after."""
    driver = driver_of(kit)
    await until(lambda: kit.ledger.count("extend") >= 2)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(USAGE_EVENT))
    before = kit.ledger.count("extend")
    await until(lambda: kit.ledger.count("extend") >= before + 2)
    driver.advance(END)
    driver.closed()
    await settlement_of(kit)

    renewals = kit.ledger.count("extend")
    await asyncio.sleep(0.01)
    assert kit.ledger.count("extend") == renewals


async def test_no_renewal_while_counting(kit: Kit, eager: None) -> None:
    """What is about to be settled is not renewed: the count is bounded."""
    gate = Gate()
    kit.counter.point = gate
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.closed()
    await gate.reached.wait()
    renewals = kit.ledger.count("extend")
    await asyncio.sleep(0.01)

    assert kit.ledger.count("extend") == renewals
    gate.opened.set()
    await settlement_of(kit)


async def test_claimed_against_an_unclaimed_cancel(kit: Kit, eager: None) -> None:
    """A renewal claims the hold: the request side's cancel for want of one is late."""
    driver = driver_of(kit)
    await until(lambda: kit.ledger.count("extend") >= 1)
    await kit.ledger.cancel(ticket().hold, unclaimed_only=True)

    assert await kit.ledger.reserved() != {}
    driver.closed()
    await settlement_of(kit)


async def test_renewal_keeps_it_alive(kit: Kit, eager: None) -> None:
    """A hold that is renewed does not expire, however long the response takes."""
    driver = driver_of(kit)
    for _ in range(3):
        kit.now_ms += HOLD_MS - 1
        before = kit.ledger.count("extend")
        await until(lambda before=before: kit.ledger.count("extend") > before)  # type: ignore[misc]
        tags = [part.tag for part in ticket().hold.parts]
        assert await kit.ledger.store.sweep(tags) == 0
    driver.closed()

    await settlement_of(kit)


def test_times_fit_together() -> None:
    """
    A hold is renewed before it counts as unclaimed, and twice before it expires.
    """
    assert module.FIRST_RENEWAL_SECONDS < CLAIM_SECONDS < HOLD_MS / 1000
    assert module.RENEWAL_SECONDS * 2 < HOLD_MS / 1000


# === faults =======================================================================


def broken(*_: object) -> None:
    """Raise."""
    raise BROKEN


async def test_broken_head(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the head can't be read, the response passes unwatched, and owes its input."""
    monkeypatch.setattr(accounting, "refused_before_work", broken)
    driver = driver_of(kit)

    assert driver.advance(HEAD) == PassHead(watch_body=False)
    driver.closed()
    settlement = await settlement_of(kit)
    assert settlement.usage == TokenUsage(input_tokens=30)
    assert kit.recorder.faults == [("response", BROKEN)]


async def test_broken_reader(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a piece can't be read, it passes, and what was read before is charged."""
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(delta("Hello")))
    monkeypatch.setattr(ResponseReader, "feed", broken)

    assert driver.advance(ResponseChunk(delta(" there!"))) == PassChunk()
    assert driver.advance(END) == PassChunk()
    driver.closed()
    await settlement_of(kit)
    assert kit.recorder.faults == [("response", BROKEN)] * 2
    assert kit.counter.asked[0][0] == ("Hello",)


@pytest.mark.parametrize("end", ["closed", "drain"])
@pytest.mark.parametrize(
    ("place", "name"), [(accounting, "nothing_owed"), (accounting, "reported_usage")]
)
async def test_broken_end(
    kit: Kit,
    monkeypatch: pytest.MonkeyPatch,
    eager: None,
    place: ModuleType,
    name: str,
    end: str,
) -> None:
    """What can't be settled is not kept alive: the reaper charges it."""
    monkeypatch.setattr(place, name, broken)
    driver = driver_of(kit)
    driver.advance(HEAD)
    getattr(driver, end)()
    await kit.quiet()
    renewals = kit.ledger.count("extend")
    await asyncio.sleep(0.01)

    assert kit.ledger.count("extend") == renewals
    assert kit.services.responding == set()
    assert kit.recorder.faults == [("response", BROKEN)]
    kit.now_ms += HOLD_MS
    assert await kit.ledger.store.sweep([p.tag for p in ticket().hold.parts]) == 2
    await assert_over(kit)


async def test_broken_counter(kit: Kit) -> None:
    """If counting breaks, what passed is charged by its size."""
    kit.counter.point = raising(BROKEN)
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(delta("x" * 41)))
    driver.advance(END)
    driver.closed()

    settlement = await settlement_of(kit)
    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=11)
    assert settlement.source is Source.ESTIMATED
    assert kit.recorder.faults == [("response", BROKEN)]


async def test_broken_settlement(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """If even the count's result can't be used, nothing is left behind."""
    monkeypatch.setattr(accounting, "counted_usage", broken)
    driver = driver_of(kit)
    driver.advance(HEAD)
    driver.closed()
    await kit.quiet()

    assert kit.services.responding == set()
    assert kit.recorder.faults == [("response", BROKEN)]


@pytest.mark.parametrize("verb", ["extend", "settle"])
async def test_broken_ledger(kit: Kit, eager: None, verb: str) -> None:
    """What a ledger raises, though it promised not to, is reported; all goes on."""
    kit.ledger.after[verb] = raising(BROKEN)
    driver = driver_of(kit)
    await until(lambda: kit.ledger.count("extend") >= 1)
    driver.advance(HEAD)
    driver.advance(ResponseChunk(USAGE_EVENT))
    assert driver.advance(END) == PassChunk()
    driver.closed()

    await settlement_of(kit)
    assert ("background", BROKEN) in kit.recorder.faults


async def test_unexpected_message(kit: Kit) -> None:
    """A piece without a head passes; the exchange is settled all the same."""
    driver = driver_of(kit)

    assert driver.advance(ResponseChunk(b"x")) == PassChunk()
    driver.closed()
    await settlement_of(kit)
    assert [type(error) for _, error in kit.recorder.faults] == [KeyError]


async def test_ends_anywhere(eager: None) -> None:
    """After 300 responses that ended anywhere: each is settled once, nothing is left."""
    chance = random.Random(12)
    kit = Kit()
    pieces = [delta("Hello"), delta(" there!"), FINISH, USAGE_EVENT, DONE]

    async def respond() -> None:
        hold = replace(ticket().hold, id=kit.hold_id())
        of = replace(ticket(), hold=hold)
        await kit.ledger.reserve(hold)
        driver = driver_of(kit, of)
        steps: list[ResponseHead | ResponseChunk]
        steps = [HEAD, *(ResponseChunk(piece) for piece in pieces), END]
        for step in steps[: chance.randrange(len(steps) + 1)]:
            driver.advance(step)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            if chance.random() < 0.05:
                driver.drain()
        driver.closed()

    for _ in range(30):
        await asyncio.gather(*(respond() for _ in range(10)))

    await assert_over(kit)
    assert len(kit.ledger.settlements) == len(kit.recorder.exchanges) == 300
    assert len({settlement.outcome for settlement in kit.ledger.settlements}) == 3
    assert kit.recorder.faults == []
