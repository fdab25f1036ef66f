"""
B03, B05: every token is in one class, whoever reports it and however.

Prices come with budgets; what they will be applied to is settled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, WORDS, Api
from tests.cases.stage import Settled, Stage
from tests.scripted_upstream import reply
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@dataclass(frozen=True)
class Report:
    """A usage object of *api*, and what it means."""

    api: Api
    usage: dict[str, Any]
    means: TokenUsage


REPORTS = {
    "cached is a part of the prompt": Report(
        OPENAI,
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        TokenUsage(input_tokens=86, cached_input_tokens=1920, output_tokens=300),
    ),
    "cached above the prompt": Report(
        OPENAI,
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 170},
        },
        TokenUsage(cached_input_tokens=100, output_tokens=5),
    ),
    "nothing cached": Report(
        OPENAI,
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        },
        TokenUsage(input_tokens=100, output_tokens=5),
    ),
    "details null": Report(
        OPENAI,
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        TokenUsage(input_tokens=100, output_tokens=5),
    ),
    "cached in DeepSeek's words": Report(
        OPENAI,
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_cache_hit_tokens": 1920,
            "prompt_cache_miss_tokens": 86,
        },
        TokenUsage(input_tokens=86, cached_input_tokens=1920, output_tokens=300),
    ),
    "input beside its cache": Report(
        ANTHROPIC,
        {
            "input_tokens": 9,
            "cache_creation_input_tokens": 3755,
            "cache_read_input_tokens": 30008,
            "output_tokens": 16,
        },
        TokenUsage(
            input_tokens=9,
            cached_input_tokens=30008,
            cache_write_tokens=3755,
            output_tokens=16,
        ),
    ),
    "cache writes by lifetime": Report(
        ANTHROPIC,
        {
            "input_tokens": 9,
            "cache_creation_input_tokens": 556,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 456,
                "ephemeral_1h_input_tokens": 100,
            },
            "cache_read_input_tokens": 1000,
            "output_tokens": 16,
        },
        TokenUsage(
            input_tokens=9,
            cached_input_tokens=1000,
            cache_write_tokens=456,
            cache_write_1h_tokens=100,
            output_tokens=16,
        ),
    ),
    "all input from the cache": Report(
        ANTHROPIC,
        {"input_tokens": 0, "cache_read_input_tokens": 30008, "output_tokens": 16},
        TokenUsage(cached_input_tokens=30008, output_tokens=16),
    ),
    "reasoning outside of completion": Report(
        OPENAI,
        {
            "prompt_tokens": 20,
            "completion_tokens": 151,
            "total_tokens": 553,
            "completion_tokens_details": {"reasoning_tokens": 382},
        },
        TokenUsage(input_tokens=20, output_tokens=151, reasoning_tokens=382),
    ),
    "reasoning inside of completion": Report(
        OPENAI,
        {
            "prompt_tokens": 20,
            "completion_tokens": 533,
            "total_tokens": 553,
            "completion_tokens_details": {"reasoning_tokens": 382},
        },
        TokenUsage(input_tokens=20, output_tokens=151, reasoning_tokens=382),
    ),
    "reasoning inside of text": Report(
        OPENAI,
        {
            "prompt_tokens": 20,
            "completion_tokens": 29,
            "total_tokens": 49,
            "completion_tokens_details": {"text_tokens": 29, "reasoning_tokens": 19},
        },
        TokenUsage(input_tokens=20, output_tokens=10, reasoning_tokens=19),
    ),
    "reasoning above completion": Report(
        OPENAI,
        {
            "prompt_tokens": 20,
            "completion_tokens": 10,
            "completion_tokens_details": {"reasoning_tokens": 15},
        },
        # A sum that held it could not be smaller: it stands beside the sum.
        TokenUsage(input_tokens=20, output_tokens=10, reasoning_tokens=15),
    ),
    "a total above the sum": Report(
        OPENAI,
        {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553},
        TokenUsage(input_tokens=20, output_tokens=533),
    ),
    "a total below the sum": Report(
        OPENAI,
        {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 100},
        TokenUsage(input_tokens=20, output_tokens=151),
    ),
    "sound": Report(
        OPENAI,
        {
            "prompt_tokens": 100,
            "completion_tokens": 592,
            "total_tokens": 692,
            "prompt_tokens_details": {"audio_tokens": 60, "cached_tokens": 20},
            "completion_tokens_details": {"text_tokens": 110, "audio_tokens": 482},
        },
        TokenUsage(
            input_tokens=20,
            cached_input_tokens=20,
            audio_input_tokens=60,
            output_tokens=110,
            audio_output_tokens=482,
        ),
    ),
    "predictions that were rejected": Report(
        OPENAI,
        {
            "prompt_tokens": 20,
            "completion_tokens": 50,
            "total_tokens": 70,
            "completion_tokens_details": {
                "accepted_prediction_tokens": 10,
                "rejected_prediction_tokens": 30,
            },
        },
        TokenUsage(input_tokens=20, output_tokens=50),
    ),
}


def check(settled: Settled, report: Report) -> None:
    """Demand that *settled* is what *report* means."""
    assert settled.usage == report.means
    assert (settled.source, settled.outcome) == ("reported", "completed")


async def told_in_a_stream(stage: Stage, report: Report) -> Settled:
    """Return what is settled if *report* comes at the end of a stream."""
    deltas = list(map(report.api.delta, WORDS))
    if report.api is ANTHROPIC:
        start = {**report.usage, "output_tokens": 1}
        ending = [ANTHROPIC.stop(report.usage)]
        pieces = [ANTHROPIC.start(start), *deltas, *ending, ANTHROPIC.end()]
    else:
        ending = [OPENAI.chunk(choices=[], usage=report.usage)]
        pieces = [*deltas, *ending, OPENAI.end()]
    _, settled = await stage.stream(report.api, pieces)
    return settled


async def told_in_a_reply(stage: Stage, report: Report) -> Settled:
    """Return what is settled if *report* comes with a reply."""
    body = report.api.reply("".join(WORDS), usage=report.usage)
    request = report.api.request(stream=False)
    _, settled = await stage.ask(report.api, [reply(body)], request)
    return settled


B05 = {name for name in REPORTS if "reasoning" in name or "total" in name}


@pytest.mark.parametrize("name", sorted(REPORTS.keys() - B05))
async def test_b03_classes_are_disjoint(stage: Stage, name: str) -> None:
    """
    What is cached, written to a cache or heard is no plain input besides.

    BerriAI/litellm#6215, mozilla-ai/otari#198, ENTERPILOT/GoModel#439
    """
    check(await told_in_a_reply(stage, REPORTS[name]), REPORTS[name])
    check(await told_in_a_stream(stage, REPORTS[name]), REPORTS[name])


@pytest.mark.parametrize("name", sorted(B05))
async def test_b05_reasoning_is_counted_once(stage: Stage, name: str) -> None:
    """
    Output is what the total leaves; reasoning is a part of it, never on top.

    mozilla-ai/any-llm#1291, BerriAI/litellm#39850
    """
    check(await told_in_a_reply(stage, REPORTS[name]), REPORTS[name])
    check(await told_in_a_stream(stage, REPORTS[name]), REPORTS[name])


async def test_b03_cache_writes_that_only_the_start_tells(stage: Stage) -> None:
    """
    A last delta with the sum alone leaves the lifetimes known. mozilla-ai/otari#198
    """
    start = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 556,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 456,
            "ephemeral_1h_input_tokens": 100,
        },
        "output_tokens": 1,
    }
    last = {"cache_creation_input_tokens": 556, "output_tokens": 16}
    deltas = map(ANTHROPIC.delta, WORDS)
    pieces = [ANTHROPIC.start(start), *deltas, ANTHROPIC.stop(last), ANTHROPIC.end()]

    _, settled = await stage.stream(ANTHROPIC, pieces)

    assert settled.usage == TokenUsage(
        input_tokens=9,
        cache_write_tokens=456,
        cache_write_1h_tokens=100,
        output_tokens=16,
    )


async def test_b05_figures_of_a_stream_that_grow(stage: Stage) -> None:
    """
    Reasoning that grows from report to report is counted by the last one.

    mozilla-ai/any-llm#1291
    """
    reports = [
        {
            "prompt_tokens": 20,
            "completion_tokens": output,
            "total_tokens": 20 + output + reasoning,
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
        for output, reasoning in ((0, 100), (40, 382), (151, 382))
    ]
    choice = {"index": 0, "delta": {"content": "word "}}
    pieces = [OPENAI.chunk(choices=[choice], usage=report) for report in reports]

    _, settled = await stage.stream(OPENAI, [*pieces, OPENAI.end()])

    assert settled.usage == TokenUsage(
        input_tokens=20, output_tokens=151, reasoning_tokens=382
    )
