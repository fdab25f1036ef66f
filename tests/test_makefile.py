"""The Makefile: what is misspelt is told, not ignored."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def dry_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what `make up` with *arguments* would run."""
    # Without what an outer make, such as that of CI, was called with.
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}
    return subprocess.run(
        ["make", "--dry-run", "up", *arguments],
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_options_reach_the_command() -> None:
    """Each variable is an option of `tokenweir up`; others are left to it."""
    run = dry_run("POLICY=my policy.yaml", "PORT=4100", "LEDGER=env:URL")

    assert run.returncode == 0
    assert run.stdout.splitlines()[-1].split(" up ", 1)[1].split() == [
        *("--policy", '"my', 'policy.yaml"'),
        *("--port", '"4100"'),
        *("--ledger", '"env:URL"'),
    ]


@pytest.mark.parametrize("name", ["policy", "POLCY", "LOGDIR"])
def test_misspelt_variables_are_told(name: str) -> None:
    """Who meant a policy of their own does not get the demo's without a word."""
    run = dry_run(f"{name}=my.yaml")

    assert run.returncode != 0
    assert f"Unknown here: {name}. Known: POLICY PORT" in run.stderr
