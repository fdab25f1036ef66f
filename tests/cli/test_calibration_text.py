"""What was learned, for people and for programs."""

from __future__ import annotations

from tokenweir.cli.calibration_text import document, table_text
from tokenweir.core.calibration import Learned, Place, Side
from tokenweir.ledger.calibration import Spot

PLACE = Place("acme", "vllm", "local-7b", "chat_completions")
KNOWN: dict[Spot, Learned] = {
    (PLACE, Side.INPUT): Learned(1_234, 40_000, 587_787, 500, 1_700_000_000_123),
    (PLACE, Side.OUTPUT): Learned(3, 40, 0, 5, 1_700_000_000_123),
}


def test_a_table() -> None:
    """Factors, samples, when; and which are not used yet."""
    head, first, second = table_text(KNOWN, bold=False).splitlines()

    assert head.split()[-3:] == ["factor", "samples", "learned"]
    assert first.split()[4:] == [
        "input",
        "1.800",
        "1,234",
        "2023-11-14",
        "22:13",
        "UTC",
    ]
    assert "3 (too few)" in second


def test_a_document() -> None:
    """Every figure has its name."""
    first, second = document(KNOWN)

    assert first == {
        "tenant": "acme",
        "provider": "vllm",
        "model": "local-7b",
        "route": "chat_completions",
        "side": "input",
        "factor": 1.8,
        "samples": 1_234,
        "weight_tokens": 40_000,
        "reach_tokens": 8_000,
        "is_used": True,
        "learned_at": "2023-11-14T22:13:20Z",
    }
    assert (second["is_used"], second["reach_tokens"]) == (False, 0)
