"""A processor that is told to end leaves nothing running, however far it came."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from tests.config.policies import ENV, SMALL, write
from tokenweir.config.load import load_policy
from tokenweir.governance.source import SourceSettings
from tokenweir.ledger.sweeper import Sweeper
from tokenweir.processor import processor as module
from tokenweir.processor.leaving import leave
from tokenweir.processor.processor import Processor
from tokenweir.processor.settings import ServeSettings
from tokenweir.telemetry import libraries
from tokenweir.transport.grpc_aio import GrpcAioServer

DRAIN_SECONDS = 25.0


def processor_in(folder: Path) -> Processor:
    """Return one whose ledger is away."""
    return Processor(
        ServeSettings(
            SourceSettings(write(folder, SMALL)),
            folder / "0.sock",
            f"unix://{folder}/no-ledger.sock",
            admin_port=0,
            drain_seconds=DRAIN_SECONDS,
        ),
        ENV,
    )


async def test_abandoned_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step of a start may be cut off: every task of the steps before ends."""
    reached = asyncio.Event()

    async def hang(_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(GrpcAioServer, "start", hang)
    # It would be for this whole process.
    monkeypatch.setattr(libraries, "capture", lambda _: None)
    before = asyncio.all_tasks()
    processor = processor_in(tmp_path)
    policy = load_policy(tmp_path / "policy.yaml", ENV)
    starting = asyncio.create_task(processor.start(policy))
    await reached.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    assert asyncio.all_tasks() > before
    await processor.stop()
    assert asyncio.all_tasks() == before


async def test_a_step_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A processor ends whatever hangs, and its log names that."""

    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Sweeper, "stop", hang)
    quickly = partial(leave, spare_seconds=0.05)
    monkeypatch.setattr(module, "leave", quickly)
    processor = processor_in(tmp_path)
    before = asyncio.all_tasks()
    await processor.stop()

    assert asyncio.all_tasks() == before
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["draining", "stop_hung", "stopped"]
    assert lines[1]["step"] == "sweeper"


async def test_how_long_leaving_takes(tmp_path: Path) -> None:
    """It is the drain and what docs/runbook.md says, whatever hangs."""
    processor = processor_in(tmp_path)

    assert processor.longest_stop_seconds < DRAIN_SECONDS + 22
