"""`tokenweir audit prompts` names what costs most; no text is kept unless it may be."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from redis.asyncio import Redis

from tests.cases.apis import ANTHROPIC, OPENAI, Told, story
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.ledger_view import Silent
from tests.pod import KEY, OTHER_KEY, PATIENCE_SECONDS, START_SECONDS, until
from tests.scripted_upstream import event_stream, reply
from tokenweir.core.prompt_part import PromptCost
from tokenweir.ledger.link import Link
from tokenweir.ledger.prompts import OTHER, PromptKey, PromptLedger

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# No two have the same beginning: each is looked for in the whole of Redis.
LONG = "LongCANARY: answer as the handbook of the house says. " * 20
SHORT = "ShortCANARY: be brief."
KEPT = "KeptCANARY: globex lets its texts be kept."
ONCE = "OnceCANARY: nobody says so again."
REFUSED = "RefusedCANARY: this tenant has no tokens left."
QUESTION = "QuestionCANARY: why?"
TEXTS = (LONG, SHORT, KEPT, ONCE, REFUSED, QUESTION)
# By tests/cases/priced.py, in nano-USD.
INPUT, CACHED = 4_000, 1_000


@dataclass(frozen=True)
class Used:
    """What the provider reports: *cached* tokens are part of *input*."""

    input: int
    output: int
    cached: int = 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod in which texts of globex may be kept, and no others."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(small=[{"tokens_per_minute": 1, "capacity": 10}])(content)
        content["prices"] = {"overlays": [prices]}
        content["audit"] = {"keep_prompt_text": True, "keep_prompt_text_of": ["globex"]}

    async with Scene.open(adapt=adapt) as opened:
        yield opened


async def ask(
    scene: Scene, system: str, used: Used, *, key: str = KEY, model: str = "gpt-4o"
) -> None:
    """Ask a question under a *system* prompt, in one call that has *used* tokens."""
    usage = {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached},
    }
    scene.upstream.play(reply(OPENAI.reply("Hi.", usage=usage)))
    answer = await scene.call(question(system, model=model), key=key)
    assert answer.status == 200


def question(system: str, **members: Any) -> bytes:
    """Return a request that asks under a *system* prompt."""
    turns = [
        {"role": "system", "content": system},
        {"role": "user", "content": QUESTION},
    ]
    return OPENAI.request(messages=turns, stream=False, max_tokens=9, **members)


async def refused(scene: Scene) -> int:
    """Ask for more than a tenant may ever use; return the status of the answer."""
    return (await scene.call(question(REFUSED), key=key_of("small"))).status


async def sums(scene: Scene) -> dict[PromptKey, PromptCost]:
    """Return what is written, of today and of a day that has just ended."""
    today = int(time.time() // 86_400)
    link = Link(scene.pod.server.url, Silent(), deadline_seconds=PATIENCE_SECONDS)
    found = await PromptLedger(link).read(today - 1, today)
    await link.close()
    return found


def environment() -> dict[str, str]:
    """Return where the command finds the package."""
    return {**os.environ, "PYTHONPATH": str(Path("sidecar").resolve())}


async def told(scene: Scene, *arguments: str) -> str:
    """Return what the command prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tokenweir", "audit", "prompts"),
        *("--ledger", scene.pod.server.url, *arguments),
        stdout=subprocess.PIPE,
        env=environment(),
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def written(scene: Scene) -> dict[str, str]:
    """Return everything that Redis has, by key, as text."""
    found = {}
    await scene.redis("CONFIG", "SET", "rdbcompression", "no")  # else texts are hidden
    async with Redis(unix_socket_path=str(scene.pod.server.path)) as client:
        async for key in client.scan_iter(count=1_000):
            found[key.decode()] = (await client.dump(key) or b"").decode("latin-1")
    return found


def canaries(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the first word of each text that was *found*, and under which kind of key."""
    for key, value in found.items():
        for text in TEXTS:
            word = text.partition(":")[0]
            if word in key + value:
                yield word, key.split(":")[2]


async def test_what_costs_most_comes_first(scene: Scene) -> None:
    """Of three calls, refused and single ones: tokens, cost and cached share, exactly."""
    for cached in (0, 600, 600):
        await ask(scene, LONG, Used(1_000, 2, cached))
    for _ in range(2):
        assert await refused(scene) == 400
        await ask(scene, SHORT, Used(30, 900))
        await ask(scene, KEPT, Used(40, 2), key=OTHER_KEY, model="gpt-4o-mini")
    await ask(scene, ONCE, Used(5_000, 2))
    await scene.pod.settled()

    async def are_written() -> bool:
        return len(await sums(scene)) == 3

    await until(are_written, START_SECONDS)
    report = json.loads(await told(scene, "--json"))
    first, second, third = report["rows"]

    share = len(LONG) / (len(LONG) + len(QUESTION))
    assert (first["part"], first["tenant"], first["calls"]) == ("system", "acme", 3)
    assert first["model"] == "gpt-4o"
    assert first["input_tokens"] == 3_000
    assert first["tokens"] == first["reported_tokens"] == 3 * int(1_000 * share)
    assert first["cached_tokens"] == 1_200
    fresh = first["tokens"] - 1_200
    assert first["cost_nanousd"] == 1_200 * CACHED + fresh * INPUT
    assert (second["tenant"], second["calls"]) == ("acme", 2)
    assert (third["tenant"], third["model"]) == ("globex", "gpt-4o-mini")
    assert report["total"]["cost_nanousd"] == sum(
        row["cost_nanousd"] for row in report["rows"]
    )


async def test_no_text_is_kept_where_it_may_not_be(scene: Scene) -> None:
    """Of the whole of Redis one key has a text: that of whom the policy lets it keep."""
    found = await written(scene)
    shown = await told(scene, "--text")

    assert {"p", "pt", "u"} <= {key.split(":")[2] for key in found}
    assert [*canaries(found)] == [("KeptCANARY", "pt")]
    assert KEPT in shown
    assert shown.count("CANARY") == 1


async def test_a_killed_processor_and_another_policy(scene: Scene) -> None:
    """What was written stays; the next one keeps no new text, and goes on counting."""
    before = await sums(scene)
    path = scene.pod.policy_path
    content = yaml.safe_load(path.read_text()) | {"audit": {"prompts_of": ["globex"]}}
    path.write_text(yaml.safe_dump(content))
    [processor] = scene.pod.processors
    processor.kill()
    await asyncio.to_thread(processor.restart)
    await until(lambda: serves(scene), START_SECONDS)
    body = ANTHROPIC.request(model="claude-sonnet-5", system=ONCE, max_tokens=9)
    for _ in range(2):
        scene.upstream.play(*event_stream(story(ANTHROPIC, told=Told(50, 3))))
        answer = await scene.call(body, key=OTHER_KEY, path=ANTHROPIC.path)
        assert answer.status == 200
        await ask(scene, LONG, Used(1_000, 2))
    await ask(scene, SHORT, Used(70, 2), key=OTHER_KEY, model="gpt-4o-mini")
    await scene.pod.settled()
    processor.terminate()
    assert await asyncio.to_thread(processor.process.wait, START_SECONDS) == 0
    after = await sums(scene)

    assert {key: after[key] for key in before} == before
    new = {key: after[key] for key in after if key not in before}
    assert {(key.tenant, key.model) for key in new} == {
        ("globex", "claude-sonnet-5"),
        ("globex", "gpt-4o-mini"),
    }
    for key, cost in new.items():
        streamed = key.model == "claude-sonnet-5"
        assert (key.digest != OTHER) is streamed
        told_of = (2, 100) if streamed else (1, 70)
        assert (cost.calls, cost.input_tokens) == told_of
    assert [*canaries(await written(scene))] == [("KeptCANARY", "pt")]


async def serves(scene: Scene) -> bool:
    """Tell if Envoy has found the processor again."""
    return await refused(scene) == 400
