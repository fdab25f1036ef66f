"""A policy that changes under running exchanges, and a processor that leaves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import yaml

from tests.cases.connection import Connection, request
from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    ScriptedUpstream,
    chunk,
    head,
    reply,
)

pytestmark = pytest.mark.e2e

ANSWER = json.dumps(
    {
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
).encode()
REQUEST: dict[str, Any] = {
    "model": "gpt-4o",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Hello."}],
}
STREAM_HEAD = head(
    headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
)
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,'
    b'"total_tokens":12}}\n\n'
)
DONE = b"data: [DONE]\n\n"
# Two or three are promised; the rest is what a busy machine takes.
RELOAD_SECONDS = 15.0


async def ask(pod: Pod, key: str = KEY, **changes: Any) -> httpx.Response:
    """Make one call."""
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            f"{pod.url}/chat/completions",
            json=REQUEST | changes,
            headers={"authorization": f"Bearer {key}"},
        )


def rewrite(pod: Pod, content: dict[str, Any]) -> None:
    """Put *content* in place of the policy, as an editor does."""
    fresh = pod.policy_path.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(content))
    fresh.replace(pod.policy_path)


async def test_a_changed_policy_applies_to_new_exchanges() -> None:
    """
    Limits, keys and tenants change within seconds; a running stream keeps the limits
    that it began with, and is settled; a bad policy changes nothing.
    """
    gate = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        before = policy(upstream.port, quotas=[{"concurrency": 1}])
        async with Pod.start(before) as pod:
            upstream.play_next(
                STREAM_HEAD, chunk(DELTA), Hold(gate), chunk(USAGE + DONE), LAST_CHUNK
            )
            upstream.play(reply(ANSWER))
            running = asyncio.create_task(ask(pod, stream=True))
            await upstream.wait_for_requests(1)
            assert (await ask(pod)).status_code == 429

            after = policy(upstream.port, quotas=[{"concurrency": 2}])
            after["tenants"]["acme"]["keys"] += [{"id": "new", "sha256": sha256("new")}]
            del after["tenants"]["globex"]
            rewrite(pod, after)

            async def reloaded() -> bool:
                return (await ask(pod, key="new")).status_code == 200

            await until(reloaded, RELOAD_SECONDS)
            assert (await ask(pod)).status_code == 200
            assert (await ask(pod, OTHER_KEY)).status_code == 401

            pod.policy_path.write_text("version: 1\ntenants: {acme: {quotas: [{}]}}\n")
            refused = pod.processors[0]
            await until(lambda: refused.count("policy_refused"), RELOAD_SECONDS)
            assert (await ask(pod)).status_code == 200

            gate.set()
            answer = await running
            assert answer.status_code == 200
            assert answer.text.endswith("data: [DONE]\n\n")
            await pod.settled()
            records = await pod.ledger.records()
            assert {record["source"] for record in records} == {"reported"}
            assert len({record["policy"] for record in records}) == 2


async def test_streams_that_are_open_finish_before_a_processor_leaves() -> None:
    """
    After SIGTERM a stream ends in peace, new calls get 503, and the exit code is 0.
    """
    gate = asyncio.Event()
    async with (
        ScriptedUpstream() as upstream,
        Pod.start(policy(upstream.port, quotas=[{"concurrency": 5}])) as pod,
    ):
        upstream.play(
            STREAM_HEAD, chunk(DELTA), Hold(gate), chunk(USAGE + DONE), LAST_CHUNK
        )
        running = asyncio.create_task(ask(pod, stream=True))
        await upstream.wait_for_requests(1)
        leaving = pod.processors[0]
        leaving.terminate()
        await until(lambda: leaving.count("draining"))
        refused = await ask(pod)
        gate.set()
        answer = await running
        await asyncio.to_thread(leaving.process.wait, 20)

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert answer.text.count("word") == 1
        assert leaving.process.returncode == 0
        assert await pod.ledger.nothing_held()
        (record,) = await pod.ledger.records()
        assert (record["outcome"], record["source"]) == ("completed", "reported")


async def test_at_the_deadline_of_a_drain_what_passed_is_settled() -> None:
    """
    A stream that does not end in time is charged for what passed, and still arrives
    whole.
    """
    gate = asyncio.Event()
    async with (
        ScriptedUpstream() as upstream,
        Pod.start(
            policy(upstream.port, quotas=[{"concurrency": 5}]), drain_seconds=1
        ) as pod,
    ):
        upstream.play(
            STREAM_HEAD, chunk(DELTA * 3), Hold(gate), chunk(DELTA), LAST_CHUNK
        )
        asked = request(json.dumps(REQUEST | {"stream": True}).encode())
        async with Connection.open(pod.port) as app:
            await app.send(asked)
            await app.head()
            text = await app.chunk()
            leaving = pod.processors[0]
            leaving.terminate()
            await asyncio.to_thread(leaving.process.wait, 20)
            gate.set()
            text += await app.rest()

        assert leaving.process.returncode == 0
        assert text.count(b"word") == 4
        assert await pod.ledger.nothing_held()
        (record,) = await pod.ledger.records()
        assert (record["outcome"], record["source"]) == ("drained", "counted")
        assert int(record["output_tokens"]) == 3
