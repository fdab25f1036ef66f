"""T12: no usage is not zero usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.apis import (
    ANTHROPIC,
    OPENAI,
    TOLD,
    WORDS,
    Api,
    Told,
    both_apis,
    encoded,
    named,
    story,
)
from tests.cases.stage import Stage
from tests.scripted_upstream import event_stream, reply
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# What servers write where they mean that they don't know.
UNKNOWN_FIGURES: list[Any] = [
    None,
    {},
    [],
    "",
    0,
    {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
    {"input_tokens": None, "output_tokens": None},
    {"prompt_tokens": "11", "completion_tokens": "7", "total_tokens": "18"},
    {"prompt_tokens": True, "completion_tokens": True},
    {"prompt_tokens": -1, "completion_tokens": -7, "total_tokens": -8},
    {"prompt_tokens": 1.5, "completion_tokens": 7.5},
    {"prompt_tokens": 10**30, "completion_tokens": 10**30},
    {"total_tokens": 18},
]
unknown_figures = pytest.mark.parametrize("usage", UNKNOWN_FIGURES, ids=repr)


def told_nothing(usage: object) -> list[bytes]:
    """Return an OpenAI stream with *usage* in every chunk, as in the report."""
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        *({"role": None, "content": word} for word in WORDS),
    ]
    chunks = [
        OPENAI.chunk(
            choices=[{"index": 0, "delta": delta, "finish_reason": ""}], usage=usage
        )
        for delta in deltas
    ]
    stop = {"index": 0, "delta": {"role": None, "content": None}}
    last = OPENAI.chunk(choices=[stop | {"finish_reason": "stop"}], usage=usage)
    return [*chunks, last, OPENAI.end()]


@unknown_figures
async def test_t12_null_usage_in_every_chunk(stage: Stage, usage: object) -> None:
    """
    Output is counted from the text, input from the request, and neither is refunded.

    higress-group/higress#2187
    """
    _, settled = await stage.stream(OPENAI, told_nothing(usage))

    assert settled.sides == await stage.owed(OPENAI, WORDS)
    assert (settled.source, settled.outcome) == ("counted", "completed")


@pytest.mark.parametrize(
    "usage",
    [None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}],
    ids=repr,
)
async def test_t12_nothing_after_a_placeholder(stage: Stage, usage: object) -> None:
    """
    Zeros in every chunk mean "not yet", and a report that never comes is counted.

    higress-group/higress#2187
    """
    _, settled = await stage.stream(OPENAI, told_nothing(usage))

    assert settled.sides == await stage.owed(OPENAI, WORDS)


@pytest.mark.parametrize("known", ["prompt_tokens", "completion_tokens"])
async def test_t12_half_a_report(stage: Stage, known: str) -> None:
    """
    A report of one side is taken for that side, and the other one is counted.

    higress-group/higress#2187
    """
    usage = {"prompt_tokens": None, "completion_tokens": None} | {known: 5}
    owed_input, owed_output = await stage.owed(OPENAI, WORDS)
    deltas = map(OPENAI.delta, WORDS)
    pieces = [*deltas, OPENAI.chunk(choices=[], usage=usage), OPENAI.end()]

    _, settled = await stage.stream(OPENAI, pieces)

    if known == "prompt_tokens":
        assert settled.sides == (5, owed_output)
    else:
        assert settled.sides == (owed_input, max(5, owed_output))


async def test_t12_a_report_after_nulls(stage: Stage) -> None:
    """
    null erases nothing and hides nothing: the real report wins wherever it stands.

    higress-group/higress#2187
    """
    silent = told_nothing(None)
    for at in (1, len(silent) - 1, len(silent)):
        pieces = [*silent[:at], OPENAI.report(), *silent[at:]]
        _, settled = await stage.stream(OPENAI, pieces)

        if at == 1:  # what came after it is counted
            assert settled.sides == (TOLD.input, (await stage.owed(OPENAI, WORDS))[1])
        else:
            assert settled.usage == TOLD.usage
            assert settled.source == "reported"


async def test_t12_zeros_at_the_end_are_believed(stage: Stage) -> None:
    """
    A provider that says so at the very end used nothing, and nothing is charged.

    higress-group/higress#2187
    """
    _, settled = await stage.stream(OPENAI, story(OPENAI, told=Told(0, 0)))

    assert settled.usage == TokenUsage()
    assert settled.source == "reported"


async def test_t12_null_after_a_report(stage: Stage) -> None:
    """
    A null after the report erases nothing. higress-group/higress#2187
    """
    pieces = story(OPENAI)
    pieces.insert(-1, OPENAI.chunk(choices=[], usage=None))
    pieces.insert(-1, OPENAI.chunk(choices=[], usage={"prompt_tokens": None}))
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    pieces.insert(-1, OPENAI.chunk(choices=[], usage=zeros))

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@unknown_figures
async def test_t12_messages_without_figures(stage: Stage, usage: object) -> None:
    """
    A stream of messages without figures is counted. higress-group/higress#2187
    """
    pieces = [
        ANTHROPIC.start(usage),
        *ANTHROPIC.opening()[1:],
        *map(ANTHROPIC.delta, WORDS),
        *ANTHROPIC.finish(),
        ANTHROPIC.stop(usage),
        ANTHROPIC.end(),
    ]
    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.sides == await stage.owed(ANTHROPIC, WORDS)
    assert (settled.source, settled.outcome) == ("estimated", "completed")


async def test_t12_messages_without_the_last_figure(stage: Stage) -> None:
    """
    The input that was reported stands; the output is counted, not taken from the start.

    higress-group/higress#2187
    """
    pieces = story(ANTHROPIC)
    pieces.remove(ANTHROPIC.report())

    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.sides == (TOLD.input, (await stage.owed(ANTHROPIC, WORDS))[1])


@both_apis
@unknown_figures
async def test_t12_replies_without_figures(
    stage: Stage, api: Api, usage: object
) -> None:
    """
    A reply that is not streamed is counted as well. higress-group/higress#2187
    """
    body = api.reply("".join(WORDS), usage=usage)

    answer, settled = await stage.ask(api, [reply(body)], api.request(stream=False))

    assert answer.body == body
    assert settled.sides == await stage.owed(api, WORDS)
    assert settled.source != "reported"


@both_apis
async def test_t12_no_figures_and_no_text(stage: Stage, api: Api) -> None:
    """
    Where nothing was generated the input is owed all the same.

    higress-group/higress#2187
    """
    pieces = [api.end()]

    _, settled = await stage.stream(api, pieces)

    assert settled.sides == await stage.owed(api, [])
    assert settled.usage.total_input_tokens > 0


async def test_t12_tool_calls_and_reasoning_are_text(stage: Stage) -> None:
    """
    What is counted is all that the model wrote: reasoning, refusals, calls of tools.

    higress-group/higress#2187
    """
    calls = [
        {"index": 0, "id": "c", "function": {"name": "weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city": "Tokyo", '}},
        {"index": 0, "function": {"arguments": '"days": 7}'}},
    ]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        {"reasoning_content": "The user wants the weather of a week."},
        {"refusal": "I can't tell the future."},
        *({"tool_calls": [call]} for call in calls),
    ]
    written = [
        "The user wants the weather of a week.",
        "I can't tell the future.",
        "weather",
        '{"city": "Tokyo", ',
        '"days": 7}',
    ]
    _, settled = await stage.stream(OPENAI, [*map(OPENAI.choice, deltas), OPENAI.end()])

    assert settled.sides == await stage.owed(OPENAI, written)


async def test_t12_thinking_and_tool_input_are_text(stage: Stage) -> None:
    """
    The same of messages. higress-group/higress#2187
    """
    tool = {"type": "tool_use", "id": "t", "name": "weather", "input": {}}
    deltas = [
        {"type": "thinking_delta", "thinking": "The user wants the weather."},
        {"type": "signature_delta", "signature": "x" * 4_000},
        {"type": "input_json_delta", "partial_json": '{"city": '},
        {"type": "input_json_delta", "partial_json": '"Tokyo"}'},
    ]
    pieces = [
        named({"type": "content_block_start", "index": 0, "content_block": tool}),
        *(
            named({"type": "content_block_delta", "index": 0, "delta": delta})
            for delta in deltas
        ),
        ANTHROPIC.end(),
    ]
    written = ["weather", "The user wants the weather.", '{"city": ', '"Tokyo"}']

    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.sides == await stage.owed(ANTHROPIC, written)


async def test_t12_what_the_app_capped(stage: Stage) -> None:
    """
    What is counted is no more than the app allowed. higress-group/higress#2187
    """
    body = OPENAI.request(max_tokens=3)
    steps = [reply(OPENAI.reply("".join(WORDS), usage=None))]

    _, settled = await stage.ask(OPENAI, steps, body)

    assert settled.usage.total_output_tokens == 3


async def test_t12_several_choices(stage: Stage) -> None:
    """
    The text of every choice is counted. higress-group/higress#2187
    """
    message = {"role": "assistant", "content": "".join(WORDS)}
    choices = [{"index": at, "message": message} for at in range(3)]
    body = encoded({"choices": choices})

    _, settled = await stage.ask(
        OPENAI, [reply(body)], OPENAI.request(stream=False, n=3)
    )

    assert settled.sides == await stage.owed(OPENAI, WORDS * 3)


async def test_t12_choices_that_end_one_after_the_other(stage: Stage) -> None:
    """
    The stream of several choices is over when the last of them is. higress#2187
    """

    def choice(index: int, **members: object) -> bytes:
        return OPENAI.chunk(choices=[{"index": index, "delta": {}, **members}])

    words = [
        choice(index, delta={"content": word}) for word in WORDS for index in (0, 1)
    ]
    late = choice(1, delta={"content": " Really."})
    ends = [choice(0, finish_reason="stop"), choice(1, finish_reason="length")]
    pieces = [*words, ends[0], late, ends[1], OPENAI.end()]

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.sides == await stage.owed(
        OPENAI, [word for word in WORDS for _ in (0, 1)] + [" Really."]
    )
    assert settled.outcome == "completed"


OPTIONS: list[Any] = [
    None,
    {},
    {"include_usage": None},
    {"include_usage": False},
    {"include_usage": False, "include_obfuscation": False},
    {"continuous_usage_stats": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
async def test_t12_usage_is_asked_for(stage: Stage, options: object) -> None:
    """
    A stream is asked for its usage, whatever the app says of it, and by that alone.

    higress-group/higress#2187
    """
    known = options if isinstance(options, dict) else {}
    body = OPENAI.request(asked=False, stream_options=options)
    body = body.replace(b'"stream": true', b'"temperature": 1.0e0,  "stream" :true')
    stage.upstream.reset()

    answer, settled = await stage.ask(OPENAI, event_stream(story(OPENAI)), body)

    [received] = stage.upstream.requests
    asks = json.loads(received.body)
    assert asks["stream_options"] == known | {"include_usage": True}
    assert asks == json.loads(body) | {"stream_options": asks["stream_options"]}
    assert b'"temperature": 1.0e0,  "stream" :true' in received.body
    assert received.header("content-length") == str(len(received.body))
    assert OPENAI.report() not in answer.body
    assert settled.usage == TOLD.usage


@both_apis
async def test_t12_nothing_else_is_changed(stage: Stage, api: Api) -> None:
    """
    A request that needs no asking goes on byte by byte. higress-group/higress#2187
    """
    for body in (api.request(), api.request(stream=False)):
        spaced = b"  " + body.replace(b": ", b" :\n") + b"\n"
        stage.upstream.reset()

        await stage.ask(api, [reply(api.reply("Done."))], spaced)

        assert stage.upstream.requests[0].body == spaced
