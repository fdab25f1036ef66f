"""S09: a stream without line ends costs a bounded amount of memory, and no byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD
from tests.cases.scene import STREAM_HEAD, Scene
from tests.scripted_upstream import LAST_CHUNK, chunk

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MIB = 1024 * 1024
PIECE = b"x" * (64 * 1024)
GROWTH_MIB = 32
REPORT = OPENAI.report(TOLD) + OPENAI.end()
STREAMS = {
    # Nothing of it is an event before the end, nor fits into memory to wait for one.
    "an endless line": [b"data: ", *[PIECE] * 512, b"\n\n", REPORT],
    "a long event in many lines": [*[b"data: " + b"y" * 1000 + b"\n"] * 20_000, b"\n"],
    "empty lines": [b"\n" * 65_536] * 16,
    "a long event in small pieces": [b"data: ", *[b"z" * 1024] * 10_240, b"\n\n"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(quotas=[{"concurrency": 5}]) as opened:
        yield opened


def resident_mib(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024


@pytest.mark.parametrize("name", STREAMS)
async def test_s09_memory_is_bounded(scene: Scene, name: str) -> None:
    """
    Every byte arrives, the usage behind it is found where it can be, and neither
    process keeps the stream.

    KarpelesLab/teamclaude#341, NousResearch/hermes-agent#58471,
    theopenco/llmgateway#2981
    """
    pieces = STREAMS[name]
    whole = b"".join([*pieces, REPORT])
    pids = [scene.pod.processors[0].process.pid, scene.pod.envoy.pid]
    for _ in range(2):  # the first call warms up what is kept for good
        await scene.clear()
        before = [resident_mib(pid) for pid in pids]
        scene.upstream.play(STREAM_HEAD, *map(chunk, pieces), chunk(REPORT), LAST_CHUNK)
        answer = await scene.call(OPENAI.request())
        await scene.pod.settled()
    grown = [resident_mib(pid) - old for pid, old in zip(pids, before, strict=True)]

    assert answer.body == whole
    assert max(grown) < GROWTH_MIB
    await scene.ledger_shows((TOLD.input, TOLD.output))
