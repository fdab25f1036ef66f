"""E14: however and whenever Envoy ends a stream, what it held is accounted for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, story
from tests.cases.scene import Scene
from tests.extproc.envoy_messages import (
    parsed,
    request_body,
    request_headers,
    response_body,
    response_headers,
)
from tests.pod import KEY, PATIENCE_SECONDS, until
from tokenweir.extproc.service import SERVICE
from tokenweir.extproc.session import ADMISSION, RESPONSE, ROLE_HEADER

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [{"tokens_per_minute": 600_000_000}, {"concurrency": 10_000}]
HEAD = request_headers(
    (
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        ("authorization", f"Bearer {KEY}"),
        ("content-type", "application/json"),
    )
)
BODY = request_body(OPENAI.request(max_tokens=100))
REQUEST = [HEAD, BODY]
STREAM = (("content-type", "text/event-stream"),)
PIECES = story(OPENAI)
ANSWER = [response_headers(200, STREAM), *map(response_body, PIECES)]
ANSWER.append(response_body(b"", ended=True))
# Of each kind, and how many at once: of all kinds as many as the case asks for.
RESETS, AT_ONCE = 180, 20
# The ledger's deadline: patient, as a busy machine is late by itself now and then.
PATIENT = ["--ledger-timeout-ms", "1000"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod whose processor can tell how many tasks it has."""
    options = {"program": "tests.cases.counted_processor", "arguments": PATIENT}
    async with Scene.relayed(quotas=QUOTAS, options=options) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def peer(scene: Scene) -> AsyncIterator[Peer]:
    """Give the module what speaks to the processor as Envoy does."""
    path = scene.pod.processors[0].socket
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        yield Peer(channel, random.Random(14))


@dataclass
class Peer:
    """Plays sequences of messages, and breaks them off."""

    channel: grpc.aio.Channel
    dice: random.Random

    def open(self, role: str) -> Any:
        """Open a stream as Envoy's filter for *role* does."""
        call = self.channel.stream_stream(f"/{SERVICE}/Process")
        return call(metadata=((ROLE_HEADER, role),))

    async def play(self, call: Any, messages: list[bytes]) -> Any:
        """
        Play *messages*, each once the one before was answered; return the last answer.

        Whoever has heard enough ends the stream before the last message.
        """
        answer: Any = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            for message in messages:
                try:
                    await call.write(message)
                except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                    break  # or ends it while the message is on its way
                heard = await call.read()
                if heard is grpc.aio.EOF:
                    break
                answer = heard
        assert answer
        return parsed(answer)

    async def admitted(self) -> str:
        """Return the ticket of a request that was admitted."""
        call = self.open(ADMISSION)
        answer = await self.play(call, REQUEST)
        await ended(call)
        ours = answer.dynamic_metadata.fields["tokenweir"].struct_value
        ticket: str = ours.fields["ticket"].string_value
        return ticket

    async def broken_off(self, role: str, messages: list[bytes]) -> None:
        """Play some of the *messages*, and then leave in some way, at some moment."""
        call = self.open(role)
        count = self.dice.randint(0, len(messages))
        playing = asyncio.create_task(self._some(call, messages[:count]))
        await asyncio.sleep(self.dice.choice([0, 0.001, 0.003, 0.01, 0.03]))
        if self.dice.random() < 0.2:
            await ended(call)
            await asyncio.sleep(self.dice.choice([0, 0.005]))
        call.cancel()
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)

    async def _some(self, call: Any, messages: list[bytes]) -> None:
        for message in messages:
            await call.write(message)
            if self.dice.random() < 0.9:  # else the next comes before the answer
                await call.read()


async def ended(call: Any) -> None:
    """End our side of the stream, if the other is still there: a half-close."""
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await call.done_writing()


async def over(call: Any) -> None:
    """Demand that the other side ends the stream too, and has no fault to tell."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        # What we sent as the stream ended fails in grpcio, which then knows no other
        # end: it raises that at whoever reads, or has it for a status.
        with contextlib.suppress(grpc.aio.AioRpcError):
            assert await call.read() is grpc.aio.EOF
        code = await call.code()
        told = str(await call.debug_error_string())
    assert code is grpc.StatusCode.OK or "execute_batch" in told


async def tasks_of(scene: Scene) -> int:
    """Return how many tasks the processor has."""
    processor = scene.pod.processors[0]
    told = processor.count("tasks")
    os.kill(processor.process.pid, signal.SIGUSR1)
    await until(lambda: processor.count("tasks") > told)
    lines = [line for line in processor.lines() if line.get("event") == "tasks"]
    count: int = lines[-1]["count"]
    return count


def files_of(scene: Scene) -> int:
    """Return how many files the processor has open."""
    pid = scene.pod.processors[0].process.pid
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def all_is_over(scene: Scene, tasks: int) -> None:
    """Demand that nothing is held, in the ledger or in the processor."""
    processor = scene.pod.processors[0]
    # Who left between the two streams is noticed after three seconds.
    await scene.pod.settled()
    await until(lambda: processor.metric("tokenweir_holds_outstanding") == 0)
    await until(lambda: processor.metric("tokenweir_spool_settles") == 0)
    assert processor.count("fault") == 0

    async def no_task_is_left() -> bool:
        return await tasks_of(scene) <= tasks

    await until(no_task_is_left)


async def in_batches(scene: Scene, peer: Peer, role: str, count: int) -> None:
    """Break off *count* streams, many at once."""
    for _ in range(count // AT_ONCE):
        if role == ADMISSION:
            asked = [REQUEST] * AT_ONCE
        else:
            tickets = await asyncio.gather(*(peer.admitted() for _ in range(AT_ONCE)))
            asked = [
                [request_headers((), ticket=ticket), *ANSWER] for ticket in tickets
            ]
        await asyncio.gather(*(peer.broken_off(role, each) for each in asked))


async def warmed_up(scene: Scene, peer: Peer, role: str) -> int:
    """Make a fresh start; return how many tasks there are when nothing goes on."""
    await scene.clear()
    await in_batches(scene, peer, role, AT_ONCE)
    await scene.pod.settled()
    await asyncio.sleep(0.3)
    tasks = await tasks_of(scene)
    await scene.clear()
    return tasks


@pytest.mark.parametrize("delay_seconds", [0.0, 0.02], ids=["at once", "late"])
async def test_e14_resets_of_requests(
    scene: Scene, peer: Peer, delay_seconds: float
) -> None:
    """
    Of streams that are reset anywhere in their request, also while the ledger is asked,
    nothing stays reserved, nobody is charged, and no task is left.

    envoyproxy/envoy#38195, envoyproxy/envoy#22727, envoyproxy/envoy#25277,
    grpc/grpc#22874, grpc/grpc#36193, grpc/grpc#29248
    """
    assert scene.relay is not None
    tasks = await warmed_up(scene, peer, ADMISSION)
    files = files_of(scene)
    scene.relay.delay_seconds = delay_seconds
    try:
        await in_batches(scene, peer, ADMISSION, RESETS)
        await scene.pod.settled()
    finally:
        scene.relay.delay_seconds = 0.0

    await all_is_over(scene, tasks)
    assert await scene.charges() == []
    assert files_of(scene) <= files + 40  # connections to the ledger, at most


async def test_e14_resets_of_answers(scene: Scene, peer: Peer) -> None:
    """
    Streams that are reset anywhere in their answer are charged once each, for their
    input at least, and leave no task.

    envoyproxy/envoy#38195, envoyproxy/envoy#22727, grpc/grpc#36193
    """
    tasks = await warmed_up(scene, peer, RESPONSE)

    await in_batches(scene, peer, RESPONSE, RESETS)

    await all_is_over(scene, tasks)
    charges = await scene.charges()
    # Who was gone before its first message was read is as one who never came.
    assert RESETS // 10 < len(charges) <= RESETS
    assert all(11 <= input_tokens <= 12 for input_tokens, _ in charges)
    assert len((await scene.pod.ledger.snapshot()).records) == len(charges)


@pytest.mark.parametrize("messages", range(len(REQUEST) + 1))
async def test_e14_a_half_close_of_a_request(
    scene: Scene, peer: Peer, messages: int
) -> None:
    """
    Envoy ends its side after any number of messages: that is the end, and no fault.

    envoyproxy/envoy#47458
    """
    await scene.clear()
    call = peer.open(ADMISSION)
    if messages:
        await peer.play(call, REQUEST[:messages])
    await ended(call)

    await over(call)
    await scene.pod.settled()
    assert scene.pod.processors[0].count("fault") == 0
    assert await scene.charges() == []


@pytest.mark.parametrize("messages", range(len(ANSWER) + 1))
async def test_e14_a_half_close_of_an_answer(
    scene: Scene, peer: Peer, messages: int
) -> None:
    """
    Whenever the end comes, what passed is charged at once, and once.

    envoyproxy/envoy#38195, envoyproxy/envoy#47458
    """
    await scene.clear()
    ticket = await peer.admitted()
    call = peer.open(RESPONSE)
    await peer.play(call, [request_headers((), ticket=ticket), *ANSWER[:messages]])
    await ended(call)

    await over(call)
    await scene.pod.settled()
    assert scene.pod.processors[0].count("fault") == 0
    [(input_tokens, output_tokens)] = await scene.charges()
    assert 11 <= input_tokens <= 12
    assert output_tokens <= 10  # the nine words, as our counter has them


async def test_e14_one_ticket_twice(scene: Scene, peer: Peer) -> None:
    """
    Two response streams with one ticket are one exchange: charged once.

    envoyproxy/envoy#38195: settling has to be idempotent.
    """
    await scene.clear()
    ticket = await peer.admitted()
    messages = [request_headers((), ticket=ticket), *ANSWER]
    first, second = peer.open(RESPONSE), peer.open(RESPONSE)

    await asyncio.gather(peer.play(first, messages), peer.play(second, messages))
    await scene.pod.settled()

    assert await scene.charges() == [(11, 7)]
    assert len((await scene.pod.ledger.snapshot()).records) == 1
