"""T14: figures that can't be true are not believed, surprising ones are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, WORDS, encoded, story
from tests.cases.stage import STREAM_HEAD, Settled, Stage
from tests.pod import until
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Pause,
    Step,
    chunk,
    event_stream,
    reply,
)
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ABSURD = 10**9
MODEL_MAXIMUM = 16_384  # of gpt-4o in the tests' policy
FLAG = "implausible_report"
SIDES = {"prompt_tokens": 11, "completion_tokens": 7}
# In OpenAI's report.
OPENAI_FIGURES: list[dict[str, Any]] = [
    {"completion_tokens": ABSURD},
    {"prompt_tokens": ABSURD},
    {"total_tokens": ABSURD},
    {"completion_tokens": 300_000},
    {"completion_tokens": 10**14},
    {"prompt_tokens_details": {"cached_tokens": 10**14}},
    {"completion_tokens_details": {"reasoning_tokens": ABSURD}},
]
# In Anthropic's message_start, and in its message_delta.
ANTHROPIC_FIGURES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"input_tokens": ABSURD}, {}),
    ({}, {"input_tokens": ABSURD}),
    ({}, {"output_tokens": ABSURD}),
    ({"cache_read_input_tokens": ABSURD}, {}),
    ({"cache_read_input_tokens": 10**14}, {}),
    ({}, {"cache_creation_input_tokens": 10**14}),
    ({}, {"cache_creation": {"ephemeral_1h_input_tokens": ABSURD}}),
]


def told_openai(**figures: object) -> bytes:
    """Return the event with a report in which *figures* are others."""
    return OPENAI.chunk(choices=[], usage=SIDES | figures)


def told_anthropic(start: dict[str, Any], stop: dict[str, Any]) -> list[bytes]:
    """Return a story with other figures in its first and its last report."""
    return [
        ANTHROPIC.start({"input_tokens": 11, "output_tokens": 1} | start),
        *ANTHROPIC.opening()[1:],
        *map(ANTHROPIC.delta, WORDS),
        *ANTHROPIC.finish(),
        ANTHROPIC.stop({"output_tokens": 7} | stop),
        ANTHROPIC.end(),
    ]


async def check_counted(stage: Stage, settled: Settled, owed: tuple[int, int]) -> None:
    """Demand that what passed was charged, and that the reason is told."""
    assert settled.sides == owed
    assert settled.source != "reported"
    assert settled.record["flags"] == FLAG


@pytest.mark.parametrize("figures", OPENAI_FIGURES, ids=repr)
async def test_t14_openai(stage: Stage, figures: dict[str, Any]) -> None:
    """
    In a stream or a reply: what passed is counted, and log and metric tell.

    envoyproxy/ai-gateway#111: a report must not be worse than none.
    """
    owed = await stage.owed(OPENAI, WORDS)
    before = stage.pod.processors[0].metric("tokenweir_implausible_reports_total")
    *said, _, end = story(OPENAI)
    answer, streamed = await stage.stream(OPENAI, [*said, told_openai(**figures), end])
    body = OPENAI.reply("".join(WORDS), usage=SIDES | figures)
    _, whole = await stage.ask(OPENAI, [reply(body)], OPENAI.request(stream=False))

    await check_counted(stage, streamed, owed)
    await check_counted(stage, whole, await stage.owed(OPENAI, ["".join(WORDS)]))
    assert streamed.outcome == whole.outcome == "completed"
    after = stage.pod.processors[0].metric("tokenweir_implausible_reports_total")
    assert after == before + 2

    def told() -> bool:
        return any(
            (line["level"], line.get("flags")) == ("warning", [FLAG])
            for line in stage.pod.exchanges()
            if line.get("request_id") == answer.request_id
        )

    await until(told)


@pytest.mark.parametrize(("start", "stop"), ANTHROPIC_FIGURES, ids=repr)
async def test_t14_anthropic(
    stage: Stage, start: dict[str, Any], stop: dict[str, Any]
) -> None:
    """
    The same of messages, whichever of a stream's two reports it is in.

    higress-group/higress#1080
    """
    owed_input, owed_output = await stage.owed(ANTHROPIC, WORDS)
    _, streamed = await stage.stream(ANTHROPIC, told_anthropic(start, stop))
    usage = {"input_tokens": 11, "output_tokens": 7} | start | stop
    body = ANTHROPIC.reply("".join(WORDS), usage=usage)
    asked = ANTHROPIC.request(stream=False)
    _, whole = await stage.ask(ANTHROPIC, [reply(body)], asked)

    for settled in (streamed, whole):
        # A report that makes no sense in itself is left out, the other one stays.
        assert settled.usage.total_input_tokens in (owed_input, TOLD.input)
        assert settled.usage.total_output_tokens in (owed_output, TOLD.output)
        assert settled.record["flags"] == FLAG
        assert settled.outcome == "completed"


async def test_t14_a_cut_stream_with_absurd_totals(stage: Stage) -> None:
    """
    Running totals that can't be true charge no cut stream. mitchross/talos#2019
    """
    pieces = [*map(OPENAI.delta, WORDS), told_openai(completion_tokens=ABSURD)]
    steps: list[Step] = [STREAM_HEAD, *map(chunk, pieces), Pause(0.05), End.CLOSE]
    owed = await stage.owed(OPENAI, WORDS)

    _, settled = await stage.ask(OPENAI, steps, OPENAI.request())

    await check_counted(stage, settled, owed)


async def test_t14_a_later_report_that_can_be_true(stage: Stage) -> None:
    """
    Reports are cumulative: the last one counts, and is believed. higress#1080
    """
    *said, report, end = story(OPENAI)
    absurd = told_openai(completion_tokens=ABSURD)

    _, settled = await stage.stream(OPENAI, [*said, absurd, report, end])

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


SURPRISES: list[tuple[dict[str, Any], TokenUsage]] = [
    (
        {
            "completion_tokens": 60_000,
            "completion_tokens_details": {"reasoning_tokens": 59_000},
        },
        TokenUsage(11, output_tokens=1_000, reasoning_tokens=59_000),
    ),
    (
        {
            "prompt_tokens": 900_000,
            "prompt_tokens_details": {"cached_tokens": 899_000},
        },
        TokenUsage(1_000, cached_input_tokens=899_000, output_tokens=7),
    ),
    ({"completion_tokens": 5_000}, TokenUsage(11, output_tokens=5_000)),
]


@pytest.mark.parametrize(("figures", "usage"), SURPRISES, ids=repr)
async def test_t14_surprises(
    stage: Stage, figures: dict[str, Any], usage: TokenUsage
) -> None:
    """
    Reasoning above all text, input above the estimate, a cap that is ignored: believed.

    langchain-ai/langchain#30429
    """
    *said, _, end = story(OPENAI)
    steps = event_stream([*said, told_openai(**figures), end])

    _, settled = await stage.ask(OPENAI, steps, OPENAI.request(max_tokens=16))

    assert settled.usage == usage
    assert settled.source == "reported"
    assert settled.record["flags"] == ""


@pytest.mark.parametrize("choices", [1, 2])
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "whole"])
async def test_t14_no_cap_and_no_report(stage: Stage, choices: int, cut: bool) -> None:
    """
    Without cap and report no more is counted than the model can generate.

    envoyproxy/ai-gateway#111
    """
    pieces = [OPENAI.delta("x7 " * 20_000)] * 5
    ending: list[Step] = [Pause(0.05), End.CLOSE] if cut else [LAST_CHUNK]
    steps = [STREAM_HEAD, *map(chunk, pieces), *ending]

    _, settled = await stage.ask(OPENAI, steps, OPENAI.request(n=choices))

    assert settled.usage.total_output_tokens == MODEL_MAXIMUM * choices
    assert settled.source != "reported"


async def test_t14_replies_without_a_cap(stage: Stage) -> None:
    """A long reply without a report is bounded as well. envoyproxy/ai-gateway#111"""
    message = {"role": "assistant", "content": "x7 " * 50_000}
    body = encoded({"choices": [{"index": 0, "message": message}]})

    _, settled = await stage.ask(OPENAI, [reply(body)], OPENAI.request(stream=False))

    assert settled.usage.total_output_tokens == MODEL_MAXIMUM
