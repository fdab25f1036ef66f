from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tokenweir.cli.text_width import width
from tokenweir.cli.usage_bars import BLOCKS
from tokenweir.cli.usage_layout import Screen
from tokenweir.cli.usage_watch_text import (
    Terms,
    in_flight_text,
    json_line,
    line_text,
    screen_text,
    silent_json_line,
    silent_text,
)
from tokenweir.ledger.picture import Picture

AT_MS = 1_767_243_753_000  # 2026-01-01T05:02:33Z
SCREEN = Screen(80, bold=False, cuts_names=True, blocks=BLOCKS)
TERMS = Terms(("tenant", "model"), None, 2, 15)
MINUTE = {
    "exchanges": 2,
    "input_tokens": 300,
    "output_tokens": 12,
    "cost_nanousd": 10**7,
}
HOUR = {**MINUTE, "exchanges": 20, "refused_acme.tokens": 3, "matched_acme.tokens": 9}
PICTURE = Picture(
    at_ms=AT_MS,
    hour=AT_MS // 3_600_000,
    minute={("acme", "gpt-4o"): MINUTE},
    minute_is_whole=True,
    this_hour={
        ("acme", "gpt-4o"): HOUR,
        ("globex", "m"): {"exchanges": 1, "refused:unknown_key": 1},
        ("idle", "m"): {"matched_idle.tokens": 1},
    },
    flying={
        ("acme", "o3"): {
            "in_flight": 3,
            "reserved_tokens": 12_000,
            "reserved_nanousd": 80_000_000,
        }
    },
    flying_is_whole=True,
    reserved={"acme.tokens|tokens_per_minute|tenant=acme": 12_000},
)


def test_screen() -> None:
    """Who uses most now comes first; a total, and who refused, come last."""
    assert screen_text(PICTURE, TERMS, SCREEN).split("\n") == [
        "05:02:33 UTC  usage, every 2 s, Ctrl-C ends it",
        "in flight: 3, reserved: 12,000 tokens, 0.08 USD",
        "",
        "                             last minute            since 05:00",
        "tenant  model   now  calls  tokens   USD  tokens   USD  refused",
        "acme    gpt-4o    0      2     312  0.01     312  0.01        3",
        "acme    o3        3      0       0  0.00       0  0.00        0",
        "globex  m         0      0       0  0.00       0  0.00        1",
        "total             3      2     312  0.01     312  0.01        4",
        "",
        "refused most by: acme.tokens 3, unknown_key 1",
    ]


def test_nothing_yet() -> None:
    """Whoever watches before the first call reads how to make some; later it is gone."""
    nothing = replace(PICTURE, minute={}, flying={}, this_hour={})
    hint = "`tokenweir tour` makes some"

    assert hint in screen_text(nothing, TERMS, SCREEN)
    idle = replace(nothing, this_hour={("idle", "m"): {"matched_idle.tokens": 1}})
    assert hint in screen_text(idle, TERMS, SCREEN)
    for seen in (
        replace(nothing, flying=PICTURE.flying),
        replace(nothing, minute=PICTURE.minute),
        replace(nothing, this_hour={("acme", "m"): MINUTE}),
    ):
        assert hint not in screen_text(seen, TERMS, SCREEN)


def test_top() -> None:
    """Groups for which there is no line are one sum."""
    lines = screen_text(PICTURE, replace(TERMS, top=1), SCREEN).split("\n")

    assert lines[6].split() == ["2", "others", "3", "0", "0", "0.00", "0", "0.00", "1"]
    assert lines[7].split()[0] == "total"


def test_nothing_happens() -> None:
    """An idle ledger has a line of zeros, and what to do."""
    idle = replace(PICTURE, minute={}, this_hour={}, flying={}, reserved={})
    lines = screen_text(idle, TERMS, SCREEN).split("\n")

    assert lines[1] == "in flight: 0, reserved: 0 tokens, 0.00 USD"
    assert lines[5].split() == ["-", "0", "0", "0", "0.00", "0", "0.00", "0"]
    assert lines[6:] == [
        "",
        "Nothing in this hour yet: calls show here once they begin.",
        "`tokenweir tour` makes some, through a `tokenweir up` that runs here.",
    ]


def test_one_tenant() -> None:
    """It is told whose usage it is."""
    text = screen_text(PICTURE, replace(TERMS, tenant="acme\x1b"), SCREEN)

    assert text.startswith("05:02:33 UTC  usage of acme, every 2 s")


@pytest.mark.parametrize("columns", [80, 120])
def test_it_fits(columns: int) -> None:
    """Long names and large figures stay within the screen."""
    group = ("tenant" * 9, "model" * 9)
    large = {name: figure * 10**6 for name, figure in HOUR.items()}
    picture = replace(PICTURE, minute={group: large}, this_hour={group: large})
    text = screen_text(picture, TERMS, replace(SCREEN, columns=columns, bold=True))
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")

    assert max(map(width, plain.split("\n"))) <= columns


def test_what_is_missing_is_told() -> None:
    """Where more happened than was read, figures say so."""
    partly = replace(PICTURE, minute_is_whole=False, flying_is_whole=False)
    text = screen_text(partly, TERMS, SCREEN)

    assert "The last minute is not whole" in text
    assert "More is in flight" in text
    assert in_flight_text(partly).startswith("in flight: at least 3,")


def test_line() -> None:
    """In a pipe a picture is one line, of sums."""
    assert line_text(PICTURE) == (
        "05:02:33 UTC  in flight: 3, reserved: 12,000 tokens, 0.08 USD  "
        "last minute: 2 calls, 312 tokens, 0.01 USD  "
        "since 05:00: 21 calls, 312 tokens, 0.01 USD, 4 refused"
    )


def test_json() -> None:
    """JSON has every figure of the minute and the hour, and what is in flight."""
    line = json_line(PICTURE, TERMS)
    told = json.loads(line)

    assert "\n" not in line
    assert (told["at"], told["ledger"]) == ("2026-01-01T05:02:33Z", "ok")
    assert told["by"] == ["tenant", "model"]
    (row,) = told["minute"]["rows"]
    assert (row["tenant"], row["exchanges"], row["cost_usd"]) == ("acme", 2, "0.01")
    assert told["hour"]["from"] == "2026-01-01T05:00:00Z"
    assert told["hour"]["total"]["refused_by_quota"] == {"acme.tokens": 3}
    assert told["hour"]["total"]["refused_by_reason"] == {"unknown_key": 1}
    held = {"in_flight": 3, "reserved_tokens": 12_000, "reserved_nanousd": 80_000_000}
    assert told["in_flight"] == {
        "whole": True,
        "rows": [{"tenant": "acme", "model": "o3", **held}],
        "total": held,
        "reserved_by_limit": {"acme.tokens|tokens_per_minute|tenant=acme": 12_000},
    }


def test_silence() -> None:
    """A ledger that does not answer is told of, and since when."""
    assert silent_text(AT_MS + 4_000, AT_MS) == (
        "05:02:37 UTC  no answer from the ledger since 05:02:33 UTC: trying again"
    )
    assert json.loads(silent_json_line(AT_MS + 4_000, AT_MS)) == {
        "at": "2026-01-01T05:02:37Z",
        "ledger": "no answer",
        "since": "2026-01-01T05:02:33Z",
    }
