"""`tokenweir usage` tells what a pod has let through and refused, to the nano-USD."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Told, story
from tests.cases.connection import Connection, request
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import KEY, OTHER_KEY, sha256, until
from tests.scripted_upstream import End, Hold, Step, event_stream, reply
from tokenweir.core.partition import user_code

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

DEV_KEY = "sk-tw-acme-dev"
# By tests/cases/priced.py, in nano-USD: input and output.
GPT_4O, MINI, SONNET = (4_000, 20_000), (1_000, 2_000), (3_000, 15_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod of four tenants, one of whom is soon refused."""
    prices = overlay(tmp_path_factory.mktemp("prices"))
    cheaper = {
        "budget_usd": 0.001,
        "per": "month",
        "on_exceeded": {"downgrade_to": "gpt-4o-mini", "hard_limit_usd": 1},
    }

    def adapt(content: dict[str, Any]) -> None:
        tenants(small=[{"tokens_per_minute": 60, "capacity": 500}], cheaper=[cheaper])(
            content
        )
        dev = {"id": "dev", "sha256": sha256(DEV_KEY)}
        content["tenants"]["acme"]["keys"].append(dev)
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(adapt=adapt) as opened:
        await play(opened)
        yield opened


async def ask(
    scene: Scene, told: Told, *, key: str = KEY, status: int = 200, **members: Any
) -> None:
    """Make one call, which is answered with *told*."""
    members = {"stream": False, "max_tokens": 400, **members}
    is_anthropic = str(members.get("model")).startswith("claude")
    api = ANTHROPIC if is_anthropic else OPENAI
    scene.upstream.play(reply(api.reply("Hi.", told)))
    answer = await scene.call(api.request(**members), key=key, path=api.path)
    assert answer.status == status


async def play(scene: Scene) -> None:
    """Make all calls, and wait until they and the refusals are written."""
    await ask(scene, Told(11, 7), user="ann")
    await ask(scene, Told(11, 7), user="ann")
    await ask(scene, Told(13, 9), user="bob")
    await ask(scene, Told(20, 5), key=DEV_KEY, model="gpt-4o-mini")
    await ask(scene, Told(30, 9), key=OTHER_KEY, model="claude-sonnet-5")
    await ask(scene, Told(11, 7), key=key_of("cheaper"))
    await ask(scene, Told(11, 300), key=key_of("small"))
    for _ in range(2):
        await ask(scene, Told(1, 1), key=key_of("small"), status=429)
    await ask(scene, Told(1, 1), key=OTHER_KEY, model="gpt-6", status=403)
    await cut(scene)
    await scene.pod.settled()

    async def is_written() -> bool:
        return bool((await report(scene, "tenant"))["total"]["refused"] == 3)

    await until(is_written)


async def cut(scene: Scene) -> None:
    """Leave a stream of globex in its midst."""
    endless: list[Step] = [*event_stream(story(OPENAI)[:4])[:-1], End.STALL]
    scene.upstream.play(*endless)
    data = request(OPENAI.request(max_tokens=100, model="gpt-4o-mini"), key=OTHER_KEY)
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        await app.head()
        got = b""
        while story(OPENAI)[3] not in got:
            got += await app.chunk()
    await until(lambda: scene.charges("globex"))
    await until(lambda: has_charges(scene, "globex", 2))


async def has_charges(scene: Scene, tenant: str, count: int) -> bool:
    """Tell if so many exchanges were written."""
    return len(await scene.charges(tenant)) >= count


def environment() -> dict[str, str]:
    """Return where the command finds the package."""
    return {**os.environ, "PYTHONPATH": str(Path("sidecar").resolve())}


async def usage(scene: Scene, *arguments: str) -> str:
    """Return what the command prints, as an operator runs it."""
    command = [sys.executable, "-m", "tokenweir", "usage", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--ledger", scene.pod.server.url, "--hours", "2"),
        stdout=subprocess.PIPE,
        env=environment(),
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def report(scene: Scene, by: str, *more: str) -> dict[str, Any]:
    """Return a report as JSON."""
    document: dict[str, Any] = json.loads(
        await usage(scene, "--by", by, "--json", *more)
    )
    return document


def cost(prices: tuple[int, int], *calls: Told) -> int:
    """Return what calls cost, in nano-USD."""
    return sum(told.input * prices[0] + told.output * prices[1] for told in calls)


async def test_it_equals_the_script(scene: Scene) -> None:
    """By tenant, key and model: calls, tokens and costs, to the nano-USD."""
    rows = (await report(scene, "tenant,key,model,provider"))["rows"]
    told = {
        (row["tenant"], row["key"], row["model"], row["provider"]): (
            row["exchanges"],
            row["input_tokens"],
            row["output_tokens"],
            row["cost_nanousd"],
        )
        for row in rows
        if row["exchanges"] and not row["outcome_cut"]
    }
    ours = (Told(11, 7), Told(11, 7), Told(13, 9))

    assert told == {
        ("acme", "ci", "gpt-4o", "openai"): (3, 35, 23, cost(GPT_4O, *ours)),
        ("acme", "dev", "gpt-4o-mini", "openai"): (1, 20, 5, cost(MINI, Told(20, 5))),
        ("globex", "g", "claude-sonnet-5", "anthropic"): (
            *(1, 30, 9),
            cost(SONNET, Told(30, 9)),
        ),
        ("cheaper", "cheaper", "gpt-4o-mini", "openai"): (
            *(1, 11, 7),
            cost(MINI, Told(11, 7)),
        ),
        ("small", "small", "gpt-4o", "openai"): (
            *(1, 11, 300),
            cost(GPT_4O, Told(11, 300)),
        ),
    }


async def test_the_cut_stream(scene: Scene) -> None:
    """It is told apart, with the tokens that were counted and charged."""
    rows = (await report(scene, "tenant,model", "--tenant", "globex"))["rows"]
    (row,) = (row for row in rows if row["outcome_cut"])
    charges = await scene.charges("globex")

    assert (row["model"], row["source_counted"]) == ("gpt-4o-mini", 1)
    assert (row["total_input_tokens"], row["total_output_tokens"]) in charges
    assert row["cost_nanousd"] == cost(
        MINI, Told(row["total_input_tokens"], row["total_output_tokens"])
    )


async def test_users(scene: Scene) -> None:
    """Users are told apart by their code; who named none is one of no name."""
    rows = (await report(scene, "user", "--tenant", "acme"))["rows"]
    told = {row["user"]: row["total_tokens"] for row in rows}

    assert told == {
        user_code("acme", "ann"): 36,
        user_code("acme", "bob"): 22,
        "-": 25,
    }


async def test_refusals_and_savings(scene: Scene) -> None:
    """Who was refused by what, and what the cheaper model has saved, exactly."""
    total = (await report(scene, "tenant"))["total"]

    assert total["refused_by_quota"] == {"small.tokens_per_minute": 2}
    assert total["refused_by_reason"] == {"model_not_allowed": 1}
    assert total["matched_by_quota"]["small.tokens_per_minute"] == 3
    assert total["downgraded"] == 1
    saved = cost(GPT_4O, Told(11, 7)) - cost(MINI, Told(11, 7))
    assert total["saved_nanousd"] == saved


async def test_all_forms_agree(scene: Scene) -> None:
    """The table, CSV and JSON tell the same calls and costs; the parts are the total."""
    document = await report(scene, "tenant,route,hour")
    lines = list(csv.DictReader(io.StringIO(await usage(scene, "--csv"))))
    table = (await usage(scene, "--by", "tenant")).splitlines()
    total = document["total"]

    assert total["exchanges"] == 8
    assert sum(row["cost_nanousd"] for row in document["rows"]) == total["cost_nanousd"]
    assert sum(int(line["exchanges"]) for line in lines) == 8
    assert sum(int(line["refused"]) for line in lines) == 3
    (found,) = (
        line.split() for line in table if line.startswith("total ") and "." in line
    )
    assert found[1] == "8"
    assert any(line.startswith("small.tokens_per_minute  ") for line in table)
    assert any("went to a cheaper model" in line for line in table)


async def test_watch(scene: Scene) -> None:
    """What runs now is told while it runs, and as used once it has ended."""
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(11, 7))))
    body = OPENAI.request(stream=False, max_tokens=50)
    call = asyncio.create_task(scene.call(body))
    watcher = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tokenweir", "usage", "watch", "--every", "1"),
        *("--ledger", scene.pod.server.url, "--by", "tenant", "--json"),
        *("--tenant", "acme"),
        stdout=subprocess.PIPE,
        env=environment(),
        limit=1 << 20,
    )
    assert watcher.stdout is not None
    try:
        while True:
            told = json.loads(await watcher.stdout.readline())
            if told["in_flight"]["rows"]:
                break
        (row,) = told["in_flight"]["rows"]
        gate.set()
        assert (await call).status == 200
        while told["in_flight"]["rows"] or not told["minute"]["rows"]:
            told = json.loads(await watcher.stdout.readline())
    finally:
        watcher.terminate()
        await watcher.communicate()

    assert (row["tenant"], row["in_flight"]) == ("acme", 1)
    assert row["reserved_tokens"] > 50
    assert told["minute"]["total"]["exchanges"] >= 1
    assert watcher.returncode == 0
