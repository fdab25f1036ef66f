"""
An exchange of every API, streamed or not, whatever becomes of it, through a real Envoy.

What the app gets is what the provider sent, byte by byte; what is settled is what the
provider reported, or what can be told without; nothing stays held. The rows are in
`tests.every_dialect`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from tests.cases.app import Leave, Reply
from tests.every_dialect import ROWS
from tests.every_dialect.row import Row
from tests.every_dialect.theatre import FULL_KEY, SPENT_KEY, Theatre
from tests.pod import CREDENTIAL, until
from tests.scripted_upstream import End, Hold, chunk, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ERRORS = (400, 429, 500)
# Longer than Envoy waits for a second attempt.
NOT_NOW = ("retry-after", "30")

METERED = [row for row in ROWS if row.costs_tokens]
READ = [row for row in ROWS if row.is_read]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
metered_rows = pytest.mark.parametrize("row", METERED, ids=lambda row: row.name)
read_rows = pytest.mark.parametrize("row", READ, ids=lambda row: row.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theatre() -> AsyncIterator[Theatre]:
    """Give the module a pod with a provider of every API."""
    async with Theatre.open() as opened:
        yield opened


# === acts =========================================================================


async def whole(theatre: Theatre, row: Row) -> Reply:
    """All goes well."""
    call = await theatre.begin(row, row.steps())
    return await call.reply()


async def over_limit(theatre: Theatre, row: Row) -> Reply:
    """The tenant has nothing left of what the row takes."""
    key = SPENT_KEY if row.costs_tokens else FULL_KEY
    call = await theatre.begin(row, row.steps(), key=key)
    return await call.reply()


async def failed(theatre: Theatre, row: Row, status: int) -> Reply:
    """The provider refuses."""
    body = row.speaker.error(status)
    step = reply(body, f"{status} No", [row.answered, NOT_NOW, ("x-a", "b")])
    call = await theatre.begin(row, [step])
    return await call.reply()


async def hung_up(theatre: Theatre, row: Row) -> Reply:
    """The app leaves in the middle of a stream, or before an answer."""
    passed = row.pieces[: row.passed]
    begun = [row.head(), *map(chunk, passed)] if row.streamed else []
    call = await theatre.begin(row, [*begun, End.STALL])
    if row.streamed:
        await call.until_length(len(b"".join(passed)))
    else:
        await until(lambda: theatre.asked(call.request_id))
    call.leave(Leave.RESET)
    return Reply(
        call.status, call.headers, bytes(call.body), call.whole, call.request_id
    )


async def reset(theatre: Theatre, row: Row) -> Reply:
    """The provider's connection breaks in the middle of its answer."""
    gate = asyncio.Event()
    if row.streamed:
        passed = row.pieces[: row.passed]
        begun = [row.head(), *map(chunk, passed)]
    else:
        passed = (row.body[: len(row.body) // 2],)
        begun = [row.head(("content-length", str(len(row.body)))), *passed]
    call = await theatre.begin(row, [*begun, Hold(gate), End.RESET])
    await call.until_length(len(b"".join(passed)))
    gate.set()
    return await call.reply()


async def asked_badly(theatre: Theatre, row: Row) -> Reply:
    """The request ends too early for its syntax."""
    call = await theatre.begin(row, row.steps(), body=row.request[:-6])
    return await call.reply()


async def answered_badly(theatre: Theatre, row: Row) -> Reply:
    """No JSON in the answer is whole."""
    call = await theatre.begin(row, row.steps([*map(broken, row.pieces)]))
    return await call.reply()


ACTS_OF_ERRORS = {status: partial(failed, status=status) for status in ERRORS}


def broken(piece: bytes) -> bytes:
    """Return a piece of an answer without its last brace."""
    at = piece.rfind(b"}")
    return piece[:at] + piece[at + 1 :] if at >= 0 else piece


# === what is true of them =========================================================


@every_row
async def test_whole(theatre: Theatre, row: Row) -> None:
    """
    The app gets every byte but the event that only we asked for; what is reported is
    settled, and the provider sees its own key and no other.
    """
    played = await theatre.played(whole, row, ROWS)

    assert (played.answer.status, played.answer.whole) == (200, True)
    assert played.answer.body == row.seen
    assert played.answer.headers["content-type"] == row.answered[1]
    assert played.record is not None
    assert played.record["outcome"] == "completed"
    if row.usage is None:
        assert played.record["source"] != "reported"
        assert played.sides[0] == (await theatre.owed(row))[0]
        assert (played.sides[1] > 0) is row.generates
    else:
        assert played.sides == row.usage
    assert played.asked is not None
    header, key = row.speaker.credentials(CREDENTIAL)
    assert played.asked.all(header) == [key]
    sent = str(played.asked.headers) + played.asked.target
    assert "sk-tw-" not in sent


@every_row
async def test_over_a_limit(theatre: Theatre, row: Row) -> None:
    """Who has nothing left reads so in the API's own shape, and when to come back."""
    played = await theatre.played(over_limit, row, ROWS, charged=False)

    answer = played.answer
    assert answer.status == 429
    assert answer.headers["x-tokenweir-refusal"] == "quota_exhausted"
    error = row.speaker.error_in(answer.body, 429)
    detail = error["tokenweir"]
    kind = "tokens" if row.costs_tokens else "requests"
    assert detail["limit"] == f"{kind}_per_minute"
    assert answer.headers["retry-after"] == str(-(-detail["retry_after_ms"] // 1000))
    assert (played.asked, played.record) == (None, None)


@pytest.mark.parametrize("status", ERRORS)
@every_row
async def test_the_provider_refuses(theatre: Theatre, row: Row, status: int) -> None:
    """Its error passes as it is, and costs a request and no token."""
    played = await theatre.played(ACTS_OF_ERRORS[status], row, ROWS)

    answer = played.answer
    assert (answer.status, answer.body) == (status, row.speaker.error(status))
    assert answer.headers["retry-after"] == NOT_NOW[1]
    assert answer.headers["x-a"] == "b"
    assert "x-tokenweir-refusal" not in answer.headers
    assert played.record is not None
    assert played.record["outcome"] == "upstream_failed"
    assert played.record["requests"] == "1"
    assert played.sides == (0, 0)


@metered_rows
async def test_the_app_hangs_up(theatre: Theatre, row: Row) -> None:
    """Who leaves owes the input, and what had passed."""
    played = await theatre.played(hung_up, row, ROWS)

    into, out_of = await theatre.owed(row)
    assert played.record is not None
    assert played.record["outcome"] == "cut"
    if not row.streamed:
        assert played.sides == (into, 0)
        return
    assert played.answer.body == b"".join(row.pieces[: row.passed])
    assert played.sides == (row.seen_input or into, row.seen_output or out_of)


@metered_rows
async def test_the_provider_breaks_off(theatre: Theatre, row: Row) -> None:
    """The app gets what had come, and sees that it is not all; that much is owed."""
    played = await theatre.played(reset, row, ROWS)

    into, out_of = await theatre.owed(row)
    assert not played.answer.whole
    assert played.record is not None
    assert played.record["source"] != "reported" or row.seen_output
    if row.streamed:
        assert played.answer.body == b"".join(row.pieces[: row.passed])
        assert played.sides == (row.seen_input or into, row.seen_output or out_of)
        return
    assert played.answer.body == row.body[: len(row.body) // 2]
    assert played.sides[0] == into
    assert (played.sides[1] > 0) is row.generates


@read_rows
async def test_bad_requests(theatre: Theatre, row: Row) -> None:
    """What is no whole request is refused in the API's own shape, and goes nowhere."""
    played = await theatre.played(asked_badly, row, READ, charged=False)

    answer = played.answer
    assert answer.status == 400
    assert answer.headers["x-tokenweir-refusal"] == "malformed_request"
    error = row.speaker.error_in(answer.body, 400)
    assert error["tokenweir"]["retryable"] is False
    assert (played.asked, played.record) == (None, None)


@metered_rows
async def test_bad_answers(theatre: Theatre, row: Row) -> None:
    """What nobody can read passes as it is, and is estimated: it is not free."""
    played = await theatre.played(answered_badly, row, METERED)

    assert (played.answer.status, played.answer.whole) == (200, True)
    seen = [broken(piece) for piece in row.pieces if piece != row.extra]
    assert played.answer.body == b"".join(seen)
    assert played.record is not None
    assert played.record["source"] == "estimated"
    assert played.sides[0] == (await theatre.owed(row))[0]
    assert (played.sides[1] > 0) is row.generates
