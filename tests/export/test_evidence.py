"""Exported records as evidence, wherever they are."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.export.postgres_server import PostgresServer
from tests.export.rows import MIDNIGHT_MS, row
from tokenweir.core.usage_record import Exchange
from tokenweir.export.evidence import exported, exported_figures
from tokenweir.export.jsonl import JsonlSink
from tokenweir.export.postgres import PostgresSink
from tokenweir.export.record import Row
from tokenweir.export.sink import UnreadableExportError


def told(rows: Sequence[Row]) -> list[tuple[str, str, tuple[int, int]]]:
    """What there is to know of *rows*."""
    return [(each.hold, str(each.fields["tenant"]), each.entry) for each in rows]


def known(exchanges: Sequence[Exchange]) -> list[tuple[str, str, tuple[int, int]]]:
    """Ditto, as it was read."""
    assert {each.source for each in exchanges} == {"export"}
    return [(each.hold_id, each.spender.tenant, each.entry) for each in exchanges]


@pytest.mark.parametrize("form", ["{}", "jsonl:{}", "{}/usage-2026-01-01.jsonl"])
def test_files(tmp_path: Path, form: str) -> None:
    """A folder, as an exporter is told it too, or a file."""
    rows = [row("0-1-a"), row("0-1-b", f"{MIDNIGHT_MS}-1")]
    sink = JsonlSink(tmp_path)
    sink.open()
    sink.write(rows, [])
    sink.close()

    assert known(list(exported(form.format(tmp_path)))) == told(rows)


def test_figures(tmp_path: Path) -> None:
    """What each adds to sums is read with it."""
    rows = [row("0-1-a"), row("0-1-b", f"{MIDNIGHT_MS}-1", outcome="lost")]
    sink = JsonlSink(tmp_path)
    sink.open()
    sink.write(rows, [])
    sink.close()
    found = list(exported_figures(str(tmp_path)))

    assert known([each.exchange for each in found]) == told(rows)
    assert [each.figures["cost_nanousd"] for each in found] == [250_000_075] * 2
    assert [each.figures.get("outcome_lost", 0) for each in found] == [0, 1]


def test_a_database(postgres: PostgresServer) -> None:
    """Rows of its table."""
    rows = [row("0-1-a"), row("0-1-b", f"{MIDNIGHT_MS}-1")]
    sink = PostgresSink(postgres.url, "evidence")
    sink.open()
    sink.write(rows, [])
    sink.close()

    assert known(list(exported(postgres.url, "evidence"))) == told(rows)
    figures = exported_figures(postgres.url, "evidence")
    assert [each.figures["output_tokens"] for each in figures] == [20, 20]


@pytest.mark.parametrize("change", [{"tenant": None}, {"cost_nanousd": "much"}])
def test_what_is_no_record(tmp_path: Path, change: Mapping[str, Any]) -> None:
    """It is told, and nothing is guessed."""
    document = {**row().as_dict(), **change}
    for name in [name for name, value in change.items() if value is None]:
        del document[name]
    path = tmp_path / "usage-2026-01-01.jsonl"
    path.write_text(json.dumps(document) + "\n")

    with pytest.raises(UnreadableExportError, match="the export: "):
        list(exported(str(tmp_path)))


def test_no_such_place(tmp_path: Path) -> None:
    """Nothing is not "no records"."""
    with pytest.raises(UnreadableExportError, match="nowhere"):
        list(exported(str(tmp_path / "nowhere")))


def test_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told how to install it."""
    there = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "tokenweir.export.postgres":
            raise ImportError
        return there(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UnreadableExportError, match=r"pip install.*postgres"):
        list(exported("postgresql://localhost/usage"))
