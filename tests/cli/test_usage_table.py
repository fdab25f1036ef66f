from __future__ import annotations

from dataclasses import replace

import pytest

from tokenweir.cli.text_width import width
from tokenweir.cli.usage_bars import BLOCKS
from tokenweir.cli.usage_figures import Figures, Sums, report
from tokenweir.cli.usage_layout import Screen
from tokenweir.cli.usage_table import (
    abridged,
    money,
    name_shown,
    report_text,
    told_digits,
)

SCREEN = Screen(80, bold=False, cuts_names=True, blocks=BLOCKS)


def figures(calls: int = 1, tokens: int = 0, cost: int = 0, **more: int) -> Figures:
    """Return figures of calls that were all completed and reported."""
    return {
        "exchanges": calls,
        "input_tokens": tokens,
        "output_tokens": tokens // 2,
        "cost_nanousd": cost,
        "source_reported": calls,
        "outcome_completed": calls,
        **more,
    }


def told(
    sums: Sums,
    *by: str,
    screen: Screen = SCREEN,
    top: int | None = None,
    classes: bool = False,
) -> list[str]:
    """Return the lines of a report."""
    text = report_text(report(by, sums, top=top), "then", screen, classes=classes)
    return text.splitlines()


def test_the_main_table() -> None:
    """The dearest comes first, with its share of the cost; a total ends it."""
    sums: Sums = {
        ("acme", "gpt-4o-mini"): figures(2, 2_468, 750_000_000),
        ("beta", ""): figures(1, 1_234, 250_000_000),
    }

    assert told(sums, "tenant", "model") == [
        "Used from then",
        "",
        "tenant  model        calls  input  output  cost USD  share",
        "acme    gpt-4o-mini      2  2,468   1,234      0.75   75% ████████████████▌",
        "beta    -                1  1,234     617      0.25   25% █████▌",
        "total                    3  3,702   1,851      1.00",
        "",
        "Figures of calls: 3 reported by the provider (5,553 tokens).",
    ]


def test_one_group_needs_no_total() -> None:
    """What would be said twice is said once."""
    lines = told({("acme",): figures(cost=1_000_000_000)}, "tenant")

    assert not any(line.startswith("total") for line in lines)


def test_others() -> None:
    """Groups beyond the first are one line; their share is told, the total is of all."""
    sums: Sums = {
        (name,): figures(1, 10, cost)
        for name, cost in zip("abc", (5, 3, 2), strict=True)
    }
    lines = told(sums, "tenant", top=1)

    assert lines[3].split()[:2] == ["a", "1"]
    assert lines[4].split()[:3] == ["2", "others", "2"]
    assert " 50% " in lines[4]
    assert lines[5].split()[:2] == ["total", "3"]


def test_shares_of_tokens() -> None:
    """If nothing cost anything, shares are of tokens, and it is said what 0.00 means."""
    lines = told({("a",): figures(1, 30), ("b",): figures(1, 10)}, "model")

    assert " 75% " in lines[3]
    assert any("are free or have no price" in line for line in lines)


def test_classes() -> None:
    """Each class that was used has a column, and their total."""
    sums: Sums = {("a",): figures(1, 30, 7, reasoning_tokens=5, cached_input_tokens=2)}
    head, row = told(sums, "model", classes=True)[2:4]

    assert head.split()[1:9] == [
        "calls",
        "input",
        "cached",
        "output",
        "reasoning",
        "total",
        "cost",
        "USD",
    ]
    assert row.split()[1:7] == ["1", "30", "2", "15", "5", "52"]


def test_cached_is_told_where_it_was() -> None:
    """The cached part of the input has a column only if there is one."""
    with_cached = told({("a",): figures(1, 30, 7, cached_input_tokens=2)}, "model")
    without = told({("a",): figures(1, 30, 7)}, "model")

    assert with_cached[3].split()[1:5] == ["1", "32", "2", "15"]
    assert "cached" not in without[2]


def test_out_of_the_ordinary() -> None:
    """Who was refused, cut or lost has a line of its own, those alone; with a total."""
    sums: Sums = {
        ("a",): figures(3, 1, 9, outcome_cut=2, outcome_lost=1),
        ("b",): figures(1, 1, 8),
        ("c",): figures(1, 1, 7, outcome_upstream_failed=1, unpriced=1),
        ("d",): {"refused_d.requests": 4},
    }
    lines = told(sums, "tenant")
    start = lines.index("tenant  refused  cut  failed  lost  unpriced")

    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["a", "0", "2", "0", "1", "0"],
        ["c", "0", "0", "1", "0", "1"],
        ["d", "4", "0", "0", "0", "0"],
        ["total", "4", "2", "1", "1", "1"],
    ]


def test_refusals_by_limit() -> None:
    """Each limit tells what it refused, and of how many; other reasons follow."""
    sums: Sums = {
        ("a",): {"refused_a.tokens": 2, "matched_a.tokens": 1_208, "refused_a.gone": 1},
        ("b",): {"refused:unknown_key": 9, "refused_a.tokens": 1},
    }
    lines = told(sums, "tenant")
    start = lines.index("refused by   refused     of")

    assert lines[start + 1 :] == [
        "a.tokens           3  1,208",
        "a.gone             1",
        "unknown_key        9",
    ]


def test_shadow_mode() -> None:
    """What a quota in shadow mode would have refused is told apart."""
    sums: Sums = {
        ("a",): figures(9, shadow_trial=4, matched_trial=9, refused_real=1),
    }
    lines = told(sums, "tenant")
    start = lines.index("refused by  refused  would have  of")

    assert lines[start + 1 : start + 3] == [
        "real              1           0",
        "trial             0           4   9",
    ]


def test_savings() -> None:
    """Downgrades saved so much; caps at most so much, and it says so."""
    sums: Sums = {
        ("a",): figures(
            9,
            1,
            1_000_000_000,
            downgraded=3,
            saved_nanousd=1_250_000_000,
            capped=5,
            cap_reached=2,
            cap_saved_nanousd=500_000_000,
        )
    }
    text = " ".join(told(sums, "tenant"))

    assert "3 went to a cheaper model" in text
    assert "would have cost 1.25 USD more" in text
    assert "Answers with a cap of the policy: 5; cut off by it: 2. That" in text
    assert "saved at most 0.50 USD" in text


def test_calls_that_still_run() -> None:
    """A group whose first call has not ended has no line yet."""
    sums: Sums = {("a",): figures(1, 1, 1), ("b",): {"matched_b.tokens": 1}}

    assert not any(line.startswith("b") for line in told(sums, "tenant"))


def test_one_out_of_the_ordinary() -> None:
    """The total of one line would say the same again."""
    sums: Sums = {("a",): figures(outcome_cut=1), ("b",): figures()}
    lines = told(sums, "tenant")

    assert lines[lines.index("tenant  cut") + 1 :][:2] == ["a         1", ""]


def test_sources() -> None:
    """It is told how many figures are not the providers' own."""
    more = {"source_counted": 2, "tokens_counted": 40, "source_estimated": 1}
    sums: Sums = {("a",): figures(9, 100, 1, **more, tokens_estimated=10)}
    text = " ".join(told(sums, "tenant")[-2:])

    assert text == (
        "Figures of calls: 9 reported by the provider (100 tokens), 2 counted from what "
        "passed (40 tokens), 1 estimated (10 tokens)."
    )


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_it_fits(columns: int) -> None:
    """With three long names and large figures no line is wider than the screen."""
    sums: Sums = {
        (f"tenant-{n}" * 4, f"key-{n}" * 5, f"model-{n}" * 3): figures(
            10**6 + n, 10**10, 10**14, outcome_cut=1, **{"refused:unknown_key": 3}
        )
        for n in range(3)
    }
    lines = told(
        sums, "tenant", "key", "model", screen=replace(SCREEN, columns=columns)
    )

    assert max(map(width, lines)) <= columns


def test_in_a_pipe_figures_are_whole() -> None:
    """Only a screen that is too narrow abridges tokens."""
    sums: Sums = {("a-long-name" * 4, "k", "m"): figures(1, 1_234_567, 1)}
    piped = told(
        sums, "tenant", "key", "model", screen=replace(SCREEN, cuts_names=False)
    )
    shown = told(sums, "tenant", "key", "model", screen=replace(SCREEN, columns=50))

    assert "1,234,567" in piped[3]
    assert "1.23M" in shown[3]


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (-5, "-5"),
        (100_000, "100k"),
        (1_234_567, "1.23M"),
        (12_345_678, "12.3M"),
        (1_234_567_890, "1.23B"),
        (-2_000_000, "-2.00M"),
    ],
)
def test_abridged(figure: int, text: str) -> None:
    """Large figures are told to three digits."""
    assert abridged(figure) == text


@pytest.mark.parametrize(
    ("costs", "digits"),
    [
        ([], 2),
        ([0], 2),
        ([5_000_000_000], 2),
        ([250_000_000, 0], 2),
        ([1_234_567, 9_000_000_000], 4),
        ([33_075], 6),
        ([80_000_000], 2),
        ([80_000_000, 5_001_000_000], 3),
        ([1], 9),
    ],
)
def test_told_digits(costs: list[int], digits: int) -> None:
    """The smallest cost is told to two digits, and cents always."""
    assert told_digits(costs) == digits


def test_money() -> None:
    """Amounts are rounded half up, with separators."""
    assert money(1_234_565_000_000, 2) == "1,234.57"
    assert money(33_075, 6) == "0.000033"


def test_names() -> None:
    """Hours are told shortly; what has no name is told as such."""
    assert name_shown("2026-11-30T04:00:00Z", "hour") == "2026-11-30 04:00"
    assert name_shown("", "key") == "-"
    assert name_shown("acme", "tenant") == "acme"
