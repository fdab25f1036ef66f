"""What becomes of exchanges when the processor fails."""

import asyncio
import contextlib
import json
import signal
import sys
from typing import Any

import pytest

from tests.envoyconf.client import request
from tests.envoyconf.gateway import Gateway, Setup, gateway
from tests.envoyconf.processor import Answer, Call, forward, let_pass
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    chunk,
    event_stream,
)

POST = request(body=b'{"model": "m"}')
GOVERNOR_GONE = ("x-tokenweir-refusal", "governor_unavailable")


# === when the processor fails ===================================================


async def test_processor_gone() -> None:
    """Without a processor a request is refused at once, and works when it is back."""
    async with gateway(Setup(settings={"admission_timeout_ms": 60_000})) as gate:
        assert (await gate.ask(POST)).status == 200
        await gate.processor.stop()

        async with asyncio.timeout(20):
            refused = await gate.ask(POST)
        await gate.processor.start()
        again = await gate.ask(POST)

        assert refused.status == 503
        assert GOVERNOR_GONE in refused.headers
        assert refused.header("retry-after") == "1"
        assert json.loads(refused.body)["error"]["code"] == "governor_unavailable"
        assert again.status == 200
        assert len(gate.upstream.requests) == 2


async def test_processor_hangs() -> None:
    """A processor that gives no answer in time is refused for with 503, not 504."""
    async with gateway(Setup(settings={"admission_timeout_ms": 200})) as gate:
        never = asyncio.Event()

        async def admit(call: Call) -> Answer:
            await never.wait()
            return forward(call, "up")

        gate.processor.admit = admit
        answer = await gate.ask(POST)

        assert answer.status == 503
        assert GOVERNOR_GONE in answer.headers
        assert gate.upstream.requests == []


async def test_processor_raises(gate: Gateway) -> None:
    """A processor that breaks is refused for, and its words reach nobody's app."""

    async def admit(call: Call) -> Answer:
        del call
        raise RuntimeError("sk-CANARY")

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert answer.status == 503
    assert b"CANARY" not in answer.body
    assert "CANARY" not in json.dumps(gate.envoy.access_log(1))


async def test_processor_names_no_provider(gate: Gateway) -> None:
    """What was admitted to nowhere is never forwarded."""
    for cluster in ("", "unknown", "up,up"):
        gate.processor.cluster = cluster

        answer = await gate.ask(POST)

        assert answer.status == 503
        assert answer.header("x-tokenweir-refusal") == (
            "envoy_outdated" if cluster else "governor_unavailable"
        )
    assert gate.upstream.requests == []


async def test_response_side_hangs() -> None:
    """A response whose watcher hangs passes, unmetered, after the time-out."""
    async with gateway(Setup(settings={"response_timeout_ms": 200})) as gate:
        gate.upstream.play(*event_stream([b"data: 1\n\n", b"data: 2\n\n"], 0.02))
        never = asyncio.Event()

        async def watch(call: Call, message: Any) -> Answer:
            if message.WhichOneof("request") == "response_body":
                await never.wait()
            del call
            return let_pass(message)

        gate.processor.watch = watch
        answer = await gate.ask(POST)

        assert (answer.status, answer.whole) == (200, True)
        assert answer.body == b"data: 1\n\ndata: 2\n\n"


async def test_response_side_returns_early(gate: Gateway) -> None:
    """A watcher may leave at any message: the response goes on."""
    kinds = ("request_headers", "response_headers", "response_body")
    for kind in kinds:
        gate.upstream.play_next(*event_stream([b"data: 1\n\n", b"data: 2\n\n"], 0.02))

        async def watch(call: Call, message: Any, last: str = kind) -> Answer:
            del call
            return None if message.WhichOneof("request") == last else let_pass(message)

        gate.processor.watch = watch
        answer = await gate.ask(POST)

        assert (answer.status, answer.whole) == (200, True)
        assert answer.body == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
async def test_processor_dies_during_a_stream(sign: signal.Signals) -> None:
    """A processor that dies or freezes in a stream takes no byte of it along."""
    settings = {"response_timeout_ms": 300}
    async with gateway(Setup(settings=settings)) as gate:
        await gate.processor.stop()
        command = [sys.executable, "-m", "tests.envoyconf.processor"]
        process = await asyncio.create_subprocess_exec(
            *command,
            str(gate.processor.path),
            gate.processor.clusters["up"],
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"serving\n"
            gate_open = asyncio.Event()
            usage = b'data: {"choices": [], "usage": {"total_tokens": 9}}\n\n'
            first, second = event_stream([b"data: 1\n\n"])[:-1], [chunk(b"data: 2\n\n")]
            gate.upstream.play(
                *first, Hold(gate_open), *second, chunk(usage), LAST_CHUNK
            )
            async with await gate.connect() as app:
                app.send(POST)
                await app.reader.readuntil(b"data: 1\n\n\r\n")
                process.send_signal(sign)
                gate_open.set()
                rest = await app.reader.readuntil(LAST_CHUNK)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it is dead already
                process.kill()
            await process.wait()

        assert rest == chunk(b"data: 2\n\n") + LAST_CHUNK
