"""What makes figures worthless."""

from __future__ import annotations

from dataclasses import replace

from bench.gateway.checks import broken, in_the_way, unsettled, wrong
from tests.bench.gateway.cells import JSON, OURS, SSE, cell


def test_a_slow_cell_is_sound() -> None:
    """Bad figures are figures."""
    assert wrong(cell(per_second=0.1, latency_p99_ms=60_000.0)) == []


def test_refusals_and_cut_answers_are_wrong() -> None:
    """With how many there were."""
    assert wrong(cell(failed={"503": 2, "broken": 1})) == ["2 x 503", "1 x broken"]


def test_no_answer_at_all_is_wrong() -> None:
    """Whatever the figures say."""
    assert wrong(replace(cell(), requests=0)) == ["no request was answered"]


def test_a_figure_that_is_missing_is_wrong() -> None:
    """Streams need those of chunks, too."""
    lacking = replace(cell(load=SSE), figures={"per_second": 1.0})

    assert "no cpu_us_pod" in wrong(lacking)
    assert "no gap_p99_ms" in wrong(lacking)


def test_less_than_nothing_is_wrong() -> None:
    """Such as CPU of a process that was another one before."""
    assert wrong(cell(cpu_us_envoy=-1.0)) == ["cpu_us_envoy is -1.0"]


def test_a_cell_that_was_not_measured_is_missing() -> None:
    """And the others are named with what is wrong with them."""
    lines = broken([cell(failed={"500": 1})], [(OURS, JSON), (OURS, SSE)])

    assert lines == [f"missing: {OURS} under {SSE}", f"{OURS} under {JSON}: 1 x 500"]


def test_a_busy_provider_is_told() -> None:
    """Figures may be its own then."""
    lines = in_the_way([cell(busy_upstream=0.95, busy_client=0.2)])

    assert lines == [f"{OURS} under {JSON}: upstream was busy 95 % of the time"]


def test_usage_is_settled_to_the_token() -> None:
    """Neither less nor more exchanges and tokens than were answered."""
    sound = {"exchanges": 3, "input_tokens": 3_000, "output_tokens": 300}

    assert unsettled("ours", 3, sound) == []
    assert unsettled("ours", 3, sound | {"output_tokens": 299}) == [
        "ours: settled output_tokens 299, due 300"
    ]
    assert len(unsettled("ours", 4, {})) == 3
