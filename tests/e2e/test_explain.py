"""What `tokenweir explain` says of a pod's ledger is what the pod then does."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, Told
from tests.cases.connection import Answer
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.scripted_upstream import reply
from tokenweir.cli.main import main

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Not what differs from call to call: the moment, and what follows from it.
TIMES = ("retry_after_ms", "used")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod whose tenants have a limit and a budget."""
    prices = overlay(tmp_path_factory.mktemp("prices"))
    cheaper = {"downgrade_to": "gpt-4o-mini", "hard_limit_usd": 0.2}

    def adapt(content: dict[str, Any]) -> None:
        tenants(
            tight=[{"tokens_per_minute": 60, "capacity": 2_000}, {"concurrency": 4}],
            spent=[{"budget_usd": 0.05, "per": "month", "on_exceeded": cheaper}],
        )(content)
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(adapt=adapt) as opened:
        yield opened


async def asked(scene: Scene, tenant: str, data: bytes, folder: Path) -> dict[str, Any]:
    """Return what is said of *data*; the ledger is the same before and after."""
    before = await everything(scene)
    arguments = ["explain", "--policy", str(scene.pod.policy_path)]
    arguments += ["--ledger", scene.pod.server.url, "--key-id", tenant, "--json"]
    file = folder / "request.json"
    file.write_bytes(data)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert await asyncio.to_thread(main, [*arguments, str(file)]) == 0
    assert await everything(scene) == before
    assert before
    found = json.loads(out.getvalue())
    assert isinstance(found, dict)
    return found


async def everything(scene: Scene) -> dict[bytes, bytes]:
    """Return levels, holds and records as they are kept: what an exchange changes."""
    # Not the lease and the sums: processors write those whenever they like.
    names = await scene.redis("KEYS", "{tw:*}:*")
    kept = [name for name in names if name.split(b"}:")[1][:1] in b"ebsdwhxru"]
    return {name: await scene.redis("DUMP", name) for name in sorted(kept)}


def timeless(body: Any) -> Any:
    """Return a refusal's body without what differs from call to call."""
    if isinstance(body, dict):
        return {k: timeless(v) for k, v in body.items() if k not in (*TIMES, "message")}
    return [timeless(each) for each in body] if isinstance(body, list) else body


async def spend(scene: Scene, tenant: str, told: Told) -> Answer:
    """Make one call that takes as much as is *told*, and wait until it is settled."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", told)))
    data = OPENAI.request(stream=False, max_tokens=1_000)
    answer = await scene.call(data, key=key_of(tenant))
    await scene.pod.settled()
    return answer


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-x")


async def test_a_refusal(scene: Scene, tmp_path: Path) -> None:
    """The body that it says the client would get is the one that the client gets."""
    await scene.clear()
    await spend(scene, "tight", Told(11, 1_500))
    data = OPENAI.request(stream=False, max_tokens=1_000)
    said = await asked(scene, "tight", data, tmp_path)
    answer = await scene.call(data, key=key_of("tight"))

    assert (said["decision"]["admitted"], answer.status) == (False, 429)
    assert said["reply"]["status"] == answer.status
    assert timeless(said["reply"]["body"]) == timeless(answer.json())
    for name, value in said["reply"]["headers"].items():
        if "reset" not in name and "retry-after" not in name and "limit" not in name:
            assert answer.header(name) == value
    [reservation] = said["reservations"]
    left = {each["quota"]: each for each in reservation["limits"]}
    assert 489 <= left["tight.tokens_per_minute"]["before"]["remaining"] < 600
    assert left["tight.concurrency"]["before"]["remaining"] == 4


async def test_a_downgrade(scene: Scene, tmp_path: Path) -> None:
    """The model that it says would answer is the one that the provider is asked for."""
    await scene.clear()
    await spend(scene, "spent", Told(11, 2_400))
    data = OPENAI.request(stream=False, max_tokens=1_000)
    said = await asked(scene, "spent", data, tmp_path)
    await spend(scene, "spent", Told(11, 7))

    assert said["decision"]["downgraded_from"] == "gpt-4o"
    assert [each["outcome"] for each in said["reservations"]] == ["denied", "granted"]
    sent = json.loads(scene.upstream.requests[-1].body)
    assert sent["model"] == said["target"]["upstream_model"] == "gpt-4o-mini"
    changed = {
        name for name, edit in said["edits"].items() if edit["to"] != edit["from"]
    }
    assert changed == {"model"}
