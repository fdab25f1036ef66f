"""A changed policy reaches an Envoy that runs, and nobody who is calling notices."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
import yaml

from tests.cases.connection import Connection
from tests.cases.scene import Scene
from tests.e2e.live import (
    CHARGED,
    LONG,
    PATIENT,
    REPLY,
    SHORT,
    SLOW,
    STREAM,
    Content,
    Load,
    Policies,
    Provider,
    ask,
    replace,
)
from tests.pod import Pod, start_following, until

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

STREAMS = 50
RELOADS = 200
BROKEN = "version: 1\nproviders: {"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod of two workers, whose Envoy follows the policy."""
    options = {"live": True, "workers": 2, **PATIENT}
    async with Scene.open(options=options) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> AsyncIterator[Scene]:
    """Give a test the pod with an empty ledger, and its first policy afterwards."""
    first = opened.pod.policy_path.read_text()
    await opened.clear()
    yield opened
    await Policies(opened.pod).put(first)
    for processor in opened.pod.processors:
        assert processor.count("fault") == 0


def changes(content: Content, upstream_port: int) -> Iterator[Content]:
    """Yield ever other policies: limits, models, providers, timeouts, routes' sizes."""
    here = f"http://127.0.0.1:{upstream_port}"
    for number in range(RELOADS):
        changed = copy.deepcopy(content)
        providers, models = changed["providers"], changed["models"]
        match number % 8:
            case 0 | 4:
                quota = {"requests_per_minute": 1_000_000 + number}
                changed["tenants"]["acme"]["quotas"] = [quota]
            case 1:  # one is new, and goes again with the next
                providers["new"] = {"base_url": f"{here}/{number}", "dialect": "openai"}
                models["new"] = {"provider": "new"}
            case 2 | 6:
                changed["timeouts"] = {"default": {"total": f"{1000 + number}s"}}
            case 3:  # the one that is in use moves, and back with the next
                providers["openai"]["base_url"] = f"{here}/{number}"
            case 5:
                models["gpt-4o"]["max_output_tokens"] = 10_000 + number
                changed["retries"] = number % 3
            case _:
                changed["body_limit"] = f"{1024 + number}KiB"
                del models["gpt-4o-mini"]
        yield changed


def whole(pod: Pod) -> bool:
    """Tell if what Envoy follows is whole, and it has never thought otherwise."""
    for path in pod.xds.glob("*.json"):
        json.loads(path.read_text())
    return not any(pod.envoy.stats("update_failure").values())


def is_on_its_files(pod: Pod) -> bool:
    """Tell if Envoy has applied what is in the files now."""
    told = pod.envoy.admin("/stats?filter=version_text")
    files = [json.loads(path.read_text()) for path in pod.xds.glob("?ds.json")]
    return all(f'"{each["version_info"]}"' in told for each in files)


def refused(pod: Pod) -> int:
    """Return how often Envoy has refused something."""
    return sum(pod.envoy.stats("update_rejected").values())


async def test_two_hundred_policies(scene: Scene) -> None:
    """
    200 policies while 50 streams are open and others come and go: none is dropped, none
    fails, every byte is there, and each is settled once. A broken one changes nothing.
    """
    provider, load, pod = Provider(), Load(scene), scene.pod
    scene.upstream.choose(provider)
    policies = Policies(pod)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(Connection.open(pod.port))
            for _ in range(STREAMS)
        ]
        for stream in streams:
            await stream.send(ask(LONG))
        begun = [await stream.head() for stream in streams]
        apps = [*[ask(SHORT)] * 2, *[ask(SLOW)] * 2]
        async with load.running(apps):
            for number, content in enumerate(
                changes(policies.content, scene.upstream.port)
            ):
                await policies.put(content)
                if number % 50 == 25:
                    await policies.put(BROKEN, "policy_refused")
        provider.gate.set()
        rest = [await stream.rest() for stream in streams]

    assert {head.status for head in begun} == {200}
    assert set(rest) == {STREAM}
    assert load.bad == []
    assert load.answers > STREAMS
    count = load.answers + STREAMS
    assert len(scene.upstream.requests) == count
    assert len({asked.target for asked in scene.upstream.requests}) > 1
    await scene.ledger_shows(*[CHARGED] * count)
    assert whole(pod)
    assert refused(pod) == 0
    listeners = pod.envoy.stats("listener_manager.listener_")
    assert listeners["listener_manager.listener_added"] == 1
    assert listeners["listener_manager.listener_modified"] == 0


async def test_a_new_provider_is_called_at_once(scene: Scene) -> None:
    """The first call after a reload finds what is new; what has gone is known to none."""
    scene.upstream.choose(Provider())
    policies = Policies(scene.pod)
    changed = copy.deepcopy(policies.content)
    here = f"http://127.0.0.1:{scene.upstream.port}/new"
    changed["providers"]["new"] = {"base_url": here, "dialect": "openai"}
    changed["models"]["new"] = {"provider": "new"}
    before = await scene.call(data_of("new"))
    await policies.put(changed)
    after = [await scene.call(data_of("new")) for _ in range(8)]
    await policies.put(policies.content)
    again = await scene.call(data_of("new"))

    assert [before.refusal, again.refusal] == ["model_not_allowed"] * 2
    assert [answer.body for answer in after] == [REPLY] * 8
    assert {asked.target[:5] for asked in scene.upstream.requests} == {"/new/"}
    await scene.ledger_shows(*[CHARGED] * 8)


def data_of(model: str) -> bytes:
    """Return the body of a short call to *model*."""
    return ask(SHORT, model).partition(b"\r\n\r\n")[2]


async def test_what_envoy_refuses(scene: Scene) -> None:
    """
    A policy that Envoy refuses is in force with nobody: its files are what they were,
    calls go on by the policy before, and it is told. The next good one is taken.
    """
    provider, load, pod = Provider(), Load(scene), scene.pod
    scene.upstream.choose(provider)
    policies = Policies(pod)
    odd = copy.deepcopy(policies.content)
    odd["providers"]["odd"] = {"base_url": "http://127.0.0.1:9", "dialect": "openai"}
    odd["tenants"]["acme"]["quotas"] = [{"requests_per_minute": 1, "capacity": 1}]
    rejected = refused(pod)
    async with load.running([ask(SHORT)] * 2):
        await policies.put(odd, "policy_refused")
        calls = [await scene.call(data_of("gpt-4o")) for _ in range(8)]
    problems = [
        line["problems"]
        for each in pod.processors
        for line in each.lines()
        if line["event"] == "policy_refused"
    ]
    told = "tokenweir_envoy_updates_total"
    metrics = [each.metric(f'{told}{{outcome="refused"}}') for each in pod.processors]

    assert [answer.status for answer in calls] == [200] * 8
    assert load.bad == []
    assert problems[-1][0].startswith("envoy: has refused the new cds.json")
    assert refused(pod) > rejected
    assert min(metrics) >= 1
    assert not any(b"odd-" in path.read_bytes() for path in pod.xds.glob("?ds.json"))
    await until(lambda: is_on_its_files(pod))
    await policies.put({**policies.content, "retries": 1})
    assert (await scene.call(data_of("gpt-4o"))).status == 200
    await scene.ledger_shows(*[CHARGED] * (load.answers + 9))


async def test_a_writer_that_is_killed(scene: Scene) -> None:
    """
    A worker that is killed while it brings a policy to Envoy leaves whole files behind;
    the other one goes on, and it comes back to what is in force.
    """
    scene.upstream.choose(Provider())
    pod = scene.pod
    first, second = pod.processors
    content, rejected = Policies(pod).content, refused(pod)
    loaded = second.count("policy_loaded")
    content["providers"]["openai"]["base_url"] += "/killed"
    replace(pod.policy_path, yaml.safe_dump(content).encode())
    first.process.send_signal(signal.SIGHUP)
    await asyncio.sleep(0.06)  # wherever it is by then
    first.kill()
    second.process.send_signal(signal.SIGHUP)
    await until(lambda: second.count("policy_loaded") > loaded, 60)

    assert await statuses(scene) == {200}
    assert scene.upstream.requests[-1].target.startswith("/killed/")
    assert whole(pod)
    await asyncio.to_thread(first.restart)
    assert await statuses(scene) == {200}
    assert refused(pod) == rejected


async def statuses(scene: Scene) -> set[int]:
    """Return what calls come to, of which every worker has some."""
    return {(await scene.call(data_of("gpt-4o"))).status for _ in range(16)}


async def test_envoy_comes_back(scene: Scene) -> None:
    """An Envoy that is started again alone is on the policy that is in force."""
    scene.upstream.choose(Provider())
    pod = scene.pod
    policies = Policies(pod)
    changed = copy.deepcopy(policies.content)
    changed["providers"]["openai"]["base_url"] += "/moved"
    await policies.put(changed)
    pod.envoy.stop()
    pod.envoy = await asyncio.to_thread(start_following, pod.xds)

    assert await statuses(scene) == {200}
    assert {asked.target[:7] for asked in scene.upstream.requests} == {"/moved/"}
    await policies.put(policies.content)
    assert await statuses(scene) == {200}
    assert scene.upstream.requests[-1].target.startswith("/v1/")
