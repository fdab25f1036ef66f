"""Kinds of changes to a policy, and kinds of ways in which a file changes."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, story
from tests.cases.connection import MESSAGES, Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import KEY, OTHER_KEY, Processor, sha256, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    ReceivedRequest,
    ScriptedUpstream,
    Step,
    chunk,
    reply,
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
RELOAD_SECONDS = 5.0
QUOTAS = [{"requests_per_minute": 1, "capacity": 100}]
BODY = OPENAI.request(stream=False)
Content = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod of two workers."""
    async with Scene.open(quotas=QUOTAS, options={"workers": 2}) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> AsyncIterator[Scene]:
    """Give a test the pod with an empty ledger, and its first policy afterwards."""
    first = opened.pod.policy_path.read_text()
    await opened.clear()
    opened.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    yield opened
    await put(opened, yaml.safe_load(first))
    for processor in opened.pod.processors:
        assert processor.count("fault") == 0


def content_of(scene: Scene) -> Content:
    """Return the policy, for changes."""
    content: Content = yaml.safe_load(scene.pod.policy_path.read_text())
    return copy.deepcopy(content)


def replace(path: Path, text: str) -> None:
    """Put *text* in place of the file, as an editor does."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


async def put(scene: Scene, content: Content) -> None:
    """Put *content* in force, with all workers."""
    before = [loaded(each) for each in scene.pod.processors]
    replace(scene.pod.policy_path, yaml.safe_dump(content))
    for each in scene.pod.processors:
        each.process.send_signal(signal.SIGHUP)

    def is_loaded() -> bool:
        now = [loaded(each) for each in scene.pod.processors]
        return all(new > old for new, old in zip(now, before, strict=True))

    await until(is_loaded)


def loaded(processor: Processor) -> int:
    """Return how many policies it has loaded."""
    return processor.count("policy_loaded")


async def status(scene: Scene, key: str = KEY, model: str = "gpt-4o") -> int:
    """Return the status of a call."""
    body = OPENAI.request(stream=False, model=model)
    return (await scene.call(body, key=key)).status


async def becomes(scene: Scene, asked: Callable[[], Awaitable[int]], to: int) -> None:
    """Demand that the status turns to *to* in time, with every worker."""

    async def is_so() -> bool:
        statuses = [await asked() for _ in range(8)]
        return set(statuses) == {to}

    await until(is_so, RELOAD_SECONDS)


def as_asked(asked: ReceivedRequest) -> list[Step]:
    """Return an answer of the API that was called."""
    return [reply((OPENAI if "chat" in asked.target else ANTHROPIC).reply("Hi.", TOLD))]


Change = Callable[[Content], object]
ACME = "acme"


def lower(content: Content) -> None:
    """Let nobody through any more."""
    content["tenants"][ACME]["quotas"] = [{"requests_per_minute": 1, "capacity": 1}]


def rename_key(content: Content) -> None:
    """Have the tenant another key."""
    content["tenants"][ACME]["keys"] = [{"id": "new", "sha256": sha256("sk-new")}]


def forbid_model(content: Content) -> None:
    """Leave the tenant one other model."""
    content["tenants"][ACME]["models"] = ["gpt-4o-mini"]


def remove_model(content: Content) -> None:
    """Have the model no longer."""
    del content["models"]["gpt-4o"]


def remove_tenant(content: Content) -> None:
    """Have the tenant no longer."""
    del content["tenants"][ACME]


CHANGES: dict[str, tuple[Change, int]] = {
    "a limit": (lower, 429),
    "a key": (rename_key, 401),
    "a list of models": (forbid_model, 403),
    "a model": (remove_model, 403),
    "a tenant": (remove_tenant, 401),
}


def gated(gate: asyncio.Event) -> list[Step]:
    """Return a stream that waits for *gate* in its middle."""
    pieces = [chunk(piece) for piece in story(OPENAI)]
    return [STREAM_HEAD, *pieces[:4], Hold(gate), *pieces[4:], LAST_CHUNK]


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_applies_in_time(scene: Scene, name: str) -> None:
    """
    Within five seconds, unasked, new exchanges go by what has changed; one that runs
    keeps what it began with, and is settled as its own.
    """
    change, refused = CHANGES[name]
    content = content_of(scene)
    change(content)
    gate = asyncio.Event()
    scene.upstream.play_next(*gated(gate))
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        await app.head()
        got = await app.chunk()
        replace(scene.pod.policy_path, yaml.safe_dump(content))
        await becomes(scene, lambda: status(scene), refused)
        gate.set()
        got += await app.rest()

    assert got == b"".join(story(OPENAI))
    await scene.ledger_shows(*[CHARGED] * len(scene.upstream.requests))
    policies = {each["policy"] for each in await scene.pod.ledger.records()}
    assert len(policies) in (1, 2)


async def test_a_new_key_and_a_key_of_another(scene: Scene) -> None:
    """A new key opens the door; one that moved is paid for by its new tenant."""
    content = content_of(scene)
    assert await status(scene, "sk-new") == 401
    moved = content["tenants"]["globex"]["keys"]
    content["tenants"]["globex"]["keys"] = [{"id": "new", "sha256": sha256("sk-new")}]
    content["tenants"][ACME]["keys"] += moved
    await put(scene, content)

    assert await status(scene, "sk-new") == 200
    assert await status(scene, OTHER_KEY) == 200
    await scene.ledger_shows(CHARGED)
    await scene.ledger_shows(CHARGED, tenant="globex")


async def test_what_is_left_stays_left(scene: Scene) -> None:
    """
    What was used stays used: a bucket that is made larger is not filled by that, and
    one that is made smaller than what was used lets nobody through.
    """
    for _ in range(60):
        assert await status(scene) == 200
    content = content_of(scene)
    for capacity, left in ((200, 139), (100, 38), (30, None), (300, 237)):
        quota = {"requests_per_minute": 1, "capacity": capacity}
        content["tenants"][ACME]["quotas"] = [quota]
        await put(scene, content)
        answer = await scene.call(BODY)

        assert answer.status == (429 if left is None else 200)
        if left is None:
            continue
        assert answer.header("x-ratelimit-limit-requests") == str(capacity)
        told = int(answer.header("x-ratelimit-remaining-requests") or -1)
        assert told in (left, left + 1)  # one comes back a minute


# === what Envoy has to be rendered for ============================================


def new_provider(content: Content) -> None:
    """Have a model at a provider that was not there."""
    content["providers"]["new"] = content["providers"]["openai"]
    content["models"]["new"] = {"provider": "new"}
    content["models"]["gpt-4o"]["provider"] = "new"


def other_prefix(content: Content) -> None:
    """Have the provider behind another path."""
    content["providers"]["openai"]["base_url"] += "/elsewhere"


def outdated(processor: Processor) -> list[str]:
    """Return what it said last of Envoy's configuration: what is not up to date."""
    lines = [each for each in processor.lines() if each["event"] == "envoy_outdated"]
    return list(lines[-1]["stale"]) if lines else []


def refusals_told(scene: Scene) -> int:
    """Return how many lines there are of exchanges that were refused for it."""
    lines = scene.pod.exchanges()
    return sum(line.get("reason") == "envoy_outdated" for line in lines)


async def test_a_provider_that_has_moved(scene: Scene, tmp_path: Path) -> None:
    """
    The new credential goes to the new address or to nobody: never to the old address,
    which is the only one that the running Envoy knows.
    """
    secret = tmp_path / "key"
    secret.write_text("sk-moved-CANARY")
    scene.upstream.choose(as_asked)
    before = refusals_told(scene)
    assert await status(scene) == 200
    async with ScriptedUpstream() as elsewhere:
        content = content_of(scene)
        moved = {"base_url": f"http://127.0.0.1:{elsewhere.port}"}
        moved["credential"] = f"file:{secret}"
        content["providers"]["openai"] |= moved
        await put(scene, content)
        answers = [await scene.call(BODY) for _ in range(8)]
        listed = await scene.call(method="GET", path="/v1/models")
        message = await scene.call(ANTHROPIC.request(stream=False), path=MESSAGES)

        for answer in (*answers, listed):
            expect(answer, OPENAI, 503, "envoy_outdated")
        assert message.status == 200  # of a provider that has stayed where it was
        assert not elsewhere.received
        assert all(b"CANARY" in each for each in scene.upstream.received)
        assert not any(b"sk-moved" in each for each in scene.upstream.received)
    assert len(scene.upstream.requests) == 2
    await scene.ledger_shows(CHARGED, CHARGED)
    for each in scene.pod.processors:
        assert outdated(each) == ["providers.openai"]
        assert each.metric("tokenweir_envoy_outdated") == 1
        assert (
            "providers.openai" in json.loads(each.admin("/readyz"))["checks"]["envoy"]
        )
    await until(lambda: refusals_told(scene) == before + 9)


@pytest.mark.parametrize("change", [new_provider, other_prefix])
async def test_a_provider_that_envoy_does_not_know_yet(
    scene: Scene, change: Change
) -> None:
    """
    Envoy's own configuration does not follow: a call to what it does not know is
    refused and says so, reaches nobody, and never holds anything.
    """
    content = content_of(scene)
    change(content)
    await put(scene, content)
    answer = await scene.call(OPENAI.request())

    expect(answer, OPENAI, 503, "envoy_outdated")
    assert await scene.pod.ledger.outstanding() == 0
    assert not scene.upstream.requests
    await scene.ledger_shows()


async def test_what_envoy_does_without(scene: Scene) -> None:
    """
    A timeout class that Envoy does not know yet is no reason to refuse: `default`
    holds meanwhile, and the operator is told.
    """
    content = content_of(scene)
    content["timeouts"] = {"new": {"total": "1h"}}
    content["models"]["gpt-4o"]["timeout_class"] = "new"
    content["retries"] = 3
    await put(scene, content)

    assert [await status(scene) for _ in range(8)] == [200] * 8
    await scene.ledger_shows(*[CHARGED] * 8)
    for each in scene.pod.processors:
        assert outdated(each) == ["timeouts.new", "retries"]
        assert each.metric("tokenweir_envoy_outdated") == 2
        assert json.loads(each.admin("/readyz"))["ready"] is True


# === files ========================================================================

BAD = {
    "no YAML": "version: 1\n  tenants: [",
    "nothing": "",
    "an unknown field": "version: 1\nproviders: {}\nmodels: {}\ntenants: {}\nx: 1\n",
    "another version": "version: 2\n",
    "a binary": "\x00\x01\x02",
    "a list": "- 1\n",
}


def refusals(processor: Processor) -> int:
    """Return how often a policy was refused, by the log and by the metric."""
    lines = processor.count("policy_refused")
    counted = processor.metric("tokenweir_policy_refused_total")
    return lines if lines == counted else -1


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_policy_changes_nothing(scene: Scene, name: str) -> None:
    """It is logged, counted once, and the last good one serves on."""
    first, second = scene.pod.processors
    before = refusals(first), refusals(second)
    digest = first.metric("tokenweir_policy_info")
    replace(scene.pod.policy_path, BAD[name])
    await until(lambda: refusals(first) == before[0] + 1, RELOAD_SECONDS)
    await until(lambda: refusals(second) == before[1] + 1, RELOAD_SECONDS)

    assert [await status(scene) for _ in range(8)] == [200] * 8
    await asyncio.sleep(2.5)  # it is looked at again, and says nothing new
    assert refusals(first) == before[0] + 1
    assert first.metric("tokenweir_policy_info") == digest == 1
    await scene.ledger_shows(*[CHARGED] * 8)


async def test_a_policy_that_is_gone(scene: Scene) -> None:
    """A file that is deleted, or replaced by a folder, leaves the last good policy."""
    path = scene.pod.policy_path
    text = path.read_text()
    first = scene.pod.processors[0]
    before = refusals(first)
    path.unlink()
    await until(lambda: refusals(first) > before, RELOAD_SECONDS)
    assert await status(scene) == 200

    path.mkdir()
    first.process.send_signal(signal.SIGHUP)
    await until(lambda: refusals(first) > before + 1, RELOAD_SECONDS)
    assert await status(scene) == 200
    path.rmdir()
    replace(path, text)


async def test_hangup_reads_at_once(scene: Scene) -> None:
    """SIGHUP reads the policy now, changed or not, good or not, and says so."""
    first = scene.pod.processors[0]
    good = loaded(first)
    began = time.monotonic()
    first.process.send_signal(signal.SIGHUP)
    await until(lambda: loaded(first) == good + 1)
    assert time.monotonic() - began < RELOAD_SECONDS

    text, bad = scene.pod.policy_path.read_text(), refusals(first)
    replace(scene.pod.policy_path, "version: 2\n")
    first.process.send_signal(signal.SIGHUP)
    await until(lambda: refusals(first) == bad + 1)
    replace(scene.pod.policy_path, text)
    first.process.send_signal(signal.SIGHUP)
    await until(lambda: loaded(first) == good + 2)

    for _ in range(20):  # in a burst: they may fall together, and harm nobody
        first.process.send_signal(signal.SIGHUP)
    assert await status(scene) == 200


async def test_a_policy_that_is_being_written(scene: Scene) -> None:
    """
    A file that grows in place is not taken for a policy with fewer tenants.
    """
    content = content_of(scene)
    content["tenants"] = dict(sorted(content["tenants"].items()))
    text = yaml.safe_dump(content, sort_keys=False)
    cut = text.index("  globex:")
    assert yaml.safe_load(text[:cut])["tenants"]
    statuses = []
    for _ in range(4):
        scene.pod.policy_path.write_text(text[:cut])
        await asyncio.sleep(0.6)
        with scene.pod.policy_path.open("a") as file:
            file.write(text[cut:])
        for _ in range(8):
            statuses.append(await status(scene, OTHER_KEY))
            await asyncio.sleep(0.1)

    assert set(statuses) == {200}


async def test_a_policy_behind_a_link(scene: Scene) -> None:
    """A ConfigMap's way: the link to the folder of all files is turned in one step."""
    path = scene.pod.policy_path
    good, content = path.read_text(), content_of(scene)
    lower(content)
    for name, text in (("one", good), ("two", yaml.safe_dump(content))):
        (path.parent / name).mkdir()
        (path.parent / name / path.name).write_text(text)
    data = path.parent / "..data"
    data.symlink_to("one")
    path.unlink()
    path.symlink_to(f"..data/{path.name}")
    assert await status(scene) == 200

    fresh = path.parent / "..data_tmp"
    fresh.symlink_to("two")
    fresh.replace(data)
    await becomes(scene, lambda: status(scene), 429)
    path.unlink()
    path.write_text(good)


async def test_changes_under_load(scene: Scene) -> None:
    """
    While a policy changes all the time, every call is served and charged once.
    """
    content = content_of(scene)
    content["tenants"][ACME]["quotas"] = [
        {"requests_per_minute": 1, "capacity": 10_000}
    ]
    await put(scene, content)
    over = asyncio.Event()
    scene.upstream.choose(as_asked)

    async def load() -> list[int]:
        statuses = []
        while not over.is_set():
            statuses.append(await status(scene))
            body = ANTHROPIC.request(stream=False)
            statuses.append((await scene.call(body, path=MESSAGES)).status)
        return statuses

    loads = [asyncio.create_task(load()) for _ in range(4)]
    for number in range(10):
        content["tenants"][ACME]["quotas"][0]["capacity"] = 10_000 + number
        await put(scene, content)
        await asyncio.sleep(0.1)
    over.set()
    statuses = [status for each in await asyncio.gather(*loads) for status in each]

    assert set(statuses) == {200}
    await scene.ledger_shows(*[CHARGED] * len(statuses))
    policies = {each["policy"] for each in await scene.pod.ledger.records()}
    assert len(policies) > 5
