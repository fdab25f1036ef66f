"""A processor that is told to end leaves nothing running, however far it came."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.config.policies import ENV, SMALL, write
from tokenweir.config.load import load_policy
from tokenweir.governance.source import SourceSettings
from tokenweir.processor.processor import Processor
from tokenweir.processor.settings import ServeSettings
from tokenweir.telemetry import libraries
from tokenweir.transport.grpc_aio import GrpcAioServer


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
    path = write(tmp_path, SMALL)
    before = asyncio.all_tasks()
    processor = Processor(
        ServeSettings(
            SourceSettings(path),
            tmp_path / "0.sock",
            f"unix://{tmp_path}/no-ledger.sock",
            admin_port=0,
        ),
        ENV,
    )
    starting = asyncio.create_task(processor.start(load_policy(path, ENV)))
    await reached.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    assert asyncio.all_tasks() > before
    await processor.abandon()
    assert asyncio.all_tasks() == before
