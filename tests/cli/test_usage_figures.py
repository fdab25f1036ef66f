from __future__ import annotations

import pytest

from tokenweir.cli.usage_figures import (
    Figures,
    Sort,
    Sums,
    cost_nanousd,
    counted,
    is_used,
    refused,
    report,
    sum_of,
    usage_of,
)


def figures(tokens: int = 0, cost: int = 0) -> Figures:
    """Return the figures of one exchange."""
    return {"exchanges": 1, "input_tokens": tokens, "cost_nanousd": cost}


SUMS: Sums = {
    ("a",): figures(10, 1),
    ("b",): figures(30, 1),
    ("c",): figures(20, 5),
    ("d",): figures(30),
}


@pytest.mark.parametrize(
    ("sort", "order"),
    [(None, "cbad"), (Sort.COST, "cbad"), (Sort.TOKENS, "bdca"), (Sort.NAME, "abcd")],
)
def test_order(sort: Sort | None, order: str) -> None:
    """The dearest come first, or who used most, or names; the other figure decides ties."""
    rows = report(["tenant"], SUMS, sort=sort).rows

    assert "".join(row.group[0] for row in rows) == order


def test_times_come_in_their_order() -> None:
    """What begins with a day or an hour is told by time, unless asked otherwise."""
    sums: Sums = {("2026-01-02",): figures(1, 9), ("2026-01-01",): figures(1, 1)}
    days = [row.group[0] for row in report(["day"], sums).rows]
    dearest = report(["day"], sums, sort=Sort.COST).rows[0]

    assert days == ["2026-01-01", "2026-01-02"]
    assert dearest.group == ("2026-01-02",)


def test_top() -> None:
    """Groups beyond the first are one sum; the total is of all."""
    found = report(["tenant"], SUMS, top=2)

    assert [row.group for row in found.rows] == [("c",), ("b",)]
    assert found.others == {"exchanges": 2, "input_tokens": 40, "cost_nanousd": 1}
    assert found.other_groups == 2
    assert found.total == {"exchanges": 4, "input_tokens": 90, "cost_nanousd": 7}


@pytest.mark.parametrize("top", [4, 5, None])
def test_no_others(top: int | None) -> None:
    """Where every group has a row there are no others."""
    found = report(["tenant"], SUMS, top=top)

    assert (found.others, found.other_groups, len(found.rows)) == (None, 0, 4)


def test_nothing() -> None:
    """A report of nothing has no rows and no figures."""
    found = report(["tenant"], {}, top=3)

    assert (found.rows, found.others, found.total) == ((), None, {})


def test_refusals() -> None:
    """Refusals are told by quota and by reason, most first, and are no matches."""
    found = {
        "refused_acme.requests_per_minute": 1,
        "refused_acme.tokens_per_minute": 2,
        "refused_gone": 0,
        "refused:unknown_key": 4,
        "shadow_acme.trial": 5,
        "matched_acme.tokens_per_minute": 8,
    }

    told = counted(found)
    assert list(told.refused_by.items()) == [
        ("acme.tokens_per_minute", 2),
        ("acme.requests_per_minute", 1),
    ]
    assert told.refused_for == {"unknown_key": 4}
    assert told.shadowed == {"acme.trial": 5}
    assert told.matched == {"acme.tokens_per_minute": 8}
    assert refused(found) == 7


def test_what_is_missing_is_zero() -> None:
    """Rollups leave out what is 0."""
    assert cost_nanousd({}) == 0
    assert usage_of({"output_tokens": 3}).total_tokens == 3
    assert refused({}) == 0
    assert sum_of([]) == {}


@pytest.mark.parametrize(
    ("figures", "used"),
    [
        ({}, False),
        ({"matched_acme.tokens_per_minute": 3}, False),
        ({"shadow_acme.trial": 3}, False),
        ({"exchanges": 1}, True),
        ({"refused:unknown_key": 1}, True),
    ],
)
def test_is_used(figures: Figures, used: bool) -> None:
    """A limit that applies to a call that still runs is nothing that was used."""
    assert is_used(figures) is used
