"""T19: however a response ends, it is settled, by its report or by what passed."""

from __future__ import annotations

import pytest

from tests.cases.apis import TOLD, WORDS, Told, named, story
from tests.cases.app import Leave
from tests.cases.openai_apis import COMPLETIONS, RESPONSES, Completions, Responses
from tests.cases.stage import Stage
from tests.scripted_upstream import End, Pause, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

BEGUN = [*RESPONSES.opening(), *map(RESPONSES.delta, WORDS)]
FAILED = {"code": "server_error", "message": "Sorry."}


@pytest.mark.parametrize("api", [RESPONSES, COMPLETIONS], ids=lambda api: api.path)
async def test_t19_a_whole_stream(stage: Stage, api: Responses | Completions) -> None:
    """
    A stream is settled as reported, asked for usage or not, and the app gets its bytes.

    envoyproxy/ai-gateway#2184
    """
    _, settled = await stage.stream(api, story(api))
    unasked = await stage.stream_unasked(
        api, story(api), api.report() if api.asks_usage else b""
    )

    assert settled.usage == unasked.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")
    assert settled.record["answered_by"] == "gpt-4o-2024-08-06"


async def test_t19_an_incomplete_response(stage: Stage) -> None:
    """
    One that has reached its cap is as complete as can be. envoyproxy/ai-gateway#2184
    """
    end = named(
        {
            "type": "response.incomplete",
            "response": {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "usage": {"input_tokens": 31, "output_tokens": 3, "total_tokens": 34},
            },
        }
    )
    _, settled = await stage.stream(RESPONSES, [*BEGUN, end])

    assert settled.usage == Told(31, 3).usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


async def test_t19_a_failure_with_a_report(stage: Stage) -> None:
    """
    What a failed response reports is owed. envoyproxy/ai-gateway#2184
    """
    end = RESPONSES.last("failed", error=FAILED, usage=RESPONSES.usage(Told(31, 3)))
    _, settled = await stage.stream(RESPONSES, [*BEGUN, end])

    assert settled.usage == Told(31, 3).usage
    assert (settled.source, settled.outcome) == ("reported", "upstream_failed")


async def test_t19_a_failure_after_text(stage: Stage) -> None:
    """
    Without a report, text that passed is counted. envoyproxy/ai-gateway#2184
    """
    _, settled = await stage.stream(
        RESPONSES, [*BEGUN, RESPONSES.last("failed", error=FAILED)]
    )

    assert settled.sides == await stage.owed(RESPONSES, WORDS)
    assert (settled.source, settled.outcome) == ("counted", "upstream_failed")


async def test_t19_a_failure_before_any_text(stage: Stage) -> None:
    """
    A failure before anything was generated costs nothing. envoyproxy/ai-gateway#2184
    """
    _, settled = await stage.stream(
        RESPONSES, [*RESPONSES.opening(), RESPONSES.last("failed", error=FAILED)]
    )

    assert settled.sides == (0, 0)
    assert settled.outcome == "upstream_failed"


# The question has five tokens; around a prompt that is no message there is no frame.
@pytest.mark.parametrize(
    ("api", "asked"), [(RESPONSES, 12), (COMPLETIONS, 5)], ids=["responses", "prompt"]
)
@pytest.mark.parametrize("who", ["provider", "client"])
async def test_t19_a_cut_stream(
    stage: Stage, api: Responses | Completions, asked: int, who: str
) -> None:
    """
    Whoever cuts a stream, its input and what passed are owed.

    envoyproxy/ai-gateway#2184
    """
    begun = [*api.opening(), *map(api.delta, WORDS)]
    end = End.STALL if who == "client" else End.RESET
    stage.upstream.play(*event_stream(begun)[:-1], Pause(0.3), end)
    call = await stage.begin(api, api.request())
    await call.until_length(sum(map(len, begun)))
    if who == "client":
        call.leave(Leave.RESET)
    settled = await stage.settled(call.request_id)

    _, passed = await stage.owed(api, WORDS)
    assert settled.sides == (asked, passed)
    assert (settled.source, settled.outcome) == ("counted", "cut")


async def test_t19_work_in_the_background(stage: Stage) -> None:
    """
    What would be generated unseen is refused, in words; nobody pays and nobody works.

    envoyproxy/ai-gateway#2184
    """
    stage.upstream.reset()
    call = await stage.begin(
        RESPONSES, RESPONSES.request(stream=False, background=True)
    )
    answer = await call.reply()

    assert answer.status == 400
    assert b"`background` must be false" in answer.body
    assert stage.upstream.requests == []
    assert await stage.records(call.request_id) == []


async def test_t19_a_whole_response(stage: Stage) -> None:
    """
    One that is not streamed is settled as reported. envoyproxy/ai-gateway#2184
    """
    body = RESPONSES.reply("Once upon a time.")
    answer, settled = await stage.ask(
        RESPONSES, [reply(body)], RESPONSES.request(stream=False)
    )

    assert answer.body == body
    assert settled.usage == TOLD.usage
