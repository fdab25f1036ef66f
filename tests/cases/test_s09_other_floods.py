"""S09, other floods: many short lines, the way through strip.lua, bombs, slow apps."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Connection, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.scripted_upstream import LAST_CHUNK, End, Step, chunk, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
MB = 1024 * 1024
# At the peak, of a processor that has seen floods before: less than the 64 MB that pass,
# and more than what may be under way to it at once: gRPC opens its windows to 16 MB, and
# what has come is there twice, in grpcio and in Python (34 MB were seen).
MAX_GROWTH_BYTES = 48 * MB
# Of Envoy, whose Lua filter has copies of what came in one piece, until its garbage is
# collected. What is on the way to the app is Envoy's own to bound.
MAX_ENVOY_GROWTH_BYTES = 64 * MB
# Of either, in all. The first floods fill what allocators and buffers keep from then on,
# some tens of MB; what a flood leaves behind, or needs all at once, is more.
MAX_BYTES = 256 * MB
WARMING_FLOODS = 3
# Every stream of these tests takes some seconds; a scan that is quadratic, minutes.
PATIENCE_SECONDS = 60.0
# A megabyte of tiny events, which Envoy may hand over at once, is a second's work; of a
# machine that others use that may take many.
PATIENT = {"response_timeout_ms": 60_000}


TINY_EVENTS = [b"data:x\n\n" * 8_192] * 352


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod that has served before, floods too."""
    async with Scene.open(options={"envoy_settings": PATIENT}) as scene:
        pids = (scene.pod.processors[0].process.pid, scene.pod.envoy.pid)
        memories = [Memory(pid) for pid in pids]
        for _ in range(WARMING_FLOODS):
            scene.upstream.play(*event_stream([*TINY_EVENTS, b"\n\n", *story(OPENAI)]))
            await scene.call(OPENAI.request(asked=False))
        assert max(memory.peak_bytes for memory in memories) < MAX_BYTES
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger."""
    return await opened.clear()


@dataclass
class Memory:
    """What a process has in memory at the most, from the making of this on."""

    pid: int
    before_bytes: int = 0

    def __post_init__(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # forget the peak
        self.before_bytes = self._read("VmRSS")

    @property
    def growth_bytes(self) -> int:
        """How much more it had than in the beginning, at the most."""
        return self.peak_bytes - self.before_bytes

    @property
    def peak_bytes(self) -> int:
        """What it had at the most."""
        return self._read("VmHWM")

    def _read(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024


async def passes(
    scene: Scene, api: Api, steps: Sequence[Step], sent: Sequence[bytes], *, asked: bool
) -> None:
    """Demand that an app gets what is *sent* by *steps*, and that memory stays."""
    scene.upstream.play(*steps)
    processes = [scene.pod.processors[0].process.pid, scene.pod.envoy.pid]
    memories = [Memory(pid) for pid in processes]
    got, expected = hashlib.sha256(), hashlib.sha256()
    for piece in sent:
        expected.update(piece)

    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Connection.open(scene.pod.port) as app,
    ):
        await app.send(request(api.request(asked=asked), path=api.path))
        assert (await app.head()).status == 200
        while piece := await app.chunk():
            got.update(piece)

    await scene.pod.settled(PATIENCE_SECONDS)
    assert got.digest() == expected.digest()
    processor, envoy = (memory.growth_bytes for memory in memories)
    assert processor < MAX_GROWTH_BYTES
    assert envoy < MAX_ENVOY_GROWTH_BYTES
    assert scene.pod.processors[0].process.poll() is None


LINES = 1_000_000
FLOODS: dict[str, list[bytes]] = {
    "empty lines": [b"\n" * 1_000] * (LINES // 1_000),
    "empty lines at once": [b"\n" * LINES],
    "CRLF": [b"\r\n" * 1_000] * (LINES // 1_000),
    "CR": [b"\r" * LINES],
    "a million lines of data": [b"data: x\n" * 1_000] * (LINES // 1_000),
    "a million lines without data": [b"data:\n" * LINES],
    "a million names": [b"event: x\n" * 1_000] * (LINES // 1_000),
    "a million comments": [b": x\n" * LINES],
    "10 MB in pieces of 1 KB": [b'data: {"x":"', *[b"a" * 1_024] * 10_240, b'"}'],
    "almost the cap": [b'data: {"x":"', *[b"a" * 65_536] * 15, b'"}'],
    "almost the cap, wide": [b'data: {"x":"', *["é".encode() * 32_768] * 15, b'"}'],
    "almost the cap, broken": [b'data: {"x":"', *[b"\xff" * 65_536] * 15, b'"}'],
    "often almost the cap": [b'data: {"x":"', *[b"a" * 65_536] * 15, b'"}\n\n'] * 16,
    "tiny events": TINY_EVENTS,
    "tiny events of no JSON": [b'data:{"a\n\n' * 6_553] * 64,
    "a name of 16 MB": [b"event: ", *[b"a" * 65_536] * 256],
    "a comment of 16 MB": [b": ", *[b"a" * 65_536] * 256],
    "brackets": [b"data: ", *[b"[" * 65_536] * 64],
    "quotes": [b"data: " + b'"usage":' * 8_000] * 64,
    "usage": [b'data: {"usage"' + b" " * 16_000 + b"\n\n"] * 200,
}


@pytest.mark.parametrize(
    ("api", "asked"),
    [(OPENAI, False), (ANTHROPIC, True)],
    ids=["openai-unasked", "anthropic"],
)
@pytest.mark.parametrize("name", FLOODS)
async def test_s09_a_flood_before_the_answer(
    scene: Scene, api: Api, name: str, asked: bool
) -> None:
    """
    Whatever comes in masses is dropped for accounting and passed on; what follows is
    read, and charged as reported.

    KarpelesLab/teamclaude#341, NousResearch/hermes-agent#58471,
    theopenco/llmgateway#2981: an 8 MB event was searched again for each piece.
    """
    pieces = [*FLOODS[name], b"\n\n", *story(api)]
    hidden = api.report() if api.asks_usage and not asked else b""
    sent = [piece for piece in pieces if piece != hidden]

    await passes(scene, api, event_stream(pieces), sent, asked=asked)

    assert await scene.charges() == [CHARGED]


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
@pytest.mark.parametrize("start", [b"", b"data: ", b'data: {"choices":[{"delta":"'])
async def test_s09_a_line_that_never_ends(
    scene: Scene, api: Api, start: bytes, asked: bool
) -> None:
    """
    64 MB without a line's end pass, and are estimated, since nothing was reported.

    KarpelesLab/teamclaude#341, NousResearch/hermes-agent#58471
    """
    pieces = [start + b"a", *[b"a" * 65_536] * 1_024]

    await passes(scene, api, event_stream(pieces), pieces, asked=asked)

    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert output > 0


@both_apis
async def test_s09_an_app_that_leaves_an_endless_stream(scene: Scene, api: Api) -> None:
    """
    Who leaves a stream without an end owes for it, and it ends for the provider, too.

    NousResearch/hermes-agent#58471
    """
    script: list[Step] = [STREAM_HEAD, *[chunk(b"a" * 65_536)] * 4_096, End.STALL]
    scene.upstream.play(*script)
    memory = Memory(scene.pod.processors[0].process.pid)
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(api.request(), path=api.path))
        await app.head()
        for _ in range(100):
            await app.chunk()
        app.reset()
    await scene.upstream.wait_for_hang_ups(1)

    await scene.pod.settled()
    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert output > 0
    assert memory.growth_bytes < MAX_GROWTH_BYTES


async def test_s09_an_app_that_does_not_read(scene: Scene) -> None:
    """
    What a slow app has not read yet waits at the provider, not in the pod.

    NousResearch/hermes-agent#58471
    """
    scene.upstream.play(STREAM_HEAD, *[chunk(b"a" * 65_536)] * 2_048, LAST_CHUNK)
    pids = [scene.pod.processors[0].process.pid, scene.pod.envoy.pid]
    memories = [Memory(pid) for pid in pids]
    with socket.create_connection(("127.0.0.1", scene.pod.port)) as app:
        app.sendall(request(OPENAI.request()))
        await scene.upstream.wait_for_requests(1)
        await asyncio.sleep(2.0)
        growth = [memory.growth_bytes for memory in memories]

    assert max(growth) < MAX_GROWTH_BYTES, growth
    await scene.pod.settled()


BOMBS: dict[str, bytes] = {
    "64 MB of a letter": gzip.compress(b"a" * 64 * MB),
    "64 MB of lines": gzip.compress(b"\n" * 64 * MB),
    "64 MB of an event": gzip.compress(b"data: " + b"a" * 64 * MB),
    "64 MB of JSON": gzip.compress(b'{"a":"' + b"a" * 64 * MB + b'"}'),
    "64 MB of brackets": gzip.compress(b"[" * 64 * MB),
    "many small ones": gzip.compress(b"a") * 100_000,
}

# What they hold is a stream all right, in which nothing is said.
SAY_NOTHING = ("64 MB of lines", "many small ones")


@pytest.mark.parametrize("name", BOMBS)
async def test_s09_a_bomb(scene: Scene, name: str) -> None:
    """
    What is small and becomes large is decoded in pieces, and no further than its bound.

    KarpelesLab/teamclaude#341
    """
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    scene.upstream.play(reply(BOMBS[name], headers=headers))
    memory = Memory(scene.pod.processors[0].process.pid)

    answer = await scene.call(OPENAI.request())

    assert answer.body == BOMBS[name]
    await scene.pod.settled()
    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert (output > 0) is (name not in SAY_NOTHING)
    assert memory.growth_bytes < MAX_GROWTH_BYTES
