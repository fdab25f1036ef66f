"""E13: without a processor that answers, nothing gets through, and apps are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Answer, Connection, call, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.envoy_process import EnvoyProcess
from tests.pod import CREDENTIAL, Pod, until
from tests.scripted_upstream import LAST_CHUNK, Hold, chunk, reply
from tokenweir.config.load import load_policy
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.extproc.service import SERVICE

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
NOBODY = 65_534
# Envoy waits 2 s; more is what a busy machine takes.
ANSWERED_SECONDS = 8.0
ENVIRONMENT = {"OPENAI_API_KEY": CREDENTIAL, "ANTHROPIC_API_KEY": CREDENTIAL}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod of two workers."""
    options = {"workers": 2, "program": "tests.cases.short_holds"}
    async with Scene.open(options=options) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger; the provider would answer."""
    await opened.clear()
    opened.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    return opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that everybody can look into, short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="tw-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.asynccontextmanager
async def envoy(
    scene: Scene, path: Path, *, user: int | None = None, cluster: str = ""
) -> AsyncIterator[int]:
    """Run another Envoy whose processor is at *path*; yield its port."""
    policy = load_policy(scene.pod.policy_path, ENVIRONMENT)
    settings = EnvoySettings(listen_port=0, processor_sockets=(str(path),))
    text = json.dumps(render(policy, settings))
    if cluster:
        name = f'"cluster_name": "{PROCESSOR_CLUSTER}", "skip'
        text = text.replace(name, f'"cluster_name": "{cluster}", "skip')
    started = await asyncio.to_thread(EnvoyProcess.start, json.loads(text), user=user)
    try:
        yield started.port
    finally:
        started.stop()


async def ask(port: int, api: Api) -> Answer:
    """Return the answer to the usual request."""
    return await call(port, request(api.request(stream=False), path=api.path))


async def nobody_passes(scene: Scene, port: int, api: Api) -> None:
    """Demand that a request is refused in time, and reaches nobody."""
    for method, body in (("POST", api.request(stream=False)), ("GET", b"")):
        data = request(body, path=api.path, method=method)
        answer = await call(port, data)

        error = expect(answer, api, 503, "governor_unavailable")
        assert error["tokenweir"]["retryable"] is True
        assert answer.seconds < ANSWERED_SECONDS
    assert not scene.upstream.requests
    assert not await scene.pod.ledger.records()
    await scene.pod.settled()


def nothing(path: Path) -> None:
    """Leave *path* as it is: there is nothing."""


def a_file(path: Path) -> None:
    """Put a file where a socket should be."""
    path.write_text("")


def a_folder(path: Path) -> None:
    """Put a folder where a socket should be."""
    path.mkdir()


def a_stale_socket(path: Path) -> None:
    """Leave a socket that nobody listens on."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@both_apis
@pytest.mark.parametrize("prepare", [nothing, a_file, a_folder, a_stale_socket])
async def test_e13_no_processor_at_the_path(
    scene: Scene, folder: Path, api: Api, prepare: Callable[[Path], None]
) -> None:
    """
    Where no processor is at the socket's path, nothing gets through.

    agentgateway/agentgateway#3436, envoyproxy/envoy#45220
    """
    path = folder / "processor.sock"
    prepare(path)

    async with envoy(scene, path) as port:
        await nobody_passes(scene, port, api)


async def test_e13_a_socket_of_another_service(scene: Scene) -> None:
    """
    Who listens but is no processor, such as the ledger, lets nothing through.

    envoyproxy/envoy#38521
    """
    async with envoy(scene, scene.pod.server.path) as port:
        await nobody_passes(scene, port, OPENAI)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_e13_a_socket_that_envoy_may_not_use(scene: Scene, folder: Path) -> None:
    """
    A socket without rights for Envoy's user lets nothing through. With them, it does.

    envoyproxy/envoy#38521: a bad permission failed open.
    """
    target = scene.pod.processors[0].socket
    path = folder / "processor.sock"
    os.link(target, path)
    try:
        async with envoy(scene, path, user=NOBODY) as port:
            await nobody_passes(scene, port, OPENAI)
            path.chmod(0o000)
            await nobody_passes(scene, port, OPENAI)
            path.chmod(0o777)
            answer = await ask(port, OPENAI)
    finally:
        path.chmod(0o600)

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)


async def test_e13_a_cluster_that_does_not_exist(scene: Scene, folder: Path) -> None:
    """
    A configuration whose filters name another cluster is refused, or lets nothing
    through. envoyproxy/envoy#45220: it silently failed open.
    """
    path = folder / "processor.sock"
    try:
        async with envoy(scene, path, cluster="nowhere") as port:
            answer = await ask(port, OPENAI)
    except RuntimeError as refused:
        assert "nowhere" in str(refused)  # noqa: PT017 - either is right
    else:
        expect(answer, OPENAI, 503, "governor_unavailable")
    assert not scene.upstream.requests


# === a processor that ends the stream early =======================================

Handler = Callable[[Any, Any], Awaitable[None]]


async def end_at_once(_: object, __: object) -> None:
    """End the stream, as if all was well."""


async def end_after_the_head(_: object, context: Any) -> None:
    """Take the head, say nothing to it, and end the stream, as if all was well."""
    await context.read()


async def end_after_an_answer(_: object, context: Any) -> None:
    """Answer the head as one does, and end the stream before the body."""
    await context.read()
    # The empty answer to the request's head.
    await context.write(b"\x0a\x00")
    await context.read()


async def answer_nonsense(_: object, context: Any) -> None:
    """Answer what is no message."""
    await context.read()
    await context.write(b"\xff\xff\xff")


async def answer_nothing(_: object, context: Any) -> None:
    """Answer with an empty message."""
    await context.read()
    await context.write(b"")
    await context.read()


async def answer_another_phase(_: object, context: Any) -> None:
    """Answer as if it had been a response's head."""
    await context.read()
    await context.write(b"\x12\x00")
    await context.read()


async def abort(_: object, context: Any) -> None:
    """End the stream with an error."""
    await context.read()
    await context.abort(grpc.StatusCode.UNAVAILABLE, "sk-CANARY")


HANDLERS = (
    end_at_once,
    end_after_the_head,
    end_after_an_answer,
    answer_nonsense,
    answer_nothing,
    answer_another_phase,
    abort,
)


@contextlib.asynccontextmanager
async def processor(path: Path, handler: Handler) -> AsyncIterator[None]:
    """Serve *handler* at *path*."""
    server = grpc.aio.server()
    process = grpc.stream_stream_rpc_method_handler(handler)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Process": process}),)
    )
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


@both_apis
@pytest.mark.parametrize("handler", HANDLERS)
async def test_e13_a_stream_that_ends_early(
    scene: Scene, folder: Path, api: Api, handler: Handler
) -> None:
    """
    A processor that ends its stream before it has admitted a request, in whatever
    way, has not admitted it: the provider is not contacted.

    agentgateway/agentgateway#3436: a clean end could mean "carry on".
    """
    path = folder / "processor.sock"
    async with processor(path, handler), envoy(scene, path) as port:
        answer = await ask(port, api)

    expect(answer, api, 503, "governor_unavailable")
    assert answer.seconds < ANSWERED_SECONDS
    assert b"CANARY" not in answer.body
    assert not scene.upstream.requests


# === processors that come and go ==================================================


async def test_e13_one_of_two_is_gone(scene: Scene) -> None:
    """
    While one worker is down, the other one serves all. agentgateway/agentgateway#3436
    """
    first, second = scene.pod.processors
    for gone in (first, second):
        await asyncio.to_thread(gone.kill)
        answers = [await ask(scene.pod.port, OPENAI) for _ in range(10)]
        await asyncio.to_thread(gone.restart)

        assert {answer.status for answer in answers} == {200}
        await until(lambda: serves_with_both(scene.pod))
    await scene.ledger_shows(*[CHARGED] * len(scene.upstream.requests))


async def serves_with_both(pod: Pod) -> bool:
    """Tell if Envoy has found both workers again."""
    stats = await asyncio.to_thread(pod.envoy.stats, "membership_healthy")
    return stats[f"cluster.{PROCESSOR_CLUSTER}.membership_healthy"] == 2


async def test_e13_both_are_gone_and_come_back(scene: Scene) -> None:
    """
    While no worker is up, nothing gets through, but what is under way; then all does.

    agentgateway/agentgateway#3436
    """
    gate = asyncio.Event()
    pieces = [chunk(piece) for piece in story(OPENAI)]
    scene.upstream.play_next(
        STREAM_HEAD, *pieces[:3], Hold(gate), *pieces[3:], LAST_CHUNK
    )
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        await app.head()
        got = await app.chunk()
        for gone in scene.pod.processors:
            await asyncio.to_thread(gone.kill)
        refused = await ask(scene.pod.port, OPENAI)
        gate.set()
        got += await app.rest()

    assert got == b"".join(story(OPENAI))
    expect(refused, OPENAI, 503, "governor_unavailable")
    assert len(scene.upstream.requests) == 1
    for gone in scene.pod.processors:
        await asyncio.to_thread(gone.restart)
    await until(lambda: serves_again(scene), 30.0)
    await scene.pod.settled(60.0)
    outcomes = [each["outcome"] for each in await scene.pod.ledger.records()]
    assert sorted(outcomes) == ["completed", "lost"]


async def serves_again(scene: Scene) -> bool:
    """Tell if a request gets through."""
    return (await ask(scene.pod.port, OPENAI)).status == 200
