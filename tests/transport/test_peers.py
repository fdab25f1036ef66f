"""Other implementations as peers of each server: grpcio and nghttp2."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.recorder import Recorder
from tests.transport.http2.dialogue import framed
from tests.transport.http2.echo import PATH, STREAM_PATH, Echo
from tokenweir.transport.choice import Transport, make_server

STATUS = health_pb2.HealthCheckResponse
H2LOAD = shutil.which("h2load")


class Site:
    """A server of two services, and grpcio's channel to it."""

    def __init__(self, folder: Path, transport: Transport) -> None:
        self.path = folder / "sidecar.sock"
        self.echo = Echo()
        self.sink = Echo(STREAM_PATH, b"bye")
        self.recorder = Recorder()
        self.server = make_server(
            transport, (self.echo, self.sink), self.path, self.recorder
        )
        self.channel = grpc.aio.insecure_channel(
            f"unix:{self.path}",
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
            ],
        )


@contextlib.asynccontextmanager
async def served(transport: Transport) -> AsyncIterator[Site]:
    """Return a site, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        site = Site(Path(folder), transport)
        await site.server.start()
        yield site
        await site.channel.close()
        await site.server.stop(0)


@pytest.fixture(params=Transport)
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """Return a site of each transport, one after the other."""
    async with served(request.param) as site:
        yield site


async def code_of(call: Any) -> grpc.StatusCode:
    """Return how *call* ends."""
    async with asyncio.timeout(30):
        code: grpc.StatusCode = await call.code()
    return code


async def test_one_to_one(site: Site) -> None:
    """A call of one message and one answer ends well."""
    call = site.channel.unary_unary(PATH)(b"last")

    assert await call == b"last"
    assert await code_of(call) is grpc.StatusCode.OK


async def test_many_to_one(site: Site) -> None:
    """A client that streams, as Envoy's access log does, gets one answer at its end."""

    async def entries() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"quiet " + b"x" * 1_000

    call = site.channel.stream_unary(STREAM_PATH)(entries())

    assert await call == b"bye"
    assert await code_of(call) is grpc.StatusCode.OK
    [served] = site.sink.calls
    assert len(served.got) == 300
    assert served.closes == 1


async def test_many_to_one_cut_off(site: Site) -> None:
    """If that client breaks off, what it said has been heard, and its call is closed."""
    call = site.channel.stream_unary(STREAM_PATH)()
    await call.write(b"quiet")
    async with asyncio.timeout(30):
        while not (site.sink.calls and site.sink.calls[0].got):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        call.cancel()
        while not site.sink.calls[0].closes:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert site.sink.calls[0].closes == 1
    assert site.recorder.faults == []


async def test_both_services_at_once(site: Site) -> None:
    """Streams of both services are open side by side, on one connection."""
    talk = site.channel.stream_stream(PATH)()
    listen = site.channel.stream_unary(STREAM_PATH)()
    for number in range(20):
        word = str(number).encode()
        await listen.write(b"quiet " + word)
        await talk.write(word)
        assert await talk.read() == word
    await listen.done_writing()
    await talk.done_writing()

    assert await listen == b"bye"
    assert await talk.read() is grpc.aio.EOF


async def test_watch(site: Site) -> None:
    """Who watches health hears of a drain."""
    call = health_pb2_grpc.HealthStub(site.channel).Watch(
        health_pb2.HealthCheckRequest()
    )
    async with asyncio.timeout(30):
        assert (await call.read()).status == STATUS.SERVING
        await site.server.drain()
        assert (await call.read()).status == STATUS.NOT_SERVING
    call.cancel()


async def test_check_of_another_service(site: Site) -> None:
    """Health of a service that nobody knows is not found."""
    stub = health_pb2_grpc.HealthStub(site.channel)
    call = stub.Check(health_pb2.HealthCheckRequest(service="other"))

    assert await code_of(call) is grpc.StatusCode.NOT_FOUND


async def test_unknown_method(site: Site) -> None:
    """What nobody serves is not implemented."""
    call = site.channel.unary_unary("/test.Echo/Other")(b"one")

    assert await code_of(call) is grpc.StatusCode.UNIMPLEMENTED


async def test_deadline(site: Site) -> None:
    """A call whose client waits no longer is cancelled, and closed."""
    call = site.channel.unary_unary(PATH)(b"wait", timeout=0.05)
    assert await code_of(call) is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(30):
        while not all(each.closes for each in site.echo.calls):  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert site.recorder.faults == []


async def test_metadata(site: Site) -> None:
    """As much as Envoy may tell of what it was rendered from is heard."""
    told = "openai=1f2e," * 1_600
    call = site.channel.unary_unary(PATH)(b"last", metadata=(("x-rendered", told),))

    assert await call == b"last"
    assert site.echo.metadata[0]["x-rendered"] == told


async def test_compressed(site: Site) -> None:
    """Whether a compressed message is read or not, the peer is told which."""
    call = site.channel.unary_unary(PATH)(
        b"last " + b"x" * 10_000, compression=grpc.Compression.Gzip
    )

    assert await code_of(call) in (grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED)


async def test_large_messages(site: Site) -> None:
    """Messages as large as bodies may be pass both ways, beside small ones."""
    size = 20_000_000
    call = site.channel.stream_stream(PATH)()
    await call.write(b"quiet " + b"x" * size)
    await call.write(b"large %d" % size)
    other = site.channel.unary_unary(PATH)(b"last")
    assert await other == b"last"

    assert len(await call.read()) == size
    [got, _] = site.echo.calls[0].got
    assert len(got) == size + 6
    call.cancel()


@pytest.mark.parametrize(("streams", "answer"), [(1, b"last"), (100, b"last")])
async def test_nghttp2(site: Site, tmp_path: Path, streams: int, answer: bytes) -> None:
    """nghttp2's own client finds nothing to complain about, thousands of times."""
    if H2LOAD is None:
        pytest.skip("no h2load here; Debian has it in nghttp2-client")
    body = tmp_path / "body"
    body.write_bytes(framed(answer))
    process = await asyncio.create_subprocess_exec(
        *(H2LOAD, "-n", "2000", "-c", "2", "-m", str(streams), "-d", str(body)),
        *("-H", "content-type: application/grpc", "-H", "te: trailers"),
        *("-B", f"unix:{site.path}", f"http://here{PATH}"),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    requests = re.search(rb"requests: (.*)", out)

    assert requests is not None, out
    assert b"2000 succeeded, 0 failed, 0 errored, 0 timeout" in requests[1]
    assert {call.closes for call in site.echo.calls} == {1}
    assert sum(call.got == [answer] for call in site.echo.calls) == 2_000


@pytest.mark.parametrize("transport", Transport)
def test_on_uvloop(transport: Transport) -> None:
    """What passes on Python's loop passes on the product's: large, many, given up."""

    async def play() -> None:
        async with served(transport) as site:
            await test_large_messages(site)
        async with served(transport) as site:
            await test_many_to_one(site)
        async with served(transport) as site:
            await test_deadline(site)

    uvloop.run(play())
