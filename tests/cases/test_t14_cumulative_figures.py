"""T14, T16, T17: reports are cumulative, and stand wherever a server puts them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.apis import (
    ANTHROPIC,
    OPENAI,
    TOLD,
    WORDS,
    Told,
    data,
    named,
    story,
)
from tests.cases.app import Leave
from tests.cases.stage import STREAM_HEAD, Stage
from tests.scripted_upstream import End, chunk
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PROMPT_TOKENS = 6_179
CHUNKS = 222


def running(output: int) -> dict[str, Any]:
    """Return vLLM's running totals after *output* tokens."""
    return OPENAI.usage(Told(PROMPT_TOKENS, output))


def continuous() -> list[bytes]:
    """Return a stream whose every chunk has running totals."""
    return [
        OPENAI.chunk(
            choices=[{"index": 0, "delta": {"content": "word "}}], usage=running(output)
        )
        for output in range(1, CHUNKS + 1)
    ]


@pytest.mark.parametrize("last", [True, False], ids=["with the last report", "without"])
async def test_t14_running_totals_replace(stage: Stage, last: bool) -> None:
    """
    Of 222 running totals the last one is charged, once.

    envoyproxy/ai-gateway#111, mitchross/talos-argocd-proxmox#2019,
    langchain-ai/langchain#30429, higress-group/higress#1080
    """
    ending = [OPENAI.report(Told(PROMPT_TOKENS, CHUNKS))] if last else []
    pieces = [*continuous(), *ending, OPENAI.end()]

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.usage == Told(PROMPT_TOKENS, CHUNKS).usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


async def test_t14_running_totals_for_an_app_that_did_not_ask(stage: Stage) -> None:
    """
    Totals beside text are the server's own idea: they pass. envoyproxy/ai-gateway#111
    """
    report = OPENAI.report(Told(PROMPT_TOKENS, CHUNKS))
    pieces = [*continuous(), report, OPENAI.end()]

    settled = await stage.stream_unasked(OPENAI, pieces, report)

    assert settled.usage == Told(PROMPT_TOKENS, CHUNKS).usage


async def test_t14_cut_between_running_totals(stage: Stage) -> None:
    """
    Who hangs up in between is charged by the total so far. envoyproxy/ai-gateway#111
    """
    pieces = [chunk(event) for event in continuous()[:100]]
    stage.upstream.play(STREAM_HEAD, *pieces, End.STALL)

    call = await stage.begin(OPENAI, OPENAI.request())
    await call.until(b'"completion_tokens": 100')
    call.leave(Leave.CLOSE)
    settled = await stage.settled(call.request_id)

    assert settled.usage == Told(PROMPT_TOKENS, 100).usage
    assert (settled.source, settled.outcome) == ("reported", "cut")


async def test_t14_placeholders_before_the_first_total(stage: Stage) -> None:
    """
    Totals may begin late, with zero output, or with nulls between.

    mitchross/talos-argocd-proxmox#2019
    """
    begun = OPENAI.chunk(choices=[], usage=running(0))
    null = OPENAI.chunk(choices=[{"index": 0, "delta": {}}], usage=None)
    pieces = [begun, *continuous()[:5], null, *continuous()[5:], null, OPENAI.end()]

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.usage == Told(PROMPT_TOKENS, CHUNKS).usage


async def test_t14_the_same_report_twice(stage: Stage) -> None:
    """
    A report that is repeated counts once. higress-group/higress#1080
    """
    pieces = [*story(OPENAI)[:-1], OPENAI.report(), OPENAI.report(), OPENAI.end()]

    _, settled = await stage.stream(OPENAI, pieces)

    assert settled.usage == TOLD.usage


def with_report_at(shape: str) -> list[bytes]:
    """Return a story whose report has another *shape* or another place."""
    usage = OPENAI.usage()
    text = OPENAI.choice({"content": WORDS[-1]})
    before = [*OPENAI.opening(), *map(OPENAI.delta, WORDS[:-1])]
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    nulls = {"role": "assistant", "content": None}
    last_word = {"role": "assistant", "content": WORDS[-1]}
    shapes: dict[str, list[bytes]] = {
        "no choice": [text, OPENAI.chunk(choices=[], usage=usage)],
        "choices absent": [text, OPENAI.chunk(usage=usage)],
        "choices null": [text, OPENAI.chunk(choices=None, usage=usage)],
        "finish with nulls": [
            text,
            OPENAI.chunk(choices=[choice | {"delta": nulls}], usage=usage),
        ],
        "finish with an empty delta": [
            text,
            OPENAI.chunk(choices=[choice | {"delta": {}}], usage=usage),
        ],
        "finish without a delta": [text, OPENAI.chunk(choices=[choice], usage=usage)],
        "beside text": [
            OPENAI.chunk(choices=[choice | {"delta": last_word}], usage=usage)
        ],
        "inside of the choice": [
            text,
            OPENAI.chunk(choices=[choice | {"delta": {}, "usage": usage}]),
        ],
        "x_groq": [
            text,
            OPENAI.chunk(choices=[choice | {"delta": {}}], x_groq={"usage": usage}),
        ],
        "several choices": [
            text,
            OPENAI.chunk(choices=[choice, choice | {"index": 1}], usage=usage),
        ],
        "usage first": [
            text,
            data({"usage": usage, "choices": []}),
        ],
        "over several lines": [
            text,
            OPENAI.chunk(choices=[], usage=usage).replace(b": {", b":\ndata: {"),
        ],
        "broken choices": [text, OPENAI.chunk(choices=[None, 5, "x"], usage=usage)],
    }
    return [*before, *shapes[shape]]


SHAPES = [
    "no choice",
    "choices absent",
    "choices null",
    "finish with nulls",
    "finish with an empty delta",
    "finish without a delta",
    "beside text",
    "inside of the choice",
    "x_groq",
    "several choices",
    "usage first",
    "over several lines",
    "broken choices",
]
# What an app gets only because we asked; SDKs fall over events without choices.
ONLY_USAGE = {
    "no choice",
    "choices absent",
    "choices null",
    "usage first",
    "over several lines",
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_t16_report_of_any_shape(stage: Stage, shape: str) -> None:
    """
    Usage is looked for first of all, whatever stands beside it.

    langchain-ai/langchain#35559, NadirRouter/NadirClaw#33, BerriAI/litellm#28735,
    odysseus-dev/odysseus#1703
    """
    _, settled = await stage.stream(OPENAI, [*with_report_at(shape), OPENAI.end()])

    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@pytest.mark.parametrize("shape", SHAPES)
async def test_t16_only_the_extra_event_is_taken_out(stage: Stage, shape: str) -> None:
    """
    An app that did not ask loses the event without choices, and no event with one.

    langchain-ai/langchain#35559
    """
    pieces = [*with_report_at(shape), OPENAI.end()]
    extra = pieces[-2] if shape in ONLY_USAGE else b""

    settled = await stage.stream_unasked(OPENAI, pieces, extra)

    assert settled.usage == TOLD.usage


async def test_t17_later_figures_replace_earlier_ones(stage: Stage) -> None:
    """
    Anthropic's figures are cumulative, and a delta may repeat those of the input.

    tensorzero/tensorzero#5481, envoyproxy/ai-gateway#2236, envoyproxy/ai-gateway#2239
    """
    inputs = {"input_tokens": 9, "cache_read_input_tokens": 1}
    start = inputs | {"cache_creation_input_tokens": 0, "output_tokens": 1}
    pieces = [
        ANTHROPIC.start(start),
        *ANTHROPIC.opening()[1:],
        *map(ANTHROPIC.delta, WORDS),
        *ANTHROPIC.finish(),
        ANTHROPIC.stop(inputs | {"output_tokens": 7}, reason=None),
        ANTHROPIC.stop(inputs | {"output_tokens": 16}),
        ANTHROPIC.end(),
    ]
    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=16
    )
    assert (settled.source, settled.outcome) == ("reported", "completed")


@pytest.mark.parametrize(
    "delta",
    [
        {"output_tokens": 16},
        {"output_tokens": 16, "input_tokens": None, "cache_read_input_tokens": None},
        {"output_tokens": 16, "input_tokens": 0, "cache_read_input_tokens": 0},
        {"output_tokens": 16, "cache_read_input_tokens": 1},
    ],
    ids=repr,
)
async def test_t17_a_delta_need_not_repeat_the_input(
    stage: Stage, delta: dict[str, object]
) -> None:
    """
    Absent, null or zero in a delta erases nothing. tensorzero/tensorzero#5481
    """
    start = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
    pieces = [ANTHROPIC.start(start), *map(ANTHROPIC.delta, WORDS)]
    pieces += [ANTHROPIC.stop(delta), ANTHROPIC.end()]

    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=16
    )


async def test_t17_the_input_only_at_the_end(stage: Stage) -> None:
    """
    Some who imitate it report zeros at the start and all figures in the last delta.

    envoyproxy/ai-gateway#2236
    """
    pieces = [
        ANTHROPIC.start({"input_tokens": 0, "output_tokens": 0}),
        *map(ANTHROPIC.delta, WORDS),
        ANTHROPIC.stop(
            {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 16}
        ),
        ANTHROPIC.end(),
    ]
    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=16
    )


async def test_t17_input_that_grows_with_server_tools(stage: Stage) -> None:
    """
    With server tools the input grows while it runs: the last figure is the sum.

    envoyproxy/ai-gateway#2239
    """
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    pieces = [
        ANTHROPIC.start({"input_tokens": 2_679, "output_tokens": 3}),
        named({"type": "content_block_start", "index": 0, "content_block": search}),
        *map(ANTHROPIC.delta, WORDS),
        ANTHROPIC.stop(
            {
                "input_tokens": 10_682,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 510,
                "server_tool_use": {"web_search_requests": 1},
            }
        ),
        ANTHROPIC.end(),
    ]
    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.usage == TokenUsage(input_tokens=10_682, output_tokens=510)


async def test_t17_cut_after_a_middle_report(stage: Stage) -> None:
    """
    A report in the middle covers no text that comes after it. tensorzero#5481
    """
    pieces = [
        ANTHROPIC.start({"input_tokens": 9, "output_tokens": 1}),
        *map(ANTHROPIC.delta, WORDS),
        ANTHROPIC.stop({"output_tokens": 2}, reason=None),
        *map(ANTHROPIC.delta, WORDS),
    ]
    stage.upstream.play(STREAM_HEAD, *map(chunk, pieces), End.STALL)

    call = await stage.begin(ANTHROPIC, ANTHROPIC.request())
    await call.until_length(sum(map(len, pieces)))
    call.leave(Leave.CLOSE)
    settled = await stage.settled(call.request_id)

    assert settled.sides == (9, (await stage.owed(ANTHROPIC, WORDS * 2))[1])
    assert settled.outcome == "cut"
