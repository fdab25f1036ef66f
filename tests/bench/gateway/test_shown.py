"""The goals, and whether they are met."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.gateway.correctness import Admission
from bench.gateway.shown import MET, MISSED, UNKNOWN, Goal, as_markdown, goals
from bench.gateway.spread import Spread
from bench.gateway.startup import Startup
from bench.gateway.summary import summarise
from bench.gateway.variants import Kind
from tests.bench.gateway.cells import JSON, OURS, SSE, cell, run

LITELLM = Kind.LITELLM.value


def found(text: str, *more: object) -> Goal:
    """Return the goal whose text has *text*, of `run` and *more* cells."""
    cells = [*run(), *more]
    all_of_them = goals(summarise(cells), [], {})  # type: ignore[arg-type] # cells
    return next(goal for goal in all_of_them if text in goal.text)


def test_what_was_not_measured_is_told_so() -> None:
    """Neither met nor missed."""
    assert {goal.verdict for goal in goals({}, [], {})} == {UNKNOWN}


def test_the_share_of_envoy_alone_is_judged() -> None:
    """By transport: 45 % is enough for the fast one."""
    assert found("asyncio: ≥ 35%").verdict == MET
    assert found("grpcio: ≥ 8%").verdict == UNKNOWN


def test_streams_are_judged_by_a_json_exchange_at_the_same_ease() -> None:
    """Saturated exchanges are cheaper by the one: paced are compared with paced."""
    paced = cell(load="json-16-paced", cpu_us_processor=50.0)

    assert found("1.5 x a JSON").verdict == UNKNOWN
    assert found("1.5 x a JSON", paced) == Goal(
        found("1.5 x a JSON").text, "1.80 x", MISSED
    )


def test_gaps_are_judged_by_the_spread_of_envoy_alone() -> None:
    """What is below Envoy's own worst round is not added time."""
    assert found("between chunks").verdict == MET


def test_litellm_is_judged_by_its_own_run() -> None:
    """CPU of the processor against that of the proxy, and added p99."""
    slow = [
        cell(LITELLM, JSON, cpu_us_proxy=8_500.0, latency_p99_ms=300.0),
        cell(LITELLM, SSE, cpu_us_proxy=90_000.0),
    ]

    assert found("asyncio: ≥ 50 x", *slow).found == "100.0 x"
    assert found("stream in `native`: ≥ 50 x", *slow).verdict == MET
    assert found("added p99", *slow).verdict == MET


@pytest.mark.parametrize(("over", "verdict"), [(0, MET), (1, MISSED)])
def test_one_token_too_many_is_missed(over: int, verdict: str) -> None:
    """There is no tolerance."""
    admission = Admission("ours", 4, 200, 1_000, 10, 100, 700, over, 0, [])
    judged = goals({}, [admission], {})

    assert [g.verdict for g in judged if "above capacity" in g.text] == [verdict]


def test_memory_and_start_are_judged() -> None:
    """In megabytes, which are less than mebibytes."""
    one = Spread(0.9, 0.9, 0.9)
    startup = Startup(one, one, Spread(110.0, 110.0, 110.0), one, one)
    small = replace(startup, rss_mib=Spread(119.0, 119.0, 119.0))

    def verdicts(each: Startup) -> list[str]:
        return [goal.verdict for goal in goals({}, [], {"ours": each})][-2:]

    assert verdicts(startup) == [MET, MET]
    assert verdicts(small) == [MISSED, MET]


def test_goals_are_a_table() -> None:
    """With a dash where nothing was found."""
    assert as_markdown([Goal("fast", "", UNKNOWN)]).splitlines()[-1] == (
        "| fast | - | not measured |"
    )


def test_the_cheapest_path_is_the_one_that_is_judged() -> None:
    """Redis calls are those of the native path, if there is one."""
    assert found("limits redis: ≤ 2").found == "2.00"
    assert OURS.startswith("Tokenweir, native")
