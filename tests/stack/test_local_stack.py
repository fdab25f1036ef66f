"""A whole stack: it serves, heals, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.scripted_upstream import ScriptedUpstream, reply
from tests.servers import Server, start_valkey
from tests.stack.fakes import alive, wait_until
from tests.stack.running import RunningStack, gone
from tokenweir.stack.demo import DEMO_KEY, OPENAI_MODEL
from tokenweir.stack.welcome import STREAM_MAX_TOKENS, STREAMS

pytestmark = pytest.mark.e2e

PROMPT = [{"role": "user", "content": "Say hello"}]
CHAT = {"model": OPENAI_MODEL, "messages": PROMPT}
KEY = {"authorization": f"Bearer {DEMO_KEY}"}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    """The demo, started."""
    running = RunningStack(tmp_path)
    try:
        running.wait_until_started()
        yield running
    finally:
        running.kill()


def call(stack: RunningStack, **changes: object) -> int:
    """Return the status of a chat completion; 0: nobody was there."""
    url = f"http://127.0.0.1:{stack.port}/v1/chat/completions"
    try:
        return httpx.post(
            url, json={**CHAT, **changes}, headers=KEY, timeout=30, trust_env=False
        ).status_code
    except httpx.TransportError:
        return 0


def four_streams(stack: RunningStack) -> list[int]:
    """Return the statuses of as many streams at once as the welcome says fit."""
    one = partial(call, stack, stream=True, max_tokens=STREAM_MAX_TOKENS)
    with ThreadPoolExecutor(STREAMS - 1) as pool:
        calls = [pool.submit(one) for _ in range(STREAMS - 1)]
        return [each.result() for each in calls]


def test_the_demo_serves_and_heals(stack: RunningStack) -> None:
    """
    It answers, refuses, tells of both, and does so again after any child was killed;
    then SIGINT ends it with exit code 0, and neither a process nor a file is left.
    """
    assert call(stack) == 200
    assert four_streams(stack) == [200] * 4
    assert call(stack, max_tokens=16_000, n=4) == 400
    stack.wait_for("200, 2 in, 12 out (reported)")
    stack.wait_for("REFUSED by demo.tokens_per_minute, needs 64,0")

    lives = 1
    for program, pid in stack.children().items():
        os.kill(pid, signal.SIGKILL)
        stack.wait_for(" is back.", lives)
        wait_until(lambda: call(stack) == 200)
        lives += 1
        assert pid not in stack.children().values(), program

    folder, children = stack.folder(), [*stack.children().values()]
    assert len(children) == 4
    assert stack.stop(signal.SIGINT) == 0
    assert stack.output().endswith("Stopped.\n")
    assert gone(children)
    assert not folder.exists()


def test_a_killed_stack_leaves_no_process(stack: RunningStack) -> None:
    """SIGKILL of the command ends every child."""
    children = [*stack.children().values()]
    stack.kill()

    assert len(children) == 4
    wait_until(lambda: gone(children))


POLICY = """\
version: 1
providers:
  vllm: {{base_url: "http://127.0.0.1:{port}", dialect: openai, credential: "env:KEY"}}
models:
  {model}: {{provider: vllm}}
tenants:
  acme: {{}}
single_tenant: acme
"""
COUNTED = b'{"usage": {"prompt_tokens": 3, "completion_tokens": 4}}'


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Server]:
    """A Valkey that is not the stack's."""
    server = start_valkey(tmp_path)
    yield server
    server.stop()


async def test_a_policy_and_a_ledger_of_ones_own(
    tmp_path: Path, ledger: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A real policy calls a real provider with the credential from the environment; the
    ledger that was given is used, and is still there afterwards, as the logs are.
    """
    monkeypatch.setenv("KEY", "sk-of-the-provider")
    policy, logs = tmp_path / "my.yaml", tmp_path / "logs"
    options = ("--policy", str(policy), "--ledger", ledger.url, "--workers", "2")
    async with ScriptedUpstream() as upstream:
        upstream.play(reply(COUNTED))
        policy.write_text(POLICY.format(port=upstream.port, model=OPENAI_MODEL))
        stack = RunningStack(tmp_path, *options, "--log-dir", str(logs))
        try:
            await asyncio.to_thread(stack.wait_until_started)
            assert "Warning: tenants.acme: has no quota" in stack.output()
            assert await asyncio.to_thread(call, stack) == 200
            await asyncio.to_thread(stack.wait_for, "200, 3 in, 4 out (reported)")
            moved = policy.read_text().replace('", dialect', '/moved", dialect')
            policy.write_text(moved + "retries: 5\n")
            await asyncio.to_thread(stack.wait_for, "in use from now on", 2)
            assert await asyncio.to_thread(call, stack) == 200
            assert upstream.requests[-1].target == "/moved/v1/chat/completions"
            assert len(stack.children()) == 3
            assert await asyncio.to_thread(stack.stop) == 0
        finally:
            stack.kill()

    sent = {request.header("authorization") for request in upstream.requests}
    assert sent == {"Bearer sk-of-the-provider"}
    assert alive(ledger.pid)
    assert "mock" not in stack.output()
    assert {path.name for path in logs.iterdir()} == {
        "access.log",
        "envoy.log",
        "processor-0.log",
        "processor-1.log",
    }
