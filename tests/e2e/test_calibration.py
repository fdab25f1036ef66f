"""Estimates learn from what providers report: processors, a ledger, a provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI
from tests.cases.connection import Answer, call, request
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, PATIENCE_SECONDS, Pod, until
from tests.scripted_upstream import reply
from tests.tokenizers.files import write_tokenizer
from tokenweir.core.bucket import UNITS_PER_TOKEN

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Nothing is earned while the tests run, so what is left tells what was reserved.
CAPACITY = 100_000_000
QUOTA = {"tokens_per_minute": 1, "capacity": CAPACITY, "on_ledger_failure": "open"}
TEXT = "The quick brown fox jumps over the lazy dog. " * 20
CALLS = 6
# Each test has a model of its own: what was learned of one says nothing of another.
PROBE, STEADY, ABSURD, WITHOUT = "local-0", "local-1", "local-2", "local-3"
# Counted by a file, and by a server.
FILE, SERVER = "file-7b", "server-7b"
# Nothing is learned of: its prompts have what servers ignore, or the policy says so.
PADDED, OFF = "local-4", "off-7b"
HALVED = "local-5"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod with a relay before its ledger, and models of all kinds."""
    file = write_tokenizer(tmp_path_factory.mktemp("model"))

    def adapt(content: dict[str, Any]) -> None:
        base = content["providers"]["openai"]["base_url"]
        server = {"url": f"{base}/tokenize", "deadline": "1s", "min_bytes": 100}
        server |= {"credential": "env:OPENAI_API_KEY", "header": "x-key"}
        content["models"] |= {
            "local-*": {"provider": "openai"},
            FILE: {"provider": "openai", "tokenizer": f"file:{file}"},
            SERVER: {"provider": "openai", "tokenize": server},
            OFF: {"provider": "openai", "calibration": False},
        }

    options = {"arguments": ["--ledger-timeout-ms", "1000"]}
    async with Scene.relayed(quotas=[QUOTA], adapt=adapt, options=options) as scene:
        yield scene


class App:
    """Sends one kind of request, and knows what is reserved for it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.left = CAPACITY

    async def reserved(
        self,
        model: str,
        reported: int,
        pod: Pod | None = None,
        *,
        text: str = TEXT,
        counted: bytes = b"",
        **members: str,
    ) -> int:
        """
        Return the input tokens that one call of *model* has reserved.

        Its provider reports *reported* input tokens, and one of output; who is asked
        for a count answers *counted*, or that it can't.
        """
        answers = reply(OPENAI.reply("Hi", usage=usage(reported)))
        counts = reply(counted, "200 OK" if counted else "503 Busy")
        self.scene.upstream.choose(
            lambda asked: [counts if asked.target == "/tokenize" else answers]
        )
        answer = await ask((pod or self.scene.pod).port, model, text, **members)
        assert answer.status == 200
        shown = answer.header("x-ratelimit-remaining-tokens")
        assert shown is not None
        reserved = self.left - int(shown) - 1
        self.left -= reported + 1
        await until(self.scene.pod.ledger.nothing_held)
        return reserved


def usage(reported: int) -> dict[str, int]:
    """Return the usage of *reported* input tokens, and one of output."""
    tokens = {"prompt_tokens": reported, "completion_tokens": 1}
    return tokens | {"total_tokens": reported + 1}


async def ask(port: int, model: str, text: str = TEXT, **members: str) -> Answer:
    """Send the request."""
    turns = [{"role": "user", "content": text}]
    asked: dict[str, Any] = {"model": model, "messages": turns, **members}
    body = OPENAI.request(stream=False, max_tokens=1, **asked)
    return await call(port, request(body))


def known(pod: Pod) -> list[str]:
    """Return the factors of inputs that the first processor tells."""
    lines = pod.processors[0].admin("/metrics").splitlines()
    name = 'tokenweir_calibration_factor{model="local-*",route="chat_completions",'
    return [line for line in lines if line.startswith(f'{name}side="input"')]


async def test_reservations_come_close_to_reports(stage: Scene) -> None:
    """
    A provider reports 1.8 times what was estimated: soon that is what is reserved, by
    other processors too.
    """
    app = App(stage)
    estimate = await app.reserved(PROBE, reported=400)
    reported = round(estimate * 1.8)
    first = [await app.reserved(STEADY, reported) for _ in range(CALLS)]
    await until(lambda: known(stage.pod))
    here = await app.reserved(STEADY, reported)
    async with stage.another_pod() as elsewhere:
        await until(lambda: known(elsewhere))
        there = await app.reserved(STEADY, reported, elsewhere)
        tenants = known(elsewhere)

    assert first[0] == estimate
    assert [here, there] == [pytest.approx(reported, rel=0.03)] * 2
    assert ['tenant="acme"' in line for line in tenants] == [True]


async def test_absurd_reports_move_nothing_far(stage: Scene) -> None:
    """A thousand times too much teaches nothing, and seven times no more than three."""
    app = App(await stage.clear())
    estimate = await app.reserved(PROBE, reported=400)
    for _ in range(CALLS):
        await app.reserved(ABSURD, reported=estimate * 1_000)
    after_absurd = await app.reserved(ABSURD, reported=estimate)
    soon = asyncio.timeout(PATIENCE_SECONDS)
    moved = after_absurd
    async with soon:
        while moved == estimate:
            moved = await app.reserved(ABSURD, reported=estimate * 7)

    assert after_absurd == estimate
    assert estimate < moved <= 3 * estimate


async def test_what_was_known_serves_without_a_ledger(stage: Scene) -> None:
    """While it gives no answer calls pass, and afterwards the factor is still there."""
    assert stage.relay is not None
    app = App(await stage.clear())
    estimate = await app.reserved(PROBE, reported=400)
    reported = round(estimate * 1.8)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await app.reserved(WITHOUT, reported) == estimate:
            pass
    before = known(stage.pod)
    stage.relay.delay_seconds = 60.0
    try:
        stage.upstream.play(reply(OPENAI.reply("Hi", usage=usage(reported))))
        answer = await ask(stage.pod.port, WITHOUT)
        during = known(stage.pod)
    finally:
        stage.relay.delay_seconds = 0.0
        await stage.relay.stop()  # connections that there are
    await until(stage.pod.ledger.nothing_held)
    await until(lambda: stage.pod.processors[0].metric("tokenweir_spool_settles") == 0)
    app.left -= reported + 1

    assert answer.status == 200
    assert during == before
    assert await app.reserved(WITHOUT, reported) == pytest.approx(reported, rel=0.03)


async def test_files_and_servers_count(stage: Scene) -> None:
    """
    A `tokenizer.json` has a token for each character here; a server says what it likes.
    If that can't be, it is counted as if there were no server.
    """
    app = App(await stage.clear())
    short = await app.reserved(FILE, 400, text="x" * 50)
    long = await app.reserved(FILE, 400, text="x" * 350)
    estimate = await app.reserved(PROBE, 400)
    told = await app.reserved(SERVER, 400, counted=b'{"count": 333, "tokens": []}')
    broken = [
        await app.reserved(SERVER, 400, text=f"{number} {TEXT}", counted=counted)
        for number, counted in enumerate((b"", b'{"count": 99999999}'))
    ]
    asked = [each for each in stage.upstream.requests if each.target == "/tokenize"]
    question = json.loads(asked[0].body)

    assert long - short == 300
    assert told == 333
    assert [abs(each - estimate) < 10 for each in broken] == [True, True]
    assert len(asked) == 3
    assert asked[0].header("x-key") == CREDENTIAL
    assert question["model"] == SERVER
    assert question["messages"] == [{"role": "user", "content": TEXT}]
    assert CREDENTIAL not in stage.pod.processors[0].log.read_text()


async def test_a_caller_makes_nothing_cheaper(stage: Scene) -> None:
    """
    What servers ignore teaches nothing, nor does a model that the policy leaves as it
    is; and what was learned is no discount on what is not reported.
    """
    app = App(await stage.clear())
    estimate = await app.reserved(PROBE, reported=400)
    for _ in range(CALLS):
        await app.reserved(PADDED, estimate, x_pad=TEXT)
        await app.reserved(OFF, estimate // 2)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await app.reserved(HALVED, estimate // 2) == estimate:
            pass
    reserved = [await app.reserved(model, estimate) for model in (PADDED, OFF, HALVED)]
    unreported = reply(OPENAI.reply("Hi", usage=None))
    stage.upstream.choose(lambda _: [unreported])
    await ask(stage.pod.port, HALVED)
    await until(stage.pod.ledger.nothing_held)
    state = await stage.pod.ledger.snapshot()
    [bucket] = state.buckets.values()
    used = bucket.capacity - bucket.level_units / UNITS_PER_TOKEN
    charged = round(used - (CAPACITY - app.left))

    assert reserved[:2] == [estimate, estimate]
    assert reserved[2] < 0.7 * estimate
    assert charged == estimate + 1
