"""`tokenweir uninject` takes out what was put in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.inject.golden_pods import FOLDER, GOLDEN
from tokenweir.cli.main import main


@pytest.mark.parametrize("name", ["every-option", "old-cluster", "cron-job"])
def test_there_and_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it was made with, the manifest is the one before."""
    assert main(["uninject", str(FOLDER / f"{name}.yaml")]) == 0
    out, err = capsys.readouterr()

    assert yaml.safe_load(out) == GOLDEN[name].document
    assert err.endswith(": uninjected\n")


def test_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That is said, and is fine."""
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump(GOLDEN["deployment"].document))

    assert main(["uninject", str(file)]) == 0
    out, err = capsys.readouterr()
    assert yaml.safe_load(out) == GOLDEN["deployment"].document
    assert err == "deployment/web in shop: skipped: nothing is to be done\n"


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the caller's mistake."""
    assert main(["uninject", str(tmp_path / "none.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err
