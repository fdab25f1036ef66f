"""Whoever reads an answer, the same is charged; and on the native path nobody need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest

from tests.pod import KEY, Pod, policy, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Hold,
    ScriptedUpstream,
    Step,
    chunk,
    head,
    reply,
)
from tests.wire import (
    DONE,
    FINISH,
    MESSAGE_DELTA,
    REPLY,
    START,
    STOP,
    TEXT,
    USAGE_EVENT,
    delta,
)

pytestmark = pytest.mark.e2e

STREAM = (("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
PATHS = ("native", "observe", "inspect")
QUOTAS = [{"tokens_per_minute": 6_000_000}, {"concurrency": 50}]
AUTHORIZED = {"authorization": f"Bearer {KEY}"}
# Soon: a test must see entries of answers that go on.
ENVOY = {"progress_interval_ms": 200}
# Those of the reaper, after which a hold is seen as lost.
REAPED_SECONDS = 60.0
CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Say hello."}],
}
STREAMED = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
UNASKED = CHAT | {"stream": True}
CLAUDE = CHAT | {"model": "claude-sonnet-5", "stream": True}
WORDS = [delta(word) for word in ("Once", " upon", " a", " time")]


def told(path: str, port: int) -> dict[str, Any]:
    """Return a policy of which all answers take *path*."""
    return policy(port, quotas=QUOTAS, responses={"path": path})


def streamed(*pieces: bytes, end: Step = LAST_CHUNK) -> list[Step]:
    """Return a stream of *pieces*."""
    return [head(headers=STREAM), *map(chunk, pieces), end]


async def ask(
    pod: Pod, body: dict[str, Any], path: str = "/chat/completions"
) -> httpx.Response:
    """Return the whole answer to *body*."""
    async with httpx.AsyncClient(base_url=pod.url, headers=AUTHORIZED) as client:
        return await client.post(path, json=body, timeout=30.0)


async def begin(
    pod: Pod, body: dict[str, Any], until_seen: bytes
) -> asyncio.StreamWriter:
    """Ask for *body*, and return the connection once *until_seen* has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pod.port)
    data = json.dumps(body).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: tokenweir",
        f"authorization: Bearer {KEY}",
        "content-type: application/json",
        f"content-length: {len(data)}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    received = b""
    while until_seen not in received:
        piece = await reader.read(65536)
        assert piece, received
        received += piece
    return writer


async def recorded(pod: Pod, count: int) -> bool:
    """Tell if so many exchanges have their records."""
    return len(await pod.ledger.records()) >= count


async def newest(pod: Pod, count: int) -> dict[str, str]:
    """Return the last record, once there are *count*, and nothing is held."""
    await until(partial(recorded, pod, count))
    await pod.settled()
    records = await pod.ledger.records()
    assert len(records) == count
    return dict(records[-1])


FIGURES = ("input_tokens", "output_tokens", "source", "outcome", "status", "requests")


def figures(record: dict[str, str]) -> dict[str, str]:
    """Return what must be the same whoever reads."""
    return {name: record[name] for name in (*FIGURES, "answered_by", "cost_nanousd")}


async def play_whole(pod: Pod, upstream: ScriptedUpstream) -> None:
    """Let answers come whole, and demand that they reach the app as they should."""
    upstream.play(reply(REPLY))
    assert (await ask(pod, CHAT)).content == REPLY
    await newest(pod, 1)
    upstream.play(*streamed(*WORDS, FINISH, USAGE_EVENT, DONE))
    assert b'"usage"' in (await ask(pod, STREAMED)).content
    await newest(pod, 2)
    whole = await ask(pod, UNASKED)
    assert whole.content == b"".join((*WORDS, FINISH, DONE))
    assert whole.headers["x-ratelimit-limit-tokens"] == "6000000"
    await newest(pod, 3)
    upstream.play(*streamed(START, TEXT, MESSAGE_DELTA, STOP))
    claude = await ask(pod, CLAUDE, "/messages")
    assert claude.headers["anthropic-ratelimit-tokens-limit"] == "6000000"
    await newest(pod, 4)
    limits = (("x-ratelimit-remaining-tokens", "7"), ("content-type", "x/y"))
    upstream.play(reply(b"{}", "400 Bad Request", limits))
    refused = await ask(pod, CHAT)
    assert refused.headers["x-upstream-ratelimit-remaining-tokens"] == "7"
    assert refused.headers["x-ratelimit-remaining-tokens"] != "7"
    await newest(pod, 5)


async def play_broken(pod: Pod, upstream: ScriptedUpstream) -> None:
    """Let answers break off, by the provider and by the app."""
    for number, end in enumerate((End.RESET, End.CLOSE), 6):  # in the middle
        gate = asyncio.Event()
        upstream.play(*streamed(*WORDS, end=Hold(gate)), end)
        app = await begin(pod, UNASKED, WORDS[-1])
        gate.set()
        await newest(pod, number)
        app.close()
    upstream.play(End.CLOSE)  # before any answer
    assert (await ask(pod, CHAT)).status_code == 503
    await newest(pod, 8)
    upstream.play(*streamed(*WORDS, end=End.STALL))
    app = await begin(pod, UNASKED, WORDS[-1])
    app.close()
    await newest(pod, 9)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """Yield a provider."""
    async with ScriptedUpstream() as upstream:
        yield upstream


async def test_the_same_is_charged(upstream: ScriptedUpstream) -> None:
    """
    JSON, streams, refusals, answers that break off at either side: each is settled alike
    on all paths, and the record tells which it took.
    """
    by_path = {}
    for path in PATHS:
        async with Pod.start(told(path, upstream.port), envoy_settings=ENVOY) as pod:
            await play_whole(pod, upstream)
            await play_broken(pod, upstream)
            records = [dict(record) for record in await pod.ledger.records()]
        assert {record["path"] for record in records} == {path}
        by_path[path] = [figures(record) for record in records]

    assert by_path["native"] == by_path["inspect"]
    assert by_path["observe"] == by_path["inspect"]


async def test_before_any_answer(upstream: ScriptedUpstream) -> None:
    """Who leaves before the provider has answered owes the input; none else is held."""
    async with Pod.start(told("native", upstream.port), envoy_settings=ENVOY) as pod:
        upstream.play(End.STALL)
        asked = len(upstream.requests)
        app = await begin(pod, CHAT, b"")
        await upstream.wait_for_requests(asked + 1)
        app.close()
        record = await newest(pod, 1)

        assert record["outcome"] == "cut"
        assert int(record["input_tokens"]) > 0
        assert record["output_tokens"] == "0"
        models = await get_models(pod, upstream)
        assert models.status_code == 200
        assert (await newest(pod, 2))["outcome"] == "completed"
        assert pod.processors[0].count("fault") == 0


async def get_models(pod: Pod, upstream: ScriptedUpstream) -> httpx.Response:
    """Return an answer that nobody reads."""
    upstream.play(reply(b'{"data": []}'))
    async with httpx.AsyncClient(base_url=pod.url, headers=AUTHORIZED) as client:
        return await client.get("/models")


async def test_a_processor_that_is_killed(upstream: ScriptedUpstream) -> None:
    """
    Killed in the middle of an answer and back before its end, it settles that exactly: it
    needs to remember nothing.
    """
    async with Pod.start(told("native", upstream.port), envoy_settings=ENVOY) as pod:
        gate = asyncio.Event()
        upstream.play(*gated(gate, *WORDS, FINISH, USAGE_EVENT, DONE))
        asked = asyncio.create_task(ask(pod, UNASKED))
        await until(partial(was_extended, pod))
        pod.processors[0].kill()
        await asyncio.to_thread(pod.processors[0].restart)
        await until(partial(was_extended, pod, after_restart=True))
        gate.set()
        answer = await asked
        record = await newest(pod, 1)

    assert answer.content == b"".join((*WORDS, FINISH, DONE))
    assert (record["outcome"], record["source"]) == ("completed", "reported")
    assert (record["input_tokens"], record["output_tokens"]) == ("11", "7")


def gated(gate: asyncio.Event, *pieces: bytes) -> list[Step]:
    """Return a stream that waits for *gate* behind its first piece."""
    first, *others = map(chunk, pieces)
    return [head(headers=STREAM), first, Hold(gate), *others, LAST_CHUNK]


async def was_extended(pod: Pod, *, after_restart: bool = False) -> bool:
    """Tell if the processor that runs now has kept a hold alive."""
    try:
        metrics = await asyncio.to_thread(pod.processors[0].admin, "/metrics")
    except OSError:
        return False
    del after_restart  # a process that has been restarted counts from nothing
    name = 'tokenweir_ledger_call_seconds_count{verb="extend"}'
    return any(
        line.startswith(name) and float(line.rpartition(" ")[2]) > 0
        for line in metrics.splitlines()
    )


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_processor_that_leaves(
    upstream: ScriptedUpstream, *, in_time: bool
) -> None:
    """
    It waits for the answers that it let begin; what is not over by its deadline is charged
    for what has passed, and goes on.
    """
    async with Pod.start(
        told("native", upstream.port), envoy_settings=ENVOY, drain_seconds=3
    ) as pod:
        gate = asyncio.Event()
        upstream.play(*gated(gate, *WORDS, FINISH, USAGE_EVENT, DONE))
        asked = asyncio.create_task(ask(pod, UNASKED))
        await until(partial(was_extended, pod))
        pod.processors[0].terminate()
        await until(lambda: pod.processors[0].count("draining") == 1)
        if in_time:
            gate.set()
        code = await asyncio.to_thread(pod.processors[0].process.wait, 30.0)
        gate.set()
        answer = await asked
        record = await newest(pod, 1)

    assert code == 0
    assert answer.content == b"".join((*WORDS, FINISH, DONE))
    outcome = "completed" if in_time else "drained"
    assert record["outcome"] == outcome
    assert record["output_tokens"] == ("7" if in_time else "1")


async def test_entries_that_are_lost(upstream: ScriptedUpstream) -> None:
    """
    An end that nobody was there to be told of, and an Envoy that is killed: the reaper
    charges both, at most as reserved, and nothing stays held.
    """
    options: dict[str, Any] = {
        "envoy_settings": ENVOY,
        "program": "tests.cases.short_holds",
    }
    async with Pod.start(told("native", upstream.port), **options) as pod:
        gates = [asyncio.Event(), asyncio.Event()]
        asked: list[asyncio.Task[httpx.Response]] = []
        for number, gate in enumerate(gates):
            upstream.play_next(*gated(gate, *WORDS, FINISH, USAGE_EVENT, DONE))
            asked.append(asyncio.create_task(ask(pod, UNASKED)))
            await until(partial(holds, pod, number + 1))
        pod.processors[0].kill()
        gates[0].set()
        await asked[0]  # nobody hears of its end
        await asyncio.to_thread(pod.processors[0].restart)
        pod.envoy.stop()
        await asyncio.wait(asked[1:])
        await pod.settled(REAPED_SECONDS)
        records = await pod.ledger.records()

    assert asked[1].exception() is not None
    assert [record["outcome"] for record in records] == ["lost", "lost"]
    assert all(int(record["input_tokens"]) > 0 for record in records)
    assert all(int(record["output_tokens"]) <= CHAT["max_tokens"] for record in records)


async def holds(pod: Pod, count: int) -> bool:
    """Tell if so many holds are open."""
    return await pod.ledger.outstanding() == count
