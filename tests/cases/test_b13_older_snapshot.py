"""B13: a ledger that comes back from an older snapshot, and is rebuilt."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, Told
from tests.cases.connection import Answer
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import reply
from tests.servers import start_valkey

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# What a call costs: 11 tokens of input, 700 of output.
COST_NANOUSD = 11 * 4_000 + 700 * 20_000
BUDGET_NANOUSD = 50_000_000
SIDECAR = str(Path("sidecar").resolve())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod whose ledger finds again what it saved."""
    folder = tmp_path_factory.mktemp("kept")
    prices = overlay(folder)

    def adapt(content: dict[str, Any]) -> None:
        tenants(block=[{"budget_usd": 0.05, "per": "month"}])(content)
        content["prices"] = {"overlays": [prices]}

    server = await asyncio.to_thread(start_valkey, folder, "--dir", str(folder))
    try:
        async with Scene.open(adapt=adapt, options={"server": server}) as opened:
            yield opened
    finally:
        server.stop()


async def call(scene: Scene) -> Answer:
    """Spend some of the budget."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 700))))
    body = OPENAI.request(stream=False, max_tokens=700)
    answer = await scene.call(body, key=key_of("block"))
    await scene.pod.settled()
    return answer


async def spent(scene: Scene) -> int:
    """Return what the budget's counter says."""
    found = (await scene.pod.ledger.snapshot("block")).spendings.values()
    return sum(each.spent for each in found)


async def tokenweir(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it printed."""
    environment = {**os.environ, "PYTHONPATH": SIDECAR}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tokenweir", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def answers(scene: Scene) -> bool:
    """Tell if the ledger is there again, for those who look too."""
    try:
        await spent(scene)
    except Exception:  # noqa: BLE001 -- its connection is gone, or it reads its data
        return False
    return True


async def told(scene: Scene, verb: str, *more: str) -> tuple[int, str]:
    """Ask about the ledger, or have it put right."""
    policy = ("--policy", str(scene.pod.policy_path))
    return await tokenweir(
        "ledger", verb, *policy, "--ledger", scene.pod.server.url, *more
    )


async def spend_and_save(scene: Scene) -> None:
    """Spend the budget; what is on the disk is from before most of it was spent."""
    await scene.clear()
    assert (await call(scene)).status == 200
    await scene.redis("SAVE")
    assert [(await call(scene)).status for _ in range(2)] == [200, 200]
    assert (await call(scene)).status == 429


async def test_b13_the_last_moments_are_told_again(scene: Scene) -> None:
    """
    The server alone is killed: what it forgot a moment ago it hears from the processor.

    BerriAI/litellm#30684: after a restart from an old snapshot the counter was too low.
    """
    await spend_and_save(scene)

    scene.pod.server.restart()

    async def knows_all() -> bool:
        return await answers(scene) and await spent(scene) == 3 * COST_NANOUSD

    await until(knows_all)
    assert len(await scene.pod.ledger.records("block")) == 3
    await stays_refused(scene)


async def lose_what_was_spent(scene: Scene, folder: Path) -> None:
    """Spend the budget, export that, and lose it with all who could tell of it."""
    await spend_and_save(scene)
    where = (f"jsonl:{folder}", "--ledger", scene.pod.server.url)
    code, out = await tokenweir("export", *where, "--once", "--from-start")
    assert code == 0, out
    [processor] = scene.pod.processors
    processor.kill()
    scene.pod.server.restart()
    await until(lambda: answers(scene))
    await asyncio.to_thread(processor.restart)
    assert await spent(scene) == COST_NANOUSD


async def test_b13_an_older_snapshot_is_rebuilt(scene: Scene, tmp_path: Path) -> None:
    """
    Server and processor are killed, and the server comes back from before the budget was
    spent: it is told what is missing, put right from what was exported, and the tenant
    stays refused.

    BerriAI/litellm#30684: after a restart from an old snapshot the counter was too low.
    """
    await lose_what_was_spent(scene, tmp_path)
    records = ("--records", str(tmp_path))

    code, out = await told(scene, "verify")
    assert code == 0, out  # of itself it is sound: it just does not know
    code, out = await told(scene, "verify", *records, "--json")
    assert code == 1, out
    document = json.loads(out)
    [finding] = document["findings"]
    assert (finding["verdict"], finding["difference"]) == ("too low", 2 * COST_NANOUSD)
    # Of one hour or, if it has just ended, of two.
    differing = [e for e in document["rollups"]["differing"] if e["user"] is None]
    should = sum(each["should"]["cost_nanousd"] for each in differing)
    says = sum(each["says"].get("cost_nanousd", 0) for each in differing)
    assert should - says == 2 * COST_NANOUSD
    code, out = await told(scene, "rebuild", *records)
    assert (code, await spent(scene)) == (1, COST_NANOUSD), out
    code, out = await told(scene, "rebuild", *records, "--apply")
    assert (code, await spent(scene)) == (0, 3 * COST_NANOUSD), out
    code, out = await told(scene, "rebuild", "--rollups", *records, "--apply")
    assert code == 0, out
    code, out = await told(scene, "verify", *records)
    assert code == 0, out
    await stays_refused(scene)


async def stays_refused(scene: Scene) -> None:
    """Demand that the next call is refused, once the processor has its ledger again."""
    before = len(scene.upstream.requests)
    found: list[Answer] = []

    async def is_answered() -> bool:
        found.append(await call(scene))
        return found[-1].status != 503

    await until(is_answered)
    refused = found[-1]
    assert (refused.status, refused.refusal) == (429, "budget_exhausted")
    assert refused.detail["used"] == 3 * COST_NANOUSD
    assert refused.detail["capacity"] == BUDGET_NANOUSD
    assert len(scene.upstream.requests) == before
