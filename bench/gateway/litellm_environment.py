"""LiteLLM, in a virtual environment of its own, made when somebody asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.gateway.children import ROOT

# It is measured, not shipped: nothing of ours imports it.
REQUIREMENT = "litellm[proxy]==1.108.7"
HOME = ROOT / "build" / "litellm"


def installed() -> Path | None:
    """Return its Python; None if the environment has not been made."""
    python = HOME / "bin" / "python"
    return python if (HOME / "complete").exists() else None


def make() -> Path:
    """Return its Python; make the environment first. Raises: CalledProcessError."""
    python = HOME / "bin" / "python"
    if installed() is None:
        print(f"Installing {REQUIREMENT} into {HOME}, once.", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", HOME)
        _run(python, "-m", "pip", "install", "--quiet", REQUIREMENT)
        (HOME / "complete").touch()
    return python


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
