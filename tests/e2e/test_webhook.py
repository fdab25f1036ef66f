"""A budget that fills up under parallel calls is told to a webhook, threshold by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cases.apis import OPENAI, Told
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import PATIENCE_SECONDS, until
from tests.scripted_upstream import reply
from tests.telemetry.receiver import SECRET, Receiver, is_signed, receiver

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Twenty calls of 100 tokens fill it: each is 5 percent.
CALLS, CAPACITY, TOLD = 20, 2_000, Told(11, 89)
# What a machine that has no time for so many at once says, and an app tries again.
NO_TIME = ("ledger_unavailable", "governor_unavailable")
BUDGET = [{"budget_tokens": CAPACITY, "per": "month"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hooked(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Scene, Receiver]]:
    """Give the module a pod of two processors, and the webhook of its policy."""
    secret = tmp_path_factory.mktemp("webhook") / "secret"
    secret.write_text(f"{SECRET}\n")
    async with receiver() as it:

        def adapt(content: dict[str, Any]) -> None:
            tenants(first=BUDGET, second=BUDGET)(content)
            webhook = {"url": it.url, "secret": f"file:{secret}"}
            content["notifications"] = {"webhook": webhook}

        async with Scene.open(adapt=adapt, options={"workers": 2}) as scene:
            yield scene, it


async def fill(scene: Scene, tenant: str) -> None:
    """Spend the whole budget of *tenant*, by calls that run at once."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False, max_tokens=20)

    async def call() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await scene.call(body, key=key_of(tenant))
            while answer.refusal in NO_TIME:
                answer = await scene.call(body, key=key_of(tenant))
        assert answer.status == 200, answer

    await asyncio.gather(*(call() for _ in range(CALLS)))
    await scene.ledger_shows(*[(11, 89)] * CALLS, tenant=tenant)


def name_webhook(path: Path, url: str) -> None:
    """Change where the policy in *path* says that the webhook is."""
    content = yaml.safe_load(path.read_text())
    content["notifications"]["webhook"]["url"] = url
    path.write_text(json.dumps(content))


def logs(scene: Scene) -> str:
    """Return all that the processors have logged."""
    return "".join(processor.log.read_text() for processor in scene.pod.processors)


async def test_three_thresholds(hooked: tuple[Scene, Receiver]) -> None:
    """
    50, 80 and 95 percent are told, and each has one id, however often it comes.

    The receiver fails at first, so some come more than once.
    """
    scene, it = hooked
    await scene.clear()
    it.statuses = [500, 302, 503]
    await fill(scene, "first")
    await until(lambda: len(set(it.ids)) == 3 and not it.statuses)
    await until(lambda: not _waiting(scene))

    assert len(set(it.ids)) == 3
    assert len(it.ids) > 3
    by_id = {body["id"]: body for body in it.bodies}
    told = sorted(by_id.values(), key=lambda body: int(body["threshold_percent"]))
    assert [(body["threshold_percent"], body["spent"]) for body in told] == [
        (50, 1_000),
        (80, 1_600),
        (95, 1_900),
    ]
    for body in told:
        assert (body["tenant"], body["unit"]) == ("first", "tokens")
        assert (body["quota"], body["capacity"]) == (
            "first.budget_tokens_per_month",
            CAPACITY,
        )
    assert all(is_signed(*post, SECRET.encode()) for post in it.posts)
    assert "webhook_failed" in logs(scene)
    assert SECRET not in logs(scene)
    assert it.url not in logs(scene)


async def test_a_policy_that_names_another(hooked: tuple[Scene, Receiver]) -> None:
    """From the reload on, the new one is told and the old one is not."""
    scene, old = hooked
    await scene.clear()
    before = len(old.posts)
    loaded = [each.count("policy_loaded") for each in scene.pod.processors]
    async with receiver() as new:
        name_webhook(scene.pod.policy_path, new.url)
        await until(
            lambda: all(
                each.count("policy_loaded") > seen
                for each, seen in zip(scene.pod.processors, loaded, strict=True)
            )
        )
        await fill(scene, "second")
        await until(lambda: len(set(new.ids)) == 3)

    assert {body["tenant"] for body in new.bodies} == {"second"}
    assert len(old.posts) == before


def _waiting(scene: Scene) -> float:
    processors = scene.pod.processors
    return sum(each.metric("tokenweir_webhook_waiting") for each in processors)
