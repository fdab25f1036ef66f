"""The whole tool, a minute's run: it fails on broken figures, never on slow ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.gateway.children import ROOT, environment

# It takes half a minute on a machine that does nothing else.
PATIENCE_SECONDS = 400


def test_a_short_run_has_sound_figures(tmp_path: Path) -> None:
    """Nothing fails, all usage is settled, nothing is over-admitted, all is told."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.gateway", "--smoke", "--out", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert run.returncode == 0, run.stderr + run.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["wrong"] == []
    assert {"Envoy alone", "Envoy + no-op ext_proc, grpcio"} < set(result["summary"])
    assert [each["over"] for each in result["admission"]] == [0] * len(
        result["admission"]
    )
    assert all(each["admitted"] for each in result["admission"])
    assert {"machine", "versions", "commit", "command"} < set(result)
    assert "| Envoy alone |" in (tmp_path / "result.md").read_text()
    assert (tmp_path / "result.svg").read_text().startswith("<svg")
