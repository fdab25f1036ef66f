"""A pod whose ledger is a Cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from tests.cases.apis import OPENAI, Told
from tests.cases.scene import Scene
from tests.fleet import cluster_fleet
from tests.scripted_upstream import reply
from tokenweir.cli.main import main

pytestmark = pytest.mark.e2e


async def test_an_exchange_is_settled_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The processor is ready, charges a call, and `tokenweir usage` finds it."""
    with contextlib.ExitStack() as stack:
        # Of one node, so that a stranger sees all keys there.
        fleet = await asyncio.to_thread(
            stack.enter_context, cluster_fleet(tmp_path, count=1)
        )
        options = {"server": fleet.nodes[0].server, "ledger_url": fleet.url}
        async with Scene.open(options=options) as scene:
            scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 7))))
            answer = await scene.call(OPENAI.request(stream=False), path=OPENAI.path)
            assert answer.status == 200
            await scene.pod.settled()
            assert await scene.pod.ledger.total() == (11, 7)
            (processor,) = scene.pod.processors
            assert "ready" in processor.admin("/readyz")

            command = ["usage", "--ledger", fleet.url, "--json"]
            assert await asyncio.to_thread(main, command) == 0
            told = json.dumps(json.loads(capsys.readouterr().out))
            assert '"output_tokens": 7' in told
