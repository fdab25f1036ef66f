"""T26, T27: how an answer ends, and what became of it."""

from __future__ import annotations

import pytest

from tests.cases.apis import (
    ANTHROPIC,
    OPENAI,
    TOLD,
    WORDS,
    Api,
    both_apis,
    data,
    named,
    story,
)
from tests.cases.stage import STREAM_HEAD, Stage
from tests.scripted_upstream import (
    End,
    Pause,
    Step,
    chunk,
    event_stream,
    head,
    reply,
)
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


def endings(api: Api) -> dict[str, list[bytes]]:
    """Return stories that end in other ways, all of them reported."""
    *said, report, end = story(api)
    delta = api.delta(" Really.")
    return {
        "no end": [*said, report],
        "end twice": [*said, report, end, end],
        "events after the end": [*said, report, end, data({"object": "ping"})],
        "comments after the end": [*said, report, end, b": bye\n\n"],
        "the end unspaced": [*said, report, end.replace(b": ", b":", 1)],
        "usage after the end": [*said, end, report],
        "usage twice": [*said, report, end, report],
        "no empty line after the end": [*said, report, end[:-1]],
        "no line end at all": [*said, report, end[:-2]],
        "usage without an empty line": [*said, report[:-1]],
        "usage without a line end": [*said, report[:-2]],
        "nothing but the report": [*api.opening(), report],
        "text after the end, and a report": [*said, report, end, delta, report, end],
    }


ENDINGS = list(endings(OPENAI))


@both_apis
@pytest.mark.parametrize("name", ENDINGS)
async def test_t26_the_end_of_the_stream_is_the_end(
    stage: Stage, api: Api, name: str
) -> None:
    """
    The terminal event is a hint only: with or without, the report is charged.

    alexazhou/gt_ai_gateway#25, volcano-sh/kthena#199
    """
    _, settled = await stage.stream(api, endings(api)[name])

    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@pytest.mark.parametrize("name", ENDINGS)
async def test_t26_for_an_app_that_did_not_ask(stage: Stage, name: str) -> None:
    """
    However it ends, the app loses the report and no other byte.

    alexazhou/gt_ai_gateway#25
    """
    pieces = endings(OPENAI)[name]
    report = OPENAI.report()
    steps = event_stream(pieces)

    answer, settled = await stage.ask(OPENAI, steps, OPENAI.request(asked=False))

    kept = (piece for piece in pieces if not report.startswith(piece))
    assert answer.whole
    assert answer.body == b"".join(kept)
    assert settled.usage == TOLD.usage


async def test_t26_text_after_the_end_without_a_report(stage: Stage) -> None:
    """
    Text that comes after the end was generated too. volcano-sh/kthena#199
    """
    pieces = [*map(OPENAI.delta, WORDS), OPENAI.end(), OPENAI.delta(" Really.")]

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.sides == await stage.owed(OPENAI, [*WORDS, " Really."])


@both_apis
async def test_t26_the_connection_is_the_end(stage: Stage, api: Api) -> None:
    """
    A stream may end with its connection, too. alexazhou/gt_ai_gateway#25
    """
    pieces = story(api)[:-1]
    framing = head(headers=[("content-type", "text/event-stream")])

    answer, settled = await stage.ask(api, [framing, *pieces, End.CLOSE], api.request())

    assert answer.body == b"".join(pieces)
    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@both_apis
@pytest.mark.parametrize("end", [End.CLOSE, End.RESET], ids=lambda end: str(end.name))
async def test_t26_broken_off_behind_the_report(
    stage: Stage, api: Api, end: End
) -> None:
    """
    A connection that breaks behind the report takes nothing from it.

    alexazhou/gt_ai_gateway#25
    """
    pieces = story(api)
    steps: list[Step] = [STREAM_HEAD, *map(chunk, pieces), Pause(0.05), end]

    answer, settled = await stage.ask(api, steps, api.request())

    assert not answer.whole
    assert answer.body == b"".join(pieces)
    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@pytest.mark.parametrize("end", [End.CLOSE, End.RESET], ids=lambda end: str(end.name))
async def test_t26_broken_off_at_once(stage: Stage, api: Api, end: End) -> None:
    """
    Envoy waits for the processor before it passes a head on. Should the connection break
    meanwhile it drops what it has of the answer, and says so in one piece: then nothing
    passed, and the input is owed. Else it passes, and is charged as it is.

    alexazhou/gt_ai_gateway#25
    """
    pieces = story(api)
    owed_input, _ = await stage.owed(api, [])

    answer, settled = await stage.ask(
        api, [STREAM_HEAD, *map(chunk, pieces), end], api.request()
    )

    if answer.status == 503:
        assert answer.headers["x-tokenweir-refusal"] == "upstream_unavailable"
        assert answer.whole
        assert settled.sides == (owed_input, 0)
        assert settled.outcome in ("cut", "upstream_failed")
        return
    assert answer.status == 200
    assert b"".join(pieces).startswith(answer.body)
    if settled.source == "reported":
        assert settled.usage == TOLD.usage
    else:  # it broke before all of it was here
        assert settled.usage.total_input_tokens in (owed_input, TOLD.input)
        assert settled.outcome == "cut"


@both_apis
async def test_t26_whole_before_the_reset(stage: Stage, api: Api) -> None:
    """
    A reset right behind the last byte of a framed answer takes nothing from it.

    alexazhou/gt_ai_gateway#25
    """
    pieces = story(api)
    body = api.reply("".join(WORDS))

    answer, settled = await stage.ask(
        api, [*event_stream(pieces), End.RESET], api.request()
    )
    replied, of_reply = await stage.ask(
        api, [reply(body), End.RESET], api.request(stream=False)
    )

    assert (answer.whole, answer.body) == (True, b"".join(pieces))
    assert (replied.whole, replied.body) == (True, body)
    assert settled.usage == of_reply.usage == TOLD.usage


@both_apis
async def test_t26_trailers(stage: Stage, api: Api) -> None:
    """
    Trailers end a stream like anything else. alexazhou/gt_ai_gateway#25
    """
    pieces = story(api)
    trailers = b"0\r\nx-checksum: 1\r\n\r\n"

    answer, settled = await stage.ask(
        api, [*event_stream(pieces)[:-1], trailers], api.request()
    )

    assert answer.body.startswith(b"".join(pieces))
    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


# === T27 ========================================================================


def error_of(api: Api, shape: str) -> bytes:
    """Return an error event in one of the shapes that are seen."""
    shapes = {
        "its own": api.error(),
        "the other API's": (ANTHROPIC if api is OPENAI else OPENAI).error(),
        "a word": data({"error": "Overloaded"}),
        "vLLM": data({"object": "error", "message": "no", "type": "x", "code": 500}),
        "named": b"event: error\n" + data({"error": {"message": "no", "code": None}}),
    }
    return shapes[shape]


SHAPES = {
    OPENAI.name: ["its own", "the other API's", "a word", "vLLM", "named"],
    ANTHROPIC.name: ["its own", "the other API's", "named"],
}
SHAPES_OF = pytest.mark.parametrize(
    ("api", "shape"),
    [(api, shape) for api in (OPENAI, ANTHROPIC) for shape in SHAPES[api.name]],
    ids=[
        f"{api.name}-{shape}"
        for api in (OPENAI, ANTHROPIC)
        for shape in SHAPES[api.name]
    ],
)


@SHAPES_OF
@pytest.mark.parametrize("ended", [True, False], ids=["and the end", "and nothing"])
async def test_t27_error_as_the_first_event(
    stage: Stage, api: Api, shape: str, ended: bool
) -> None:
    """
    An error before any usage and output: failed, the status is 200, nothing is owed.

    envoyproxy/ai-gateway#2697, Wei-Shaw/sub2api#5563
    """
    error = error_of(api, shape)
    pieces = [error, api.end()] if ended else [error]

    _, settled = await stage.stream(api, pieces)

    assert settled.usage == TokenUsage()
    assert settled.outcome == "upstream_failed"
    assert settled.record["status"] == "200"
    assert settled.record["requests"] == "1"


@SHAPES_OF
async def test_t27_error_after_ten_deltas(stage: Stage, api: Api, shape: str) -> None:
    """
    An error behind output: failed, and input and output are owed.

    envoyproxy/ai-gateway#2697
    """
    words = [*WORDS, " Really."]
    pieces = [*map(api.delta, words), error_of(api, shape), api.end()]

    _, settled = await stage.stream(api, pieces)

    assert settled.sides == await stage.owed(api, words)
    assert settled.outcome == "upstream_failed"
    assert settled.source != "reported"


@pytest.mark.parametrize("events", [1, 2, 3])
async def test_t27_error_beside_the_start_of_a_message(
    stage: Stage, events: int
) -> None:
    """
    What a message's start tells is no work yet: an error before or behind it is free.

    envoyproxy/ai-gateway#2697
    """
    opening, error = ANTHROPIC.opening()[:events], ANTHROPIC.error()

    for pieces in ([*opening, error], [error, *opening]):
        _, settled = await stage.stream(ANTHROPIC, pieces)

        assert settled.usage == TokenUsage()
        assert settled.outcome == "upstream_failed"


async def test_t27_error_behind_hidden_thinking(stage: Stage) -> None:
    """
    Encrypted thinking was generated: input and what was told are owed.

    envoyproxy/ai-gateway#2697
    """
    block = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    thinking = named(
        {"type": "content_block_start", "index": 0, "content_block": block}
    )
    pieces = [ANTHROPIC.opening()[0], thinking, ANTHROPIC.error()]

    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.sides == (TOLD.input, 1)
    assert settled.outcome == "upstream_failed"


@both_apis
async def test_t27_error_behind_the_report(stage: Stage, api: Api) -> None:
    """
    What was reported before an error is charged as reported. envoyproxy/ai-gateway#2697
    """
    *said, report, end = story(api)

    _, settled = await stage.stream(api, [*said, report, api.error(), end])

    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "upstream_failed")


@both_apis
async def test_t27_error_in_a_reply(stage: Stage, api: Api) -> None:
    """
    A reply of 200 that is an error is a failure as well, and free.

    Wei-Shaw/sub2api#5563
    """
    body = api.error().partition(b"data: ")[2].strip()

    answer, settled = await stage.ask(api, [reply(body)], api.request(stream=False))

    assert (answer.status, answer.body) == (200, body)
    assert settled.usage == TokenUsage()
    assert settled.outcome == "upstream_failed"


@both_apis
async def test_t27_error_in_answer_to_a_stream(stage: Stage, api: Api) -> None:
    """
    An app that asked for a stream may get a JSON error under 200.

    envoyproxy/ai-gateway#2697
    """
    body = api.error().partition(b"data: ")[2].strip()

    answer, settled = await stage.ask(api, [reply(body)], api.request(asked=False))

    assert answer.body == body
    assert settled.usage == TokenUsage()
    assert settled.outcome == "upstream_failed"


@both_apis
@pytest.mark.parametrize("value", [None, [], "", False], ids=repr)
async def test_t27_an_error_that_is_none(stage: Stage, api: Api, value: object) -> None:
    """
    `"error": null` in every event is no error. Wei-Shaw/sub2api#5563
    """
    pieces = [
        event.replace(b"data: {", b'data: {"error": null, ') for event in story(api)
    ]
    body = api.reply("".join(WORDS), error=value)

    _, settled = await stage.stream(api, pieces)
    _, of_reply = await stage.ask(api, [reply(body)], api.request(stream=False))

    assert settled.usage == of_reply.usage == TOLD.usage
    assert settled.outcome == of_reply.outcome == "completed"


@both_apis
@pytest.mark.parametrize(
    "status",
    ["400 Bad", "401 Unauthorized", "404 Not Found", "429 Busy", "500 No", "529 Busy"],
)
async def test_t27_error_statuses(stage: Stage, api: Api, status: str) -> None:
    """
    An error status is a failure, passes as it is, and costs no token, whatever it says.

    Wei-Shaw/sub2api#5563
    """
    body = api.reply("".join(WORDS), error={"type": "x", "message": "no"})

    # What is retried is answered alike each time.
    answer, settled = await stage.ask(
        api,
        [
            reply(
                body,
                status=status,
                headers=[
                    ("content-type", "application/json"),
                    ("x-should-retry", "false"),
                ],
            )
        ],
        api.request(stream=False),
    )

    assert answer.status == int(status[:3])
    assert answer.body == body
    assert settled.usage == TokenUsage()
    assert settled.outcome == "upstream_failed"


@both_apis
async def test_t27_what_logs_say(stage: Stage, api: Api) -> None:
    """
    The log line of a failure under 200 says that it failed. envoyproxy/ai-gateway#2697
    """
    answer, _ = await stage.stream(api, [api.error()])

    [line] = [
        line
        for line in stage.pod.exchanges()
        if line.get("request_id") == answer.request_id
    ]
    assert (line["status"], line["outcome"]) == (200, "upstream_failed")
