"""What is told of findings: on a real server in test_ledger.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.spenders import DAY, DAY_MS, HOUR_MS, NOON_MS, budget
from tokenweir.cli.ledger_text import (
    rebuild_document,
    rebuild_text,
    verify_document,
    verify_text,
)
from tokenweir.core.charges import Account
from tokenweir.core.finding import Counter, Finding, Verdict
from tokenweir.core.policy import Axis
from tokenweir.core.reckoning import Doubt
from tokenweir.core.window import Window
from tokenweir.ledger.audit import Audit
from tokenweir.ledger.rebuild import Step, plan

TODAY_MS = NOON_MS - 12 * HOUR_MS
TODAY = Window(TODAY_MS, TODAY_MS + DAY_MS)
USD = 1_000_000_000
FINDING = Finding(
    Account("tw:001", "acme.day|budget_usd|tenant=acme"),
    TODAY,
    Verdict.TOO_LOW,
    Counter(TODAY.end_ms, 1 * USD, 2 * USD),
    3 * USD,
    3 * USD,
    DAY,
    "tenant=acme",
    sources=frozenset({"sums", "export"}),
)
TOKENS = replace(
    FINDING,
    account=Account("tw:001", "acme.hour|budget_tokens|tenant=acme"),
    verdict=Verdict.UNKNOWN,
    counter=Counter(TODAY.end_ms, 1_500, 1_500),
    low=1_000,
    high=2_000,
    quota=budget("acme.hour", Axis.BUDGET_TOKENS),
    doubts=frozenset({Doubt.HOUR}),
)


def text(*findings: Finding, everything: bool = False) -> str:
    """What is told of them."""
    audit = Audit(NOON_MS, findings, 4, 30, 7)
    return verify_text(audit, everything=everything, bold=False)


def test_a_table_a_summary_and_notes() -> None:
    """Money and tokens by their own units, ranges as such, doubts with their reason."""
    assert text(FINDING, TOKENS) == (
        "budget     whose        window from (UTC)            says      should say  "
        "by            verdict\n"
        "acme.day   tenant=acme  2026-01-01 00:00   $1.00 to $2.00           $3.00  "
        "export, sums  too low by $1.00\n"
        "acme.hour  tenant=acme  2026-01-01 00:00            1,500  1,000 to 2,000  "
        "export, sums  can't tell\n"
        "\n"
        "2 counters at 2026-01-01T12:00:00Z: 1 too low, 1 can't tell\n"
        "evidence: 23 records in the ledger, 7 exported ones, 4 hourly sums\n"
        "\n"
        "can't tell: only an hour's sum is known, and the window begins or ends within "
        "it"
    )


def test_what_agrees_is_left_out_unless_asked_for() -> None:
    """The summary counts it in any case."""
    sound = replace(FINDING, verdict=Verdict.AGREES)

    assert "acme.day" not in text(sound)
    assert "1 counter at 2026-01-01T12:00:00Z: 1 agree\n" in text(sound)
    assert "acme.day" in text(sound, everything=True)
    assert "0 counters at 2026-01-01T12:00:00Z: nothing spent\n" in text()


@pytest.mark.parametrize(
    ("finding", "told"),
    [
        (
            replace(
                FINDING,
                verdict=Verdict.HOLDS_DIFFER,
                counter=Counter(TODAY.end_ms, 0, 0, USD, USD // 2),
            ),
            "reserved $1.00, but holds have $0.50",
        ),
        (
            replace(
                FINDING,
                verdict=Verdict.TOO_HIGH,
                counter=Counter(TODAY.end_ms, 5 * USD, 5 * USD),
            ),
            "too high by $2.00",
        ),
        (replace(TOKENS, doubts=frozenset()), "can't tell: it is in use; look again"),
        (replace(FINDING, verdict=Verdict.GONE, quota=None), "left alone"),
        (
            replace(FINDING, elsewhere=USD),
            "acme.day, tenant=acme: $1.00 was spent under other policies",
        ),
    ],
)
def test_other_verdicts(finding: Finding, told: str) -> None:
    """Each says what it means."""
    assert told in text(finding)


def test_what_was_done() -> None:
    """Or was not, and why."""
    (step,) = plan([FINDING], allow_decrease=False)
    steps = [step, replace(step, done=True), replace(step, done=False)]
    lines = rebuild_text(steps, bold=False).splitlines()

    assert [line.split("  ")[-1] for line in lines] == [
        *("done", "no", "yes", "set back meanwhile")
    ]
    assert all(line.split()[4:6] == ["$2.00", "$3.00"] for line in lines[1:])


def test_documents() -> None:
    """Whole numbers, in the unit that is named."""
    audit = Audit(NOON_MS, (FINDING, TOKENS), 4, 30, 7)
    document: dict[str, Any] = dict(verify_document(audit))
    (step,) = plan(audit.findings, allow_decrease=False)
    rebuilt: dict[str, Any] = dict(
        rebuild_document(
            audit, [step, Step(FINDING, step.amendment, True)], applied=True
        )
    )

    assert (document["at"], document["agrees"]) == ("2026-01-01T12:00:00Z", False)
    assert document["verdicts"] == {"too low": 1, "can't tell": 1}
    assert document["evidence"] == {"records": 23, "exported": 7, "sums": 4}
    first, second = document["findings"]
    assert first == {
        "limit": "acme.day|budget_usd|tenant=acme",
        "budget": "acme.day",
        "partition": "tenant=acme",
        "unit": "nanousd",
        "window": {"from": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"},
        "verdict": "too low",
        "counter": {
            "spent": {"least": USD, "most": 2 * USD},
            "reserved": 0,
            "held": 0,
        },
        "reckoned": {"least": 3 * USD, "most": 3 * USD},
        "difference": USD,
        "other_policies": 0,
        "sources": ["export", "sums"],
        "doubts": [],
    }
    assert (second["unit"], second["doubts"]) == ("tokens", [Doubt.HOUR])
    assert rebuilt["applied"] is True
    assert [each["done"] for each in rebuilt["steps"]] == [None, True]
    assert rebuilt["steps"][0]["becomes"] == 3 * USD
