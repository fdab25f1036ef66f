"""What is told of sums: on a real server in test_ledger.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tokenweir.cli.rollups_text import rollups_document, rollups_text
from tokenweir.core.rollups import RollupFinding, RollupVerdict
from tokenweir.ledger.rollups import RollupAudit

HOUR = 494_000
GROUP = ("acme", "ci", "gpt-4o", "openai", "chat_completions")
RIGHT = {
    "exchanges": 3,
    "requests": 3,
    "input_tokens": 1_500,
    "output_tokens": 500,
    "cost_nanousd": 30_000_000,
}
WRONG = {**RIGHT, "exchanges": 2, "input_tokens": 1_000, "cost_nanousd": 20_000_000}
FINDING = RollupFinding(HOUR, GROUP, None, RollupVerdict.DIFFERS, WRONG, RIGHT)
OF_A_USER = replace(FINDING, hour=HOUR + 1, user="u1", says={}, should=RIGHT)


def audit(*differing: RollupFinding, left: int = 0) -> RollupAudit:
    """What was found."""
    verdicts = {
        RollupVerdict.UNPROVEN: 7,
        RollupVerdict.AGREES: 1_200,
        RollupVerdict.DIFFERS: len(differing),
    }
    return RollupAudit(0, HOUR - 168, verdicts, differing, differing[:left])


def test_a_table_and_a_summary() -> None:
    """By hour and tenant; those of users only where they alone differ."""
    of_its_user = replace(FINDING, user="u1")
    other = replace(FINDING, group=(*GROUP[:2], "other", *GROUP[3:]))

    assert rollups_text(audit(FINDING, of_its_user, other, OF_A_USER), bold=False) == (
        "hour (UTC)        tenant  exchanges  should be  tokens  should be   cost  "
        "should be  differs in\n"
        "2026-05-10 08:00  acme            4          6   3,000      4,000  $0.04  "
        "    $0.06  cost_nanousd, exchanges, input_tokens\n"
        "2026-05-10 09:00  acme            0          3       0      2,000  $0.00  "
        "    $0.03  cost_nanousd, exchanges, input_tokens and 2 more\n"
        "\n"
        "1,211 sums by the hour since 2026-05-03T08:00:00Z: 1,200 agree, 4 differ, "
        "7 tell of more than records do"
    )


def test_nothing_to_tell() -> None:
    """It is said of how many sums, and what changed all the time."""
    assert rollups_text(RollupAudit(0, HOUR), bold=False) == (
        "0 sums by the hour since 2026-05-10T08:00:00Z: none"
    )
    one = RollupAudit(0, HOUR, {RollupVerdict.AGREES: 1})
    assert rollups_text(one, bold=False).startswith("1 sum by the hour since")
    assert "1 changed again and again" in rollups_text(
        audit(FINDING, left=1), bold=True
    )


def test_a_document() -> None:
    """Every sum that differs, in whole numbers."""
    document: dict[str, Any] = dict(rollups_document(audit(FINDING, OF_A_USER, left=1)))

    assert document["since"] == "2026-05-03T08:00:00Z"
    assert document["verdicts"] == {
        "agrees": 1_200,
        "differs": 2,
        "records are gone": 7,
    }
    assert document["left"] == 1
    first, second = document["differing"]
    assert first == {
        "hour": "2026-05-10T08:00:00Z",
        "tenant": "acme",
        "key": "ci",
        "model": "gpt-4o",
        "provider": "openai",
        "route": "chat_completions",
        "user": None,
        "says": WRONG,
        "should": RIGHT,
    }
    assert (second["user"], second["says"]) == ("u1", {})
