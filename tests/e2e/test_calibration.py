"""Estimates learn from what providers report: processors, a ledger, a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI
from tests.cases.connection import Answer, call, request
from tests.cases.scene import Scene
from tests.pod import KEY, PATIENCE_SECONDS, Pod, until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Nothing is earned while the tests run, so what is left tells what was reserved.
CAPACITY = 100_000_000
QUOTA = {"tokens_per_minute": 1, "capacity": CAPACITY, "on_ledger_failure": "open"}
TEXT = "The quick brown fox jumps over the lazy dog. " * 20
CALLS = 6
# Each test has a model of its own: what was learned of one says nothing of another.
PROBE, STEADY, ABSURD, WITHOUT = "local-0", "local-1", "local-2", "local-3"


def adapt(content: dict[str, Any]) -> None:
    """Add models whose tokenizer nobody knows."""
    content["models"]["local-*"] = {"provider": "openai"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Scene]:
    """Give the module a pod with a relay before its ledger."""
    options = {"arguments": ["--ledger-timeout-ms", "1000"]}
    async with Scene.relayed(quotas=[QUOTA], adapt=adapt, options=options) as scene:
        yield scene


class App:
    """Sends one kind of request, and knows what is reserved for it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.left = CAPACITY

    async def reserved(self, model: str, reported: int, pod: Pod | None = None) -> int:
        """
        Return the input tokens that one call of *model* has reserved.

        Its provider reports *reported* input tokens, and one of output.
        """
        self.scene.upstream.play(reply(OPENAI.reply("Hi", usage=usage(reported))))
        answer = await ask((pod or self.scene.pod).port, model)
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


async def ask(port: int, model: str, key: str = KEY) -> Answer:
    """Send the request."""
    turns = [{"role": "user", "content": TEXT}]
    body = OPENAI.request(model=model, messages=turns, stream=False, max_tokens=1)
    return await call(port, request(body, key=key))


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
