"""The stops about a limit."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.stack.tour.trips import (
    FORECAST,
    QUOTA,
    STREAMED,
    WHOLE,
    ScriptedBooks,
    record,
    refusal,
    trip,
    words,
)
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.limit_stops import ATTEMPTS, hit, read, succeed, wait
from tokenweir.stack.tour.trip import MOST_WAIT_SECONDS, Trip

AGAIN = Call("gpt-4o-mini", "Hello", 580)


def refused(**changes: object) -> Trip:
    """Return a trip that was refused, with *changes* in the refusal."""
    made, _, _ = trip([WHOLE], ScriptedBooks(record()))
    made.refused = replace(refusal(**changes), at=time.monotonic() - 60)
    made.again = AGAIN
    return made


async def test_the_limit_is_hit_by_all_that_it_holds() -> None:
    """Prompt and cap together are its capacity, and the refusal is explained."""
    made, client, _ = trip([refusal()])

    step = await hit(made)

    assert step.differences == []
    assert client.asked[0][0].max_tokens == 600 - FORECAST.input_tokens
    told = words(step)
    for text in (
        "needed     600 tokens",
        "left       560 of 600: 30 are used and not earned back yet, 10 are held",
        "missing    40, and 10 come back a second",
        "nothing was taken",
    ):
        assert text in told
    assert made.refused is not None
    assert made.again == client.asked[0][0]


async def test_a_limit_that_filled_meanwhile_is_hit_again() -> None:
    """A slow machine's call fits; its tokens count, and the next one is refused."""
    made, client, _ = trip([WHOLE, refusal()], ScriptedBooks(record()))

    step = await hit(made)

    assert step.differences == []
    assert "it fitted: the limit had filled up meanwhile" in words(step)
    assert len(client.asked) == 2
    assert made.charged == 18


async def test_a_limit_that_never_refuses_is_a_difference() -> None:
    """A gateway that lets everything pass is what a smoke test is for."""
    made, client, _ = trip([WHOLE] * ATTEMPTS, ScriptedBooks(*[None] * ATTEMPTS))

    step = await hit(made)

    (text,) = step.differences
    assert f"where a 429 of {QUOTA} was due" in text
    assert len(client.asked) == ATTEMPTS
    assert made.refused is None


async def test_another_refusal_is_a_difference() -> None:
    """A 429 of another limit, or without its figures, is not the one that was due."""
    other, _, _ = trip([refusal(quota="other")])
    bare, _, _ = trip([refusal(used=None, quota=None)])

    assert len((await hit(other)).differences) == 1
    step = await hit(bare)
    assert len(step.differences) == 1
    assert "missing" not in words(step)


async def test_limits_that_are_not_there_or_large_are_left_out() -> None:
    """Nothing is asked, and so nothing spent, to reach a limit of a real policy."""
    for forecast in (
        replace(FORECAST, quota="", capacity=0),
        replace(FORECAST, capacity=60_000),
        replace(FORECAST, capacity=10),
    ):
        made, client, _ = trip(books=ScriptedBooks(forecast=forecast))

        step = await hit(made)

        assert "no limit on tokens applies" in step.skipped
        assert (client.asked, step.request) == ([], "")


async def test_without_a_refusal_the_rest_is_left_out() -> None:
    """There is nothing to read, to wait for, or to do again."""
    made, client, _ = trip()

    for stop in (read, wait, succeed):
        step = await stop(made)
        assert step.skipped
        assert step.differences == []
    assert client.asked == []


async def test_the_refusal_is_read_member_by_member() -> None:
    """What SDKs and programs go by is told, as JSON has it."""
    step = await read(refused())

    assert step.differences == []
    assert "tokenweir.retryable        true" in step.came
    assert "error.type, .code  tokens, rate_limit_exceeded" in step.came
    assert step.figures == {"quota": QUOTA, "retry_after_ms": 900}


async def test_a_refusal_that_misleads_is_a_difference() -> None:
    """Too short a wait, none at all, or no help from waiting is not as promised."""
    short = await read(refused(retry_after_ms=1_001))
    hopeless = await read(refused(retryable=False))
    none = refused()
    assert none.refused is not None
    none.refused = replace(none.refused, headers={"x-should-retry": "true"})

    assert short.differences == ["Retry-After (1 s) ends before retry_after_ms (1001)"]
    assert hopeless.differences == ["the refusal does not say that waiting helps"]
    assert (await read(none)).differences[0] == (
        "there is no Retry-After in whole seconds"
    )


async def test_waiting_is_from_the_refusal_on() -> None:
    """What has passed since it came needs no further wait."""
    step = await wait(refused())

    assert step.figures == {"waited_seconds": 1}
    assert "Exactly Retry-After: 1 s" in step.intro


async def test_a_wait_of_minutes_is_left_out() -> None:
    """Nobody waits so long for a demonstration; nor is the call made again."""
    made = refused()
    assert made.refused is not None
    headers = {**made.refused.headers, "retry-after": str(MOST_WAIT_SECONDS + 1)}
    made.refused = replace(made.refused, headers=headers)

    assert "too long" in (await wait(made)).skipped
    assert (await succeed(made)).skipped


async def test_who_waited_succeeds() -> None:
    """The same call is made, and settled for what it used."""
    step = await succeed(refused())

    assert step.differences == []
    assert step.request == AGAIN.curl
    assert "582 went back" in words(step)


async def test_who_waited_in_vain_is_told_why_that_may_be() -> None:
    """A second refusal is a difference, and another user of the key a reason."""
    made, _, _ = trip([refusal()])
    made.refused, made.again = refusal(), AGAIN

    (text,) = (await succeed(made)).differences
    assert "though the tour waited as told" in text
    assert "somebody else use this key" in text


async def test_a_stream_is_an_answer_too() -> None:
    """Words that came in parts are quoted whole."""
    made, _, _ = trip([STREAMED], ScriptedBooks(record()))
    made.again = AGAIN

    assert '"For water."' in (await succeed(made)).came
