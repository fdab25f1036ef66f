from __future__ import annotations

import csv
import io
import json

from tokenweir.cli.usage_figures import Figures, Sums, report
from tokenweir.cli.usage_formats import CSV_COLUMNS, all_figures, csv_text, document
from tokenweir.cli.usage_span import Span

SPAN = Span(490_896, 490_899)
FIGURES: Figures = {
    "exchanges": 3,
    "requests": 4,
    "input_tokens": 1_000,
    "cached_input_tokens": 234,
    "output_tokens": 60,
    "reasoning_tokens": 6,
    "cost_nanousd": 250_000_075,
    "outcome_completed": 2,
    "outcome_cut": 1,
    "source_reported": 3,
    "tokens_counted": 300,
    "downgraded": 1,
    "saved_nanousd": 5,
    "refused_acme.tokens_per_minute": 2,
    "refused:unknown_key": 1,
    "shadow_acme.trial": 4,
    "matched_acme.tokens_per_minute": 5,
}
SUMS: Sums = {("acme", "m"): FIGURES, ("beta", "m"): {"exchanges": 1}}


def test_document() -> None:
    """A document says what it is about, then rows, others and the total."""
    found = document(report(("tenant", "model"), SUMS), SPAN, None)

    assert list(found) == ["from", "until", "by", "tenant", "rows", "others", "total"]
    assert (found["from"], found["until"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T04:00:00Z",
    )
    assert found["by"] == ["tenant", "model"]
    assert found["others"] is None
    assert json.loads(json.dumps(found)) == found


def test_every_figure_is_there() -> None:
    """Rows have every figure by its name in records, also what is 0."""
    found = document(report(("tenant", "model"), SUMS, top=1), SPAN, "acme")

    assert found["tenant"] == "acme"
    assert found["rows"] == [
        {
            "tenant": "acme",
            "model": "m",
            "exchanges": 3,
            "requests": 4,
            "input_tokens": 1_000,
            "cached_input_tokens": 234,
            "cache_write_tokens": 0,
            "cache_write_1h_tokens": 0,
            "audio_input_tokens": 0,
            "output_tokens": 60,
            "reasoning_tokens": 6,
            "audio_output_tokens": 0,
            "image_input_tokens": 0,
            "image_output_tokens": 0,
            "outcome_completed": 2,
            "outcome_cut": 1,
            "outcome_upstream_failed": 0,
            "outcome_drained": 0,
            "outcome_lost": 0,
            "source_reported": 3,
            "source_counted": 0,
            "source_estimated": 0,
            "tokens_counted": 300,
            "tokens_estimated": 0,
            "with_user": 0,
            "unpriced": 0,
            "downgraded": 1,
            "capped": 0,
            "cap_reached": 0,
            "total_input_tokens": 1_234,
            "total_output_tokens": 66,
            "total_tokens": 1_300,
            "tokens_reported": 1_000,
            "refused": 3,
            "refused_by_quota": {"acme.tokens_per_minute": 2},
            "refused_by_reason": {"unknown_key": 1},
            "shadowed_by_quota": {"acme.trial": 4},
            "matched_by_quota": {"acme.tokens_per_minute": 5},
            "cost_nanousd": 250_000_075,
            "cost_usd": "0.250000075",
            "saved_nanousd": 5,
            "saved_usd": "0.000000005",
            "cap_saved_nanousd": 0,
            "cap_saved_usd": "0.00",
        }
    ]


def test_what_is_newer() -> None:
    """A figure that a later version counts is passed on."""
    assert all_figures({"from_cache": 7})["from_cache"] == 7


def test_others() -> None:
    """What has no row of its own is summed, and it is told how many those are."""
    found = document(report(("tenant", "model"), SUMS, top=1), SPAN, None)

    assert isinstance(found["others"], dict)
    assert found["others"]["groups"] == 1
    assert found["others"]["exchanges"] == 1
    assert isinstance(found["total"], dict)
    assert found["total"]["exchanges"] == 4
    assert found["total"]["refused"] == 3


def test_csv() -> None:
    """CSV has a head and a line for each row; no name in it is a formula."""
    sums: Sums = {('=HYPERLINK("x")', "a,b"): FIGURES, ("-1", "é"): {}}
    text = csv_text(report(("tenant", "model"), sums))
    first, second = csv.DictReader(io.StringIO(text))

    assert text.startswith("tenant,model,exchanges,requests,input_tokens,")
    assert "\r\n" in text
    assert (first["tenant"], first["model"]) == ('\'=HYPERLINK("x")', "a,b")
    assert (first["cost_usd"], first["refused"], first["outcome_cut"]) == (
        "0.250000075",
        "3",
        "1",
    )
    assert (second["tenant"], second["model"], second["exchanges"]) == ("'-1", "é", "0")


def test_others_in_csv() -> None:
    """The sum of what has no row comes last, so that nothing is left out."""
    last = csv_text(report(("tenant", "model"), SUMS, top=1)).splitlines()[-1]

    assert last.startswith("others,,1,0,")


def test_csv_without_rows() -> None:
    """The head is there anyway."""
    assert csv_text(report(("tenant",), {})).splitlines() == [
        ",".join(["tenant", *CSV_COLUMNS])
    ]
