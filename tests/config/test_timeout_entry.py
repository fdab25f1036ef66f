"""How long Envoy waits, as policies say it."""

from __future__ import annotations

from tokenweir.config.timeout_entry import TimeoutEntry


def test_durations() -> None:
    """They may have a unit, or are seconds; nothing said is no limit in all."""
    entry = TimeoutEntry.model_validate({"total": "10m", "idle": 30})

    assert (entry.total, entry.idle) == (600_000, 30_000)
    assert (TimeoutEntry().total, TimeoutEntry().idle) == (0, 300_000)
