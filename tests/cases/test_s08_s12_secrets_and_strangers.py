"""S08: nothing that is secret is ever written. S12: strangers cost nobody anything."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, KEY, until
from tests.scripted_upstream import End, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
UNKNOWN = "sk-CANARY-unknown"
IN_QUERY = "CANARY-query"
PROMPT = "CANARY-prompt"
USER = "CANARY-user@example.org"  # personal data
SECRETS = (KEY, CREDENTIAL, UNKNOWN, IN_QUERY, PROMPT, USER)
QUOTAS = [
    {"requests_per_minute": 6_000},
    {"tokens_per_minute": 1_000_000},
    {"requests_per_minute": 6_000, "partition": ["user"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(quotas=QUOTAS, retries=0) as opened:
        yield opened


ASKED = {
    "/v1/chat/completions": OPENAI.request(
        stream=False, messages=[{"role": "user", "content": PROMPT}], user=USER
    ),
    "/v1/messages": ANTHROPIC.request(
        stream=False,
        messages=[{"role": "user", "content": PROMPT}],
        metadata={"user_id": USER},
    ),
}
ANSWERS = {
    "/v1/chat/completions": reply(OPENAI.reply("Hi.", TOLD)),
    "/v1/messages": reply(ANTHROPIC.reply("Hi.", TOLD)),
}
FAILURES = [reply(b'{"error":{}}', "500 Oops"), b"HTTP/1.1 200 OK\r\n", b"no http"]
# The key of each call, and what stands beside it.
PRESENTED: list[tuple[str | None, list[tuple[str, str]]]] = [
    (UNKNOWN, []),
    (None, [("x-api-key", UNKNOWN)]),
    (None, [("authorization", UNKNOWN)]),
    (None, [("authorization", f"Basic {UNKNOWN}")]),
    (KEY, [("x-api-key", UNKNOWN)]),
    (KEY, [("x-tokenweir-cluster", IN_QUERY)]),
]


async def provoke(scene: Scene, path: str) -> list[bytes]:
    """Let exchanges end in every way; return what the app was told."""
    body = ASKED[path]
    calls: list[dict[str, Any]] = [{"path": f"{path}?key={IN_QUERY}"}]
    calls += [{"path": f"/v1/nowhere?key={IN_QUERY}"}]
    calls += [{"path": path, "key": key, "headers": more} for key, more in PRESENTED]
    told = []
    for played in [ANSWERS[path], *FAILURES]:
        scene.upstream.play(played, End.CLOSE)
        told.append(await scene.call(body, path=path))
    spoiled = [body[:-9], b"[]", body.replace(b"{", b'{"model":1,', 1)]
    told += [await scene.call(bad, path=path) for bad in spoiled]
    told += [await scene.call(body, **call) for call in calls]
    return [answer.body for answer in told]


async def everything_written(scene: Scene) -> dict[str, str]:
    """Return all text that the pod has written anywhere, by where."""
    processor = scene.pod.processors[0]
    await scene.pod.settled()
    # The last call is told of last.
    last = f"/last/{len(scene.pod.envoy.output())}"
    await scene.call(method="GET", path=last)
    await until(lambda: last in scene.pod.envoy.output())
    written = {
        "log": processor.log.read_text(),
        "metrics": processor.admin("/metrics"),
        "access log": scene.pod.envoy.output(),
        "Envoy's log": scene.pod.envoy.log(),
    }
    for name in await scene.redis("KEYS", "*"):
        dump = {
            b"string": ("GET", name),
            b"hash": ("HGETALL", name),
            b"zset": ("ZRANGE", name, 0, -1),
            b"stream": ("XRANGE", name, "-", "+"),
        }[await scene.redis("TYPE", name)]
        written[f"ledger {name!r}"] = f"{name!r} {await scene.redis(*dump)!r}"
    return written


async def test_s08_no_canary_anywhere(scene: Scene) -> None:
    """
    Keys, credentials, queries, prompts and end users are in no log, metric, ledger key
    or error.

    BerriAI/litellm#15799, #8075, #25203
    """
    await scene.clear()
    told = [answer for path in ASKED for answer in await provoke(scene, path)]
    written = await everything_written(scene)
    written["answers"] = b"\n".join(told).decode(errors="replace")

    assert len(written["log"]) > 1_000
    assert "/v1/chat/completions" in written["access log"]
    found = [
        (where, secret)
        for where, text in written.items()
        for secret in SECRETS
        if secret in text
    ]
    assert found == []


async def test_s08_no_canary_when_parts_are_gone(scene: Scene) -> None:
    """
    The same while the ledger is silent, and while the processor is dead.

    BerriAI/litellm#15799
    """
    await scene.clear()
    body = ASKED["/v1/chat/completions"]
    os.kill(scene.pod.server.pid, signal.SIGSTOP)
    try:
        told = [(await scene.call(body)).body]
    finally:
        os.kill(scene.pod.server.pid, signal.SIGCONT)
    # What it has to cancel is not for the reaper, which would take half a minute.
    await until(lambda: not scene.pod.processors[0].metric("tokenweir_spool_settles"))
    await scene.pod.settled()
    scene.pod.processors[0].kill()
    told.append((await scene.call(body, path=f"/v1/messages?key={IN_QUERY}")).body)
    await asyncio.to_thread(scene.pod.processors[0].restart)
    written = await everything_written(scene)
    written["answers"] = b"\n".join(told).decode(errors="replace")

    found = [
        (where, secret)
        for where, text in written.items()
        for secret in SECRETS
        if secret in text
    ]
    assert found == []


async def test_s12_strangers_drain_nobody(scene: Scene) -> None:
    """
    Wrong secrets change no level of any tenant, however often they are tried.

    scaleapi/llm-engine#868
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False)
    await scene.call(body)
    await scene.ledger_shows(CHARGED)
    before = (await scene.pod.ledger.snapshot()).buckets
    for number in range(200):
        key = f"{KEY}{number}" if number % 2 else KEY[:-1]
        assert (await scene.call(body, key=key)).status == 401

    assert (await scene.pod.ledger.snapshot()).buckets == before
    assert len(scene.upstream.requests) == 1
    await scene.ledger_shows(CHARGED)
