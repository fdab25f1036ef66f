"""Whatever comes between, a request is answered and no hold is lost."""

import asyncio
import contextlib
import gzip
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from tests.driver.fakes import Gate, Kit, Point, raising
from tests.examples import ACME_KEY, BARE_OPEN_KEY, OPEN_KEY, head, policy
from tests.wire import chat
from tokenweir.core import admission, exhausted, outgoing, request_side
from tokenweir.core.commands import Answer, AwaitBody, Forward, Reject
from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.events import RequestBody
from tokenweir.core.hold import Amounts
from tokenweir.core.policy import Policy
from tokenweir.core.prompt_part import Audit
from tokenweir.core.rejection import (
    InternalFault,
    LedgerUnavailable,
    Malformed,
    QuotaExhausted,
    UnknownKey,
)
from tokenweir.core.request_side import LEDGER_OPEN, Arrival, RequestSide
from tokenweir.driver import handoff as handoff_module
from tokenweir.driver.request import INLINE_BYTES, INLINE_VALUES, RequestDriver

BODY = RequestBody(chat(max_tokens=100))
POLICY = policy()
DOWN = LedgerUnavailableError("no answer")
BROKEN = RuntimeError("broken")


@pytest.fixture
def kit() -> Kit:
    """Return services with a patient deadline."""
    return Kit()


@pytest.fixture
def hasty() -> Kit:
    """Return services whose deadline comes as soon as something waits."""
    return Kit(admission_seconds=0.01)


def driver_of(kit: Kit, by: Policy = POLICY) -> RequestDriver:
    """Return a driver of a new exchange."""
    return RequestDriver(Arrival(by, kit.hold_id()), kit.services, kit.handoff)


async def answered(kit: Kit, key: str = ACME_KEY) -> tuple[RequestDriver, Answer]:
    """Return a driver, and its answer to a head and a body."""
    driver = driver_of(kit)
    assert await driver.advance(head(key=key)) == AwaitBody()
    return driver, await driver.advance(BODY)


async def assert_nothing_is_left(kit: Kit) -> None:
    """Assert that nothing is reserved, and nobody works any more."""
    await kit.quiet()
    assert await kit.ledger.reserved() == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}


# === answers ======================================================================


async def test_admitted(kit: Kit) -> None:
    """An admitted request has its hold in the ledger, offered to whoever responds."""
    driver, answer = await answered(kit)

    assert isinstance(answer, Forward)
    assert kit.handoff.size == 1
    assert answer.ticket.hold.amounts == Amounts(1, 30, 100)
    assert (await kit.ledger.reserved())[
        "acme.tokens_per_minute|tokens_per_minute|tenant=acme"
    ] == 130
    assert answer.ticket.governor_ms >= answer.ticket.ledger_ms >= 0
    assert answer.ticket.states[0].remaining == 59

    driver.closed()
    await kit.quiet()
    assert kit.ledger.count("cancel") == 0
    assert kit.recorder.exchanges == []
    kit.handoff.claim(answer.ticket.hold.id)


@pytest.mark.parametrize("keeps", [True, False])
async def test_texts_of_the_prompt(kit: Kit, keeps: bool) -> None:
    """What may be kept of an admitted prompt is handed over, and no more."""
    by = replace(POLICY, audit=Audit(keep_prompt_text=keeps))
    driver = driver_of(kit, by)
    await driver.advance(head())
    system = {"role": "system", "content": "Be brief."}
    answer = await driver.advance(RequestBody(chat(messages=[system])))
    driver.closed()

    assert isinstance(answer, Forward)
    assert answer.ticket.prompt is not None
    [part] = answer.ticket.prompt.parts
    assert kit.prompts.texts == ({part.digest: "Be brief."} if keeps else {})
    assert kit.prompts.costs == []
    kit.handoff.claim(answer.ticket.hold.id)


async def test_rejected(kit: Kit) -> None:
    """Who is turned away is reported once, with the reason."""
    driver = driver_of(kit)
    answer = await driver.advance(head(key="sk-unknown"))
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, UnknownKey)
    [details] = kit.recorder.exchanges
    assert details.rejection == answer.why
    assert details.settlement is None
    assert details.hold_id == ""
    assert details.subject.tenant == ""
    assert kit.handoff.size == 0
    assert kit.ledger.verbs == []


async def test_malformed(kit: Kit) -> None:
    """What can't be read is reported with what was known of it by then."""
    driver = driver_of(kit)
    await driver.advance(head())
    answer = await driver.advance(RequestBody(b"{"))
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, Malformed)
    [details] = kit.recorder.exchanges
    assert details.subject.tenant == "acme"
    assert details.method == "POST"


async def test_refused(kit: Kit) -> None:
    """A refused request holds nothing, and is reported with its quotas."""
    kit.counter.count.tokens = 9_000
    await answered(kit)
    driver, answer = await answered(kit)
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, QuotaExhausted)
    [details] = kit.recorder.exchanges
    assert details.rejection == answer.why
    assert details.hold_id.endswith("-2")
    assert "acme.tokens_per_minute" in details.quotas
    assert (await kit.ledger.reserved())[
        "acme.concurrency|concurrency|tenant=acme"
    ] == 1
    kit.handoff.claim(f"0-{kit.now_ms:x}-1")


@pytest.mark.parametrize("order", ["before", "after"])
async def test_closed_without_ledger(kit: Kit, order: str) -> None:
    """Closed: refused, and given back whether or not it had been applied."""
    getattr(kit.ledger, order)["reserve"] = raising(DOWN)
    driver, answer = await answered(kit)
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, LedgerUnavailable)
    await assert_nothing_is_left(kit)
    assert kit.ledger.count("cancel") == 1
    assert len(kit.recorder.exchanges) == 1
    assert kit.recorder.faults == []


@pytest.mark.parametrize("key", [OPEN_KEY, BARE_OPEN_KEY])
async def test_open_without_ledger(kit: Kit, key: str) -> None:
    """Open: admitted and flagged, to be settled by whoever responds."""
    kit.ledger.before["reserve"] = raising(DOWN)
    _, answer = await answered(kit, key)

    assert isinstance(answer, Forward)
    assert answer.ticket.flags == (LEDGER_OPEN,)
    assert kit.handoff.size == 1
    await assert_nothing_is_left(kit)
    assert kit.ledger.count("cancel") == 0
    kit.handoff.claim(answer.ticket.hold.id)


async def test_unclaimed(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold that was forwarded and never claimed is given back."""
    monkeypatch.setattr(handoff_module, "CLAIM_SECONDS", 0.0)
    driver, answer = await answered(kit)
    driver.closed()
    await asyncio.sleep(0.01)

    assert isinstance(answer, Forward)
    await assert_nothing_is_left(kit)


# === large bodies =================================================================

LARGE = RequestBody(chat(max_tokens=100, metadata={"x": "x" * INLINE_BYTES}))

USER = {"role": "user"}
MANY = RequestBody(chat(max_tokens=100, messages=[USER] * (INLINE_VALUES // 2)))
FEWER = RequestBody(chat(max_tokens=100, messages=[USER] * (INLINE_VALUES // 2 - 5)))


@pytest.mark.parametrize(
    ("body", "encoding", "thread"),
    [
        (BODY, "identity", "MainThread"),
        (LARGE, "identity", "bodies"),
        (MANY, "identity", "bodies"),
        (FEWER, "identity", "MainThread"),
        (RequestBody(gzip.compress(BODY.body)), "gzip", "bodies"),
    ],
)
async def test_large_bodies_are_read_in_a_thread(
    kit: Kit,
    monkeypatch: pytest.MonkeyPatch,
    body: RequestBody,
    encoding: str,
    thread: str,
) -> None:
    """The loop reads what is small, and a thread what is not, or may not be."""
    threads = []
    parse = OpenAIChat.parse_request

    def note(self: OpenAIChat, body: bytes) -> ModelRequest:
        threads.append(threading.current_thread().name)
        return parse(self, body)

    monkeypatch.setattr(OpenAIChat, "parse_request", note)
    driver = driver_of(kit)
    await driver.advance(head(headers=(("content-encoding", encoding),)))
    answer = await driver.advance(body)

    assert isinstance(answer, Forward)
    [name] = threads
    assert name.startswith(thread)
    kit.handoff.claim(answer.ticket.hold.id)


async def test_large_body_that_is_malformed(kit: Kit) -> None:
    """A large body that can't be read is refused as a small one is."""
    driver = driver_of(kit)
    await driver.advance(head())
    answer = await driver.advance(RequestBody(LARGE.body[:-1]))
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, Malformed)
    assert kit.recorder.faults == []


@pytest.fixture
def busy(kit: Kit, hasty: Kit) -> Iterator[threading.Event]:
    """Keep the threads that read bodies busy until the event is set."""
    gate = threading.Event()
    for each in (kit, hasty):
        each.services.bodies._thread.submit(gate.wait)
    yield gate
    gate.set()


async def test_a_tenants_large_bodies_hold_no_other(
    kit: Kit, busy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes behind many bodies of one tenant is read behind one of them."""
    read: list[str] = []
    read_ahead = RequestSide.read_ahead

    def note(self: RequestSide, event: RequestBody) -> RequestBody:
        read.append(self.subject.tenant)
        return read_ahead(self, event)

    monkeypatch.setattr(RequestSide, "read_ahead", note)
    small = RequestBody(gzip.compress(BODY.body))
    encoded = (("content-encoding", "gzip"),)
    tasks = []
    for key, body in [(ACME_KEY, LARGE)] * 5 + [(OPEN_KEY, small)]:
        driver = driver_of(kit)
        await driver.advance(head(key=key, headers=encoded if body is small else ()))
        tasks.append(asyncio.create_task(driver.advance(body)))
        await asyncio.sleep(0)
    busy.set()
    answers = await asyncio.gather(*tasks)

    other = answers[-1]
    assert isinstance(other, Forward)
    assert read == ["acme", other.ticket.hold.subject.tenant, *["acme"] * 4]
    assert read[1] != "acme"
    for answer in answers:
        if isinstance(answer, Forward):
            kit.handoff.claim(answer.ticket.hold.id)


async def test_left_while_reading(kit: Kit, busy: threading.Event) -> None:
    """Who leaves before a large body was read has taken nothing."""
    driver = driver_of(kit)
    await driver.advance(head())
    task = asyncio.create_task(driver.advance(LARGE))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    driver.closed()
    busy.set()

    assert task.cancelled()
    await assert_nothing_is_left(kit)
    assert kit.ledger.verbs == []
    assert len(kit.recorder.exchanges) == 1


async def test_no_time_to_read(hasty: Kit, busy: threading.Event) -> None:
    """A large body that had to wait for too long is answered all the same."""
    driver = driver_of(hasty)
    await driver.advance(head())
    answer = await driver.advance(LARGE)
    driver.closed()
    busy.set()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    await assert_nothing_is_left(hasty)
    assert hasty.ledger.verbs == []


# === faults =======================================================================


def broken_counter(kit: Kit) -> None:
    """Let the counter raise, which it has promised not to."""
    kit.counter.point = raising(BROKEN)


def broken_before(kit: Kit) -> None:
    """Let the ledger raise before it has done anything."""
    kit.ledger.before["reserve"] = raising(BROKEN)


def broken_after(kit: Kit) -> None:
    """Let the ledger raise after it has reserved."""
    kit.ledger.after["reserve"] = raising(BROKEN)


@pytest.mark.parametrize("key", [ACME_KEY, BARE_OPEN_KEY])
@pytest.mark.parametrize("broken", [broken_counter, broken_before, broken_after])
async def test_broken_service(
    kit: Kit, broken: Callable[[Kit], None], key: str
) -> None:
    """What breaks is answered as our fault, also where an open policy would admit."""
    broken(kit)
    driver, answer = await answered(kit, key)
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    await assert_nothing_is_left(kit)
    assert ("request", BROKEN) in kit.recorder.faults
    assert {error for _, error in kit.recorder.faults} == {BROKEN}
    assert len(kit.recorder.exchanges) == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (request_side, "identify"),
        (admission, "plan_metered"),
        (admission, "output_ceiling"),
        (outgoing, "outgoing_headers"),
    ],
)
async def test_broken_core(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    """Whichever step breaks: there is an answer, and nothing stays reserved."""
    monkeypatch.setattr(module, name, broken)
    driver = driver_of(kit)
    answer = await driver.advance(head())
    if answer == AwaitBody():
        answer = await driver.advance(BODY)
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    await assert_nothing_is_left(kit)
    assert kit.recorder.faults == [("request", BROKEN)]
    assert len(kit.recorder.exchanges) == 1


@pytest.mark.parametrize("outcome", ["QuotaExhausted", "LedgerUnavailable"])
async def test_broken_refusal(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """If not even the refusal can be made, there is an answer, and nothing is kept."""
    module = exhausted if outcome == "QuotaExhausted" else request_side
    monkeypatch.setattr(module, outcome, broken)
    if outcome == "LedgerUnavailable":
        kit.ledger.after["reserve"] = raising(DOWN)
    else:
        monkeypatch.setattr(admission, "unsatisfiable", lambda *_: None)
        kit.counter.count.tokens = 10_000
    driver, answer = await answered(kit)
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    await assert_nothing_is_left(kit)
    assert kit.recorder.faults == [("request", BROKEN)]


def broken(*_: object) -> None:
    """Raise."""
    raise BROKEN


async def test_broken_beginning(kit: Kit) -> None:
    """If not even the beginning can be made, it is raised for Envoy to be told."""
    driver = driver_of(kit)

    with pytest.raises(AssertionError):
        await driver.advance(BODY)
    driver.closed()
    assert [where for where, _ in kit.recorder.faults] == ["request"]
    assert kit.recorder.exchanges == []


async def test_second_head(kit: Kit) -> None:
    """A message out of order is our fault or Envoy's: it ends the exchange."""
    driver = driver_of(kit)
    await driver.advance(head())
    answer = await driver.advance(head())
    driver.closed()

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    await assert_nothing_is_left(kit)


# === deadlines ====================================================================


def counting(kit: Kit, gate: Gate) -> None:
    """Hold up the counter."""
    kit.counter.point = gate


def before_reserve(kit: Kit, gate: Gate) -> None:
    """Hold up the ledger before it reserves."""
    kit.ledger.before["reserve"] = gate


def after_reserve(kit: Kit, gate: Gate) -> None:
    """Hold up the ledger's answer after it has reserved."""
    kit.ledger.after["reserve"] = gate


WAITS = [counting, before_reserve, after_reserve]
Wait = Callable[[Kit, Gate], None]


@pytest.mark.parametrize("close_first", [True, False])
@pytest.mark.parametrize("wait", WAITS)
async def test_deadline(hasty: Kit, wait: Wait, close_first: bool) -> None:
    """Wherever time runs out: Envoy gets an answer, and later nothing is reserved."""
    gate = Gate()
    wait(hasty, gate)
    async with asyncio.timeout(30):
        driver, answer = await answered(hasty)
    assert isinstance(answer, Reject)
    assert isinstance(answer.why, InternalFault)
    if close_first:
        driver.closed()
    gate.opened.set()
    await hasty.quiet()
    if not close_first:
        driver.closed()

    await assert_nothing_is_left(hasty)
    assert [type(error) for _, error in hasty.recorder.faults] == [TimeoutError]
    assert len(hasty.recorder.exchanges) == 1
    assert hasty.ledger.count("cancel") == (0 if wait is counting else 1)


@pytest.mark.parametrize("error", [DOWN, BROKEN])
async def test_ledger_fails_after_the_deadline(hasty: Kit, error: Exception) -> None:
    """A reserve whose outcome nobody will ever know is given back."""
    gate = Gate()

    async def late_failure() -> None:
        await gate()
        raise error

    hasty.ledger.after["reserve"] = late_failure
    driver, answer = await answered(hasty)
    driver.closed()
    gate.opened.set()

    assert isinstance(answer, Reject)
    await assert_nothing_is_left(hasty)
    assert hasty.ledger.count("cancel") == 1


# === clients that leave ===========================================================


@pytest.mark.parametrize("wait", WAITS)
async def test_client_leaves(kit: Kit, wait: Wait) -> None:
    """Wherever the client leaves: nothing stays reserved, and it is reported."""
    gate = Gate()
    wait(kit, gate)
    driver = driver_of(kit)
    await driver.advance(head())
    task = asyncio.ensure_future(driver.advance(BODY))
    await gate.reached.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    driver.closed()
    gate.opened.set()

    await assert_nothing_is_left(kit)
    [details] = kit.recorder.exchanges
    assert details.rejection is None
    assert details.settlement is None
    assert details.subject.tenant == "acme"
    assert kit.recorder.faults == []
    assert kit.handoff.size == 0


async def test_client_leaves_before_anything(kit: Kit) -> None:
    """A stream that brought nothing was no exchange, and is not reported."""
    driver_of(kit).closed()

    await assert_nothing_is_left(kit)
    assert kit.recorder.exchanges == []


async def test_client_leaves_before_its_body(kit: Kit) -> None:
    """Who leaves before the body is whole has asked for nothing."""
    driver = driver_of(kit)
    await driver.advance(head())
    driver.closed()

    await assert_nothing_is_left(kit)
    [details] = kit.recorder.exchanges
    assert details.rejection is None
    assert details.hold_id == ""
    assert kit.ledger.verbs == []


async def test_client_leaves_as_the_ledger_answers(kit: Kit) -> None:
    """A cancel that meets the ledger's answer loses neither."""
    gate = Gate()
    kit.ledger.after["reserve"] = gate
    driver = driver_of(kit)
    await driver.advance(head())
    task = asyncio.ensure_future(driver.advance(BODY))
    await gate.reached.wait()
    gate.opened.set()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    driver.closed()

    await assert_nothing_is_left(kit)
    assert kit.ledger.count("cancel") == 1


def dawdling(chance: random.Random, *errors: Exception) -> Point:
    """Return a point that takes some turns of the loop, and breaks now and then."""

    async def dawdle() -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        if chance.random() < 0.1:
            raise chance.choice(errors)

    return dawdle


async def leave_somewhere(kit: Kit, chance: random.Random) -> bool:
    """Drive an exchange and cancel it at some point; tell if it was answered first."""
    driver = driver_of(kit)

    async def converse() -> None:
        if await driver.advance(head()) == AwaitBody():
            await driver.advance(BODY)

    task = asyncio.ensure_future(converse())
    for _ in range(chance.randrange(16)):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    driver.closed()
    return not task.cancelled()


async def test_500_clients_leave_anywhere(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E14: after 500 cancels at random points nothing is reserved, no task is left."""
    monkeypatch.setattr(handoff_module, "CLAIM_SECONDS", 0.0)
    chance = random.Random(14)
    kit.counter.point = dawdling(chance, BROKEN)
    kit.ledger.before["reserve"] = dawdling(chance, DOWN, BROKEN)
    kit.ledger.after["reserve"] = dawdling(chance, DOWN, BROKEN)

    answers = 0
    for _ in range(50):
        some = (leave_somewhere(kit, chance) for _ in range(10))
        answers += sum(await asyncio.gather(*some))
    await asyncio.sleep(0.01)

    await assert_nothing_is_left(kit)
    assert 50 < answers < 450
    assert {type(error) for _, error in kit.recorder.faults} == {RuntimeError}
    assert kit.handoff.size == 0


async def test_a_drain_waits_for_who_is_being_admitted(kit: Kit) -> None:
    """
    Whoever came before a drain counts as on the way until its stream is over: also
    while the ledger is asked, when no hold is known here yet. Who came later does not.
    """
    early = driver_of(kit)
    late = RequestDriver(
        Arrival(POLICY, kit.hold_id(), draining=True), kit.services, kit.handoff
    )
    during = set(kit.services.admitting)
    await early.advance(head())
    await early.advance(BODY)
    handed_off = kit.handoff.size
    early.closed()
    late.closed()

    assert during == {early}
    assert handed_off == 1
    assert kit.services.admitting == set()
