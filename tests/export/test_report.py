"""What an exporter tells: once, and without what records say."""

from __future__ import annotations

import pytest

from tests.export.ledgers import Told
from tokenweir.export.lag import Lag
from tokenweir.export.record import BadEntry


def test_away_and_back() -> None:
    """An outage is one line, however often it is noticed, and its end another."""
    told = Told()
    told.report.well()
    for _ in range(3):
        told.report.away("ledger", "TimeoutError", 0.5)
    told.report.away("sink", "Connection refused", 30)
    told.report.well()
    told.report.well()

    assert told.events() == ["export_waiting", "export_waiting", "export_resumed"]
    assert told.metric("failures_total", where="ledger") == 3
    assert told.lines()[1]["reason"] == "Connection refused"
    assert told.lines()[1]["level"] == "warning"


def test_begin_and_end() -> None:
    """Where to, under which names, and whether anything was left in hand."""
    told = Told()
    told.report.started("jsonl:/x", "g", "c")
    told.report.stopped(drained=False)
    first, last = told.lines()

    assert (first["sink"], first["group"], first["consumer"]) == ("jsonl:/x", "g", "c")
    assert (last["drained"], last["level"]) == (False, "warning")


def test_dead_letters_do_not_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are counted; of many, a few are told, and how many were left out."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    told = Told()
    bad = [BadEntry("t", f"{number}-0", "it lacks hold", {}) for number in range(50)]
    told.report.dead_letters(bad, 0)
    now[0] = 60.0
    told.report.dead_letters([], 2)

    assert told.metric("dead_letters_total") == 52
    lines = told.lines()
    assert len(lines) == 21
    assert lines[-1]["left_out"] == 30
    assert lines[-1]["count"] == 2
    assert lines[0]["entry"] == "0-0"


def test_expired() -> None:
    """Records that are lost are an error; none is nothing to tell."""
    told = Told()
    told.report.expired(0)
    told.report.expired(3)

    assert [line["count"] for line in told.lines()] == [3]
    assert told.metric("expired_total") == 3


def test_lag() -> None:
    """How far behind the exporter is, and 0 if it is not."""
    told = Told()
    told.report.lag(Lag(5, 2, 1_000, 90_000))
    assert told.metric("behind_entries") == 5
    assert told.metric("oldest_seconds") == 90
    told.report.lag(Lag())
    assert told.metric("oldest_seconds") == 0
