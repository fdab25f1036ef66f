"""The whole tour: through a real stack, and without one that is ready."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stack.running import RunningStack
from tests.stack.tour.trips import GROUND, Listener
from tokenweir.stack.tour import guide
from tokenweir.stack.tour.client import NoAnswerError

PATIENCE_SECONDS = 240.0
NAMES = [
    "ask",
    "stream",
    "limit",
    "refusal",
    "wait",
    "success",
    "hang_up",
    "ledger",
]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    """The demo, started."""
    running = RunningStack(tmp_path)
    try:
        running.wait_until_started()
        yield running
    finally:
        running.kill()


def tour(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `tokenweir tour` where the stack keeps its files in *folder*."""
    return subprocess.run(
        [sys.executable, "-m", "tokenweir", "tour", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(folder),
        },
    )


@pytest.mark.e2e
async def test_all_is_as_promised(stack: RunningStack, tmp_path: Path) -> None:
    """
    Through a real Envoy and a real ledger every stop does what it says: nothing
    differs and nothing is left out; a refusal is waited for as it says; a stream that
    was left is charged as far as it came; and the records add up.
    """
    # By its URL: another stack of this user may run on the machine.
    done = await asyncio.to_thread(
        tour, tmp_path, "--json", "--url", f"http://127.0.0.1:{stack.port}"
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)

    assert [each["differences"] for each in told["steps"]] == [[]] * len(NAMES)
    assert [each["step"] for each in told["steps"]] == NAMES
    assert {each["state"] for each in told["steps"]} == {"ok"}
    assert (done.returncode, done.stderr) == (0, "")
    assert told["as_promised"] is told["mock"] is True
    steps = {each["step"]: each for each in told["steps"]}
    assert (steps["limit"]["status"], steps["success"]["status"]) == (429, 200)
    assert steps["refusal"]["retry_after_ms"] <= 1_000 * steps["wait"]["waited_seconds"]
    assert (steps["hang_up"]["outcome"], steps["hang_up"]["source"]) == (
        "cut",
        "counted",
    )
    assert "unknown_key" not in stack.output()


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (
            {"checks": {"ledger": "no answer yet", "policy": "ok"}},
            "ledger: no answer yet",
        ),
        ({}, "503"),
    ],
)
async def test_who_is_not_ready_is_not_toured(
    told: Mapping[str, object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is said at once, and no call is made."""

    async def health(_: str) -> tuple[int, Mapping[str, object]]:
        return 503, told

    monkeypatch.setattr(guide, "health", health)
    listener = Listener()

    with pytest.raises(NoAnswerError, match=rf"is not ready \({text}\)"):
        await guide.lead(replace(GROUND, admin="http://127.0.0.1:1"), listener)
    assert listener.begun == []
