"""OpenAI's figures become classes that do not overlap, whoever imitates them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.openai_usage import read_usage
from tokenweir.core.usage import TokenUsage


def facts_of(*reports: object) -> ResponseFacts:
    """Return what is known after *reports*."""
    facts = ResponseFacts()
    for report in reports:
        read_usage(report, facts)
    return facts


def usage_of(*reports: object) -> TokenUsage:
    """Return the usage after *reports*, which there must be."""
    usage = facts_of(*reports).usage
    assert usage is not None
    return usage


def report(
    prompt: Any, completion: Any, total: Any = None, **others: Any
) -> dict[str, Any]:
    """Return a usage object."""
    sums = {"prompt_tokens": prompt, "completion_tokens": completion}
    return sums | {"total_tokens": total} | others


def test_plain() -> None:
    """The two sums are input and output, and the report is final."""
    facts = facts_of(report(11, 7, 18))

    assert facts.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert facts.usage_final


@pytest.mark.parametrize(
    "value", [None, [], "usage", 5, {}, {"prompt_tokens": None}, {"total_tokens": 18}]
)
def test_nothing_said(value: object) -> None:
    """null, an empty object, and a total alone are no report."""
    assert facts_of(value).usage is None
    assert usage_of(report(11, 7), value) == TokenUsage(11, output_tokens=7)


def test_running_totals() -> None:
    """Totals that come with every event replace each other (T14)."""
    reports = [report(6_179, k, 6_179 + k) for k in range(1, 223)]

    assert usage_of(*reports) == TokenUsage(input_tokens=6_179, output_tokens=222)


def test_zero_and_null_erase_nothing() -> None:
    """What is known stays if a later report has nothing or zero in its place."""
    details = {"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 2}}
    outputs = {"completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 1}}
    whole = report(11, 7, 18, **details, **outputs)
    expected = TokenUsage(
        input_tokens=5,
        cached_input_tokens=4,
        audio_input_tokens=2,
        output_tokens=3,
        reasoning_tokens=3,
        audio_output_tokens=1,
    )

    assert usage_of(whole) == expected
    for later in (
        report(0, 0, 0),
        report(None, None),
        report(11, 7, 18),
        report(11, 0),
        report(None, 7),
        whole | {"prompt_tokens_details": {"cached_tokens": 0}},
        whole | {"completion_tokens_details": None},
    ):
        assert usage_of(whole, later) == expected


def test_zero_is_zero() -> None:
    """A report of no tokens at all is a report (L20)."""
    facts = facts_of(report(0, 0, 0))

    assert facts.usage == TokenUsage()
    assert facts.usage_final


@pytest.mark.parametrize("value", ["12", True, -3, 1e400, math.nan, None, [1], 1.5])
def test_no_figures(value: object) -> None:
    """What is no number of tokens is unknown; the other side may be known (S07)."""
    assert facts_of(report(value, value, value)).usage is None

    begun = facts_of(report(11, value, value))
    assert begun.usage == TokenUsage(input_tokens=11)
    assert not begun.usage_final

    ended = facts_of(report(value, 7, value))
    assert ended.usage == TokenUsage(output_tokens=7)
    assert not ended.usage_final


@pytest.mark.parametrize(
    "absurd",
    [
        report(10**12, 7),
        report(11, 10**12),
        report(11, 7, 10**12),
        report(11, 7, prompt_tokens_details={"cached_tokens": 10**14}),
        report(11, 7, completion_tokens_details={"reasoning_tokens": 10**14}),
    ],
)
def test_absurd(absurd: dict[str, Any]) -> None:
    """A report with a figure that no count can be is left out whole, and told."""
    facts = facts_of(absurd)
    assert facts.usage is None
    assert facts.absurd

    later = facts_of(report(9, 5), absurd)
    assert later.usage == TokenUsage(9, output_tokens=5)
    assert later.usage_final
    assert later.absurd


def test_large_but_no_tokens() -> None:
    """Prices and times stand beside the tokens, in units of their own."""
    facts = facts_of(report(11, 7, cost_in_usd_ticks=10**12, total_time=10**12))

    assert facts.usage == TokenUsage(11, output_tokens=7)
    assert not facts.absurd


def test_rejected_predictions_are_output() -> None:
    """Rejected tokens of a prediction are within the output already, as OpenAI bills."""
    details = {"accepted_prediction_tokens": 20, "rejected_prediction_tokens": 10}
    facts = facts_of(report(11, 37, 48, completion_tokens_details=details))

    assert facts.usage == TokenUsage(11, output_tokens=37)


def test_final_once_both_sides_are_known() -> None:
    """The sides may come one after the other."""
    facts = facts_of(report(11, None), report(None, 7))

    assert facts.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert facts.usage_final


@pytest.mark.parametrize(
    ("cached", "fresh", "read"), [(1_920, 86, 1_920), (0, 2_006, 0), (9_999, 0, 2_006)]
)
def test_cached_is_a_part_of_the_prompt(cached: int, fresh: int, read: int) -> None:
    """Cached input is a part of the prompt, and never more than it (B03)."""
    usage = usage_of(
        report(2_006, 300, prompt_tokens_details={"cached_tokens": cached})
    )

    assert usage.input_tokens == fresh
    assert usage.cached_input_tokens == read
    assert usage.total_input_tokens == 2_006


@pytest.mark.parametrize(
    "others",
    [
        {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 7},
        {"cache_read_input_tokens": 4},
        {"input_tokens_details": {"cached_tokens": 4}},
        {"prompt_tokens_details": {"cache_read_input_tokens": 4}},
    ],
)
def test_other_names_of_cached_input(others: dict[str, Any]) -> None:
    """Imitators have names of their own for what their cache held."""
    assert usage_of(report(11, 7, 18, **others)) == TokenUsage(
        input_tokens=7, cached_input_tokens=4, output_tokens=7
    )


@pytest.mark.parametrize("name", ["cache_write_tokens", "cache_creation_input_tokens"])
@pytest.mark.parametrize("nested", [True, False])
def test_writing_to_a_cache(name: str, nested: bool) -> None:
    """Input that is written to a cache is a part of the prompt, too."""
    written = {"prompt_tokens_details": {name: 5}} if nested else {name: 5}

    assert usage_of(report(30, 15, **written)) == TokenUsage(
        input_tokens=25, cache_write_tokens=5, output_tokens=15
    )


CACHES = {"cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 500}


@pytest.mark.parametrize("total", [None, 15, 1_515])
@pytest.mark.parametrize(
    "others", [{}, {"prompt_tokens_details": {"cached_tokens": 0}}]
)
def test_caches_beside_the_prompt(total: int | None, others: dict[str, Any]) -> None:
    """Anthropic's figures are beside the prompt, if they don't fit into it."""
    usage = usage_of(report(10, 5, total, **CACHES, **others))

    assert usage == TokenUsage(
        input_tokens=10,
        cached_input_tokens=1_000,
        cache_write_tokens=500,
        output_tokens=5,
    )


@pytest.mark.parametrize(
    ("value", "fresh"),
    [
        (report(2_000, 5, 3_505, **CACHES), 2_000),
        (report(2_000, 5, 2_005, **CACHES), 500),
        (report(2_000, 5, **CACHES), 500),
        ({"input_tokens": 2_000, "output_tokens": 5} | CACHES, 2_000),
        ({"input_tokens": 2_000, "output_tokens": 5, "total_tokens": 2_005} | CACHES, 500),
    ],
)  # fmt: skip
def test_caches_that_may_be_either(value: dict[str, Any], fresh: int) -> None:
    """The total tells if they are beside the prompt; without one the names do."""
    usage = usage_of(value)

    assert usage.input_tokens == fresh
    assert (usage.cached_input_tokens, usage.cache_write_tokens) == (1_000, 500)
    assert usage.total_output_tokens == 5


def test_zeros_do_not_complete_a_report() -> None:
    """Zeros after half a report don't make it a whole one."""
    facts = facts_of(report(11, None), report(0, 0, 0))

    assert facts.usage == TokenUsage(input_tokens=11)
    assert not facts.usage_final


def test_output_from_no_input() -> None:
    """Something is generated from no input: the input is unknown, and is estimated."""
    facts = facts_of(report(0, 7, 7))

    assert facts.usage == TokenUsage(output_tokens=7)
    assert not facts.usage_final
    assert facts_of(report(0, 7, 7), report(11, 7, 18)).usage_final
    assert facts_of(report(11, None), report(0, 7, 7)).usage_final


def test_reasoning_beside_the_sums() -> None:
    """Reasoning may be told beside the sums; it is a part of the output there, too."""
    sglang = report(20, 151, 171, prompt_tokens_details=None, reasoning_tokens=40)

    assert usage_of(sglang) == TokenUsage(
        input_tokens=20, output_tokens=111, reasoning_tokens=40
    )
    details = {"completion_tokens_details": {"reasoning_tokens": 41}}
    assert usage_of(sglang | details).reasoning_tokens == 41


def test_names_of_the_newer_api() -> None:
    """The sums may be called as in the newer API."""
    later = {"input_tokens": 11, "output_tokens": 7}

    assert usage_of(later) == TokenUsage(input_tokens=11, output_tokens=7)


@pytest.mark.parametrize(
    ("value", "output", "reasoning"),
    [
        # Reasoning is left out of the sum, not of the total.
        (report(20, 151, 553, completion_tokens_details={"reasoning_tokens": 382}), 533, 382),
        (report(20, 533, 553, completion_tokens_details={"reasoning_tokens": 382}), 533, 382),
        (
            report(5, 29, completion_tokens_details={"text_tokens": 29, "reasoning_tokens": 19}),
            29,
            19,
        ),
        # No sum is smaller than its part: that was left out, of the total as well.
        (report(20, 151, completion_tokens_details={"reasoning_tokens": 382}), 533, 382),
        (report(20, 151, 171, completion_tokens_details={"reasoning_tokens": 382}), 533, 382),
        (report(10, 5, reasoning_tokens=60), 65, 60),
        (report(10, 0, reasoning_tokens=60), 60, 60),
        # A total that is too small says nothing.
        (report(20, 151, 20), 151, 0),
        (report(20, 151, 3), 151, 0),
        (report(20, None, 553), 533, 0),
        (report(20, 0, 553), 533, 0),
    ],
)  # fmt: skip
def test_output_agrees_with_the_total(
    value: dict[str, Any], output: int, reasoning: int
) -> None:
    """Output is what the total leaves for it, and reasoning is within it (B05)."""
    usage = usage_of(value)

    assert usage.total_output_tokens == output
    assert usage.reasoning_tokens == reasoning
    assert usage.total_input_tokens == value["prompt_tokens"]


def test_total_of_the_prompt_alone() -> None:
    """If the total is just the prompt, the output is not known to be nothing."""
    facts = facts_of(report(20, None, 20))

    assert facts.usage == TokenUsage(input_tokens=20)
    assert not facts.usage_final


def test_pictures() -> None:
    """Pictures that are told apart are a class of their own on either side."""
    usage = usage_of(
        report(
            1_300,
            1_060,
            prompt_tokens_details={"image_tokens": 1_200, "cached_tokens": 40},
            completion_tokens_details={"image_tokens": 1_056},
        )
    )

    assert usage == TokenUsage(
        input_tokens=60,
        cached_input_tokens=40,
        image_input_tokens=1_200,
        output_tokens=4,
        image_output_tokens=1_056,
    )


def test_audio() -> None:
    """Audio is told apart on both sides; text is what is left (B11)."""
    usage = usage_of(
        report(
            22,
            592,
            prompt_tokens_details={"audio_tokens": 10, "text_tokens": 12},
            completion_tokens_details={"audio_tokens": 482},
        )
    )

    assert usage == TokenUsage(
        input_tokens=12,
        audio_input_tokens=10,
        output_tokens=110,
        audio_output_tokens=482,
    )


FIGURES = st.none() | st.integers(-2, 50) | st.sampled_from(["1", 1.5, True, math.inf])
DETAILS = st.none() | st.dictionaries(
    st.sampled_from(
        ["cached_tokens", "audio_tokens", "image_tokens", "reasoning_tokens", "cache_write_tokens"]
    ),
    FIGURES,
)  # fmt: skip
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": FIGURES,
        "completion_tokens": FIGURES,
        "total_tokens": FIGURES,
        "prompt_tokens_details": DETAILS,
        "completion_tokens_details": DETAILS,
    },
)


@given(st.lists(REPORTS, max_size=4))
def test_sums_hold(reports: list[dict[str, Any]]) -> None:
    """However odd the reports: no class is negative, no side below its last sum."""
    facts = facts_of(*reports)
    if facts.usage is None:
        return

    assert all(tokens >= 0 for tokens in facts.usage.by_class().values())
    prompts = [r.get("prompt_tokens") for r in reports]
    seen = [p for p in prompts if type(p) is int and p > 0]
    assert facts.usage.total_input_tokens == (seen[-1] if seen else 0)
