"""A bare gRPC client plays orders of messages that Envoy only sometimes produces."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, PingAckReceived

from tests.driver.fakes import Gate, Kit, Point, raising
from tests.examples import policy
from tests.extproc.envoy_messages import (
    CLIENT,
    parsed,
    request_body,
    request_headers,
    response_body,
    response_headers,
)
from tests.wire import DONE, JSON, REPLY, STREAM, USAGE_EVENT, chat, delta
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.request_side import Arrival
from tokenweir.driver import handoff as handoff_module
from tokenweir.extproc.service import SERVICE, ExternalProcessor
from tokenweir.extproc.session import (
    ROLE_HEADER,
    ObserveSession,
    Session,
    Sessions,
)
from tokenweir.transport.choice import Transport, make_server

HEAD = request_headers()
BODY = request_body(chat(max_tokens=100))
SECRET = RuntimeError("sk-CANARY-in-an-exception")
DOWN = LedgerUnavailableError("no answer")


class Watched(Sessions):
    """
    Sessions that know which of them are open.

    Attributes:
        running: Those that were opened and not closed.
        rendered: What Envoy said that it was made from, for each exchange.
        arrival: Makes arrivals; a test may let it break.
    """

    def __init__(self, kit: Kit) -> None:
        self.running: set[Session] = set()
        self.rendered: list[str] = []
        self.arrival: Callable[[], Arrival] = lambda: Arrival(policy(), kit.hold_id())
        super().__init__(kit.services, kit.handoff, self._arrive)

    def _arrive(self, rendered: str) -> Arrival:
        self.rendered.append(rendered)
        return self.arrival()

    def open(self, role: str, rendered: str = "") -> Session | ObserveSession | None:
        session = super().open(role, rendered)
        if session is not None and not isinstance(session, ObserveSession):
            self.running.add(session)
            session.closed = partial(self._close, session, session.closed)  # type: ignore[method-assign]
        return session

    def _close(self, session: Session, close: Callable[[], None]) -> None:
        self.running.remove(session)
        close()


class Peer:
    """A server over fakes, and a client of it."""

    def __init__(self, folder: Path, transport: Transport) -> None:
        self.kit = Kit()
        self.path = folder / "sidecar.sock"
        self.sessions = Watched(self.kit)
        self.server = make_server(
            transport,
            (ExternalProcessor(self.sessions),),
            self.path,
            self.kit.recorder,
        )
        self.channel = grpc.aio.insecure_channel(
            f"unix:{self.path}",
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
            ],
        )

    def call(self, role: str | None) -> Any:
        """Open a stream as Envoy's filter for *role* does."""
        metadata = () if role is None else ((ROLE_HEADER, role),)
        return self.channel.stream_stream(f"/{SERVICE}/Process")(metadata=metadata)

    async def closed(self) -> None:
        """Wait until every session that was opened is closed."""
        async with asyncio.timeout(30):
            while self.sessions.running:  # noqa: ASYNC110 - ends with a handler
                await asyncio.sleep(0.001)

    async def over(self) -> None:
        """Wait until no session is open, and nothing is left to be done."""
        await self.closed()
        await self.kit.quiet()


@pytest.fixture(params=Transport)
def transport(request: pytest.FixtureRequest) -> Transport:
    """Each of them, one after the other."""
    return Transport(request.param)


@pytest.fixture
async def peer(transport: Transport) -> AsyncIterator[Peer]:
    """Return a running server's peer, and stop both."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))  # short enough for a socket
    peer = Peer(folder, transport)
    await peer.server.start()
    yield peer
    await peer.channel.close()
    await peer.server.stop(0)
    shutil.rmtree(folder)


async def ask(call: Any, message: bytes) -> Any:
    """Send *message* and return the answer."""
    await call.write(message)
    answer = await call.read()
    assert answer is not grpc.aio.EOF, await call.details()
    return parsed(answer)


async def ends(call: Any) -> bool:
    """Tell if the server ends the stream, well, without having been asked to."""
    async with asyncio.timeout(30):
        return bool(
            await call.read() is grpc.aio.EOF
            and await call.code() is grpc.StatusCode.OK
        )


async def failure_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """Return how the server has ended the stream, in the words that Envoy logs."""
    async with asyncio.timeout(30):
        code = await call.code()
    told = f"{await call.details()} {await call.trailing_metadata()}"
    assert "CANARY" not in told
    return code, await call.details()


async def admit(peer: Peer) -> str:
    """Return the ticket of a request that was admitted."""
    call = peer.call("admission")
    await ask(call, HEAD)
    answer = await ask(call, BODY)
    ticket: str = answer.dynamic_metadata.fields["tokenweir"].struct_value["ticket"]
    return ticket


# === the socket ===================================================================


async def test_socket_is_private(peer: Peer) -> None:
    """Only this user may speak to the socket, from its first moment on."""
    mode = peer.path.stat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


async def test_stale_socket(transport: Transport) -> None:
    """What a killed predecessor left at the path is replaced."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))
    peer = Peer(folder, transport)
    peer.path.write_text("stale")
    await peer.server.start()
    call = peer.call("admission")

    assert (await ask(call, HEAD)).WhichOneof("response") == "request_headers"
    call.cancel()
    await peer.channel.close()
    await peer.server.stop(0)
    assert not peer.path.exists()
    shutil.rmtree(folder)


async def test_health(peer: Peer) -> None:
    """Envoy's health check is answered, and a drain turns it away."""
    stub = health_pb2_grpc.HealthStub(peer.channel)
    request = health_pb2.HealthCheckRequest()
    status = health_pb2.HealthCheckResponse

    assert (await stub.Check(request)).status == status.SERVING
    await peer.server.drain()
    assert (await stub.Check(request)).status == status.NOT_SERVING


async def test_open_streams_outlive_a_drain(peer: Peer) -> None:
    """What has begun goes on while the server is drained."""
    call = peer.call("admission")
    await ask(call, HEAD)
    await peer.server.drain()
    answer = await ask(call, BODY)

    assert answer.WhichOneof("response") == "request_body"
    assert await ends(call)


# === streams ======================================================================


async def test_admission(peer: Peer) -> None:
    """The stream ends right after the last answer: nothing hangs on it later."""
    call = peer.call("admission")
    head = await ask(call, HEAD)
    body = await ask(call, BODY)

    assert head.WhichOneof("response") == "request_headers"
    assert body.WhichOneof("response") == "request_body"
    assert await ends(call)
    await peer.over()
    assert peer.kit.recorder.faults == []


async def test_rejection(peer: Peer) -> None:
    """A rejection is a last answer."""
    call = peer.call("admission")
    answer = await ask(call, request_headers(CLIENT[:3]))

    assert answer.immediate_response.status.code == 401
    assert await ends(call)


async def test_response(peer: Peer) -> None:
    """A response's stream is open until its last piece has been answered."""
    call = peer.call("response")
    await ask(call, request_headers(ticket=await admit(peer)))
    await ask(call, response_headers(200, STREAM))
    for piece in (delta("Hello"), USAGE_EVENT):
        await ask(call, response_body(piece))
    await ask(call, response_body(DONE, ended=True))

    assert await ends(call)
    await peer.over()
    assert len(peer.kit.ledger.settlements) == 1
    assert await peer.kit.ledger.reserved() == {}
    assert peer.kit.recorder.faults == []


async def test_response_without_ticket(peer: Peer) -> None:
    """A response that is none of ours is let go at once."""
    call = peer.call("response")
    await ask(call, request_headers())

    assert await ends(call)


async def test_pings_are_welcome(peer: Peer) -> None:
    """Who asks all the time whether this process is alive is answered, and kept."""
    reader, writer = await asyncio.open_unix_connection(str(peer.path))
    http = H2Connection(H2Configuration(client_side=True))
    http.initiate_connection()
    answered = 0
    for number in range(20):
        http.ping(number.to_bytes(8))
        writer.write(http.data_to_send())
        while answered <= number:
            data = await asyncio.wait_for(reader.read(4_096), 30)
            assert data, "it hung up"
            for event in http.receive_data(data):
                assert not isinstance(event, ConnectionTerminated)
                answered += isinstance(event, PingAckReceived)
        writer.write(http.data_to_send())
    writer.close()


async def test_half_close(peer: Peer) -> None:
    """A peer that says it is done still gets the answers that it is owed."""
    call = peer.call("admission")
    await call.write(HEAD)
    await call.write(BODY)
    await call.done_writing()

    assert parsed(await call.read()).WhichOneof("response") == "request_headers"
    assert parsed(await call.read()).WhichOneof("response") == "request_body"
    assert await ends(call)


@pytest.mark.parametrize("messages", [0, 1])
async def test_half_close_before_the_end(peer: Peer, messages: int) -> None:
    """A stream that ends early ends the exchange."""
    call = peer.call("admission")
    for message in [HEAD][:messages]:
        await ask(call, message)
    await call.done_writing()

    assert await ends(call)
    await peer.over()
    assert len(peer.kit.recorder.exchanges) == messages
    assert await peer.kit.ledger.reserved() == {}


async def test_half_close_of_a_response(peer: Peer) -> None:
    """A response's stream that ends without a last piece was cut: it is settled."""
    call = peer.call("response")
    await ask(call, request_headers(ticket=await admit(peer)))
    await ask(call, response_headers(200, STREAM))
    await ask(call, response_body(delta("Hello")))
    await call.done_writing()

    assert await ends(call)
    await peer.over()
    [settlement] = peer.kit.ledger.settlements
    assert settlement.outcome == "cut"


async def test_message_after_the_end(peer: Peer) -> None:
    """What is sent after the last answer is not read, and harms nobody."""
    call = peer.call("admission")
    await ask(call, HEAD)
    await call.write(BODY)
    with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
        await call.write(BODY)  # if the end is not here yet
    try:
        answer = parsed(await call.read())
        assert answer.WhichOneof("response") == "request_body"
        assert await ends(call)
    except grpc.aio.AioRpcError as error:
        # The client's own: one of its writes met the end, and it gave its call up.
        assert error.details() == "Internal error from Core"  # noqa: PT017
    await peer.over()
    assert peer.kit.ledger.count("reserve") == 1
    assert peer.kit.recorder.faults == []


@pytest.mark.parametrize("size_bytes", [4_194_303, 4_194_305, 5_000_000])
async def test_large_messages(peer: Peer, size_bytes: int) -> None:
    """Bodies above grpcio's default limit of 4 MiB pass, in both directions."""
    padding = "x" * size_bytes
    call = peer.call("admission")
    await ask(call, HEAD)
    answer = await ask(call, request_body(chat("fast", padding=padding)))
    assert len(answer.request_body.response.body_mutation.body) > size_bytes

    fields = answer.dynamic_metadata.fields["tokenweir"].struct_value
    call = peer.call("response")
    await ask(call, request_headers(ticket=fields["ticket"]))
    await ask(call, response_headers(200, STREAM))
    answer = await ask(call, response_body(b":" + padding.encode(), ended=True))
    assert answer.WhichOneof("response") == "response_body"
    await peer.over()


async def test_many_streams(peer: Peer) -> None:
    """Streams do not wait for one another: as many are open as exchanges."""
    gate = Gate()
    peer.kit.counter.point = gate
    calls = [peer.call("admission") for _ in range(200)]
    for call in calls:
        await ask(call, HEAD)
        await call.write(BODY)
    await gate.reached.wait()
    gate.opened.set()
    answers = [parsed(await call.read()) for call in calls]

    kinds = [answer.WhichOneof("response") for answer in answers]
    assert set(kinds) <= {"request_body", "immediate_response"}
    assert kinds.count("request_body") == 8  # the tenant's slots
    await peer.over()


# === wrong peers ==================================================================


@pytest.mark.parametrize("role", [None, "", "admin"])
async def test_wrong_role(peer: Peer, role: str | None) -> None:
    """A stream that no filter of ours opened is refused."""
    call = peer.call(role)

    assert await failure_of(call) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        f"{ROLE_HEADER} is missing",
    )
    assert peer.kit.recorder.faults == []


@pytest.mark.parametrize("role", ["admission", "response"])
@pytest.mark.parametrize("message", [b"", b"garbage"])
async def test_garbage(peer: Peer, role: str, message: bytes) -> None:
    """What is no message ends the stream, and is reported."""
    call = peer.call(role)
    await call.write(message)

    assert await failure_of(call) == (grpc.StatusCode.INTERNAL, "processor fault")
    await peer.over()
    assert [where for where, _ in peer.kit.recorder.faults] == ["session"]


async def test_garbage_later(peer: Peer) -> None:
    """Garbage in the middle of a response ends its stream; what passed is settled."""
    call = peer.call("response")
    await ask(call, request_headers(ticket=await admit(peer)))
    await ask(call, response_headers(200, STREAM))
    await call.write(b"garbage")

    assert await failure_of(call) == (grpc.StatusCode.INTERNAL, "processor fault")
    await peer.over()
    assert len(peer.kit.ledger.settlements) == 1
    assert await peer.kit.ledger.reserved() == {}


# === faults =======================================================================


async def test_no_arrival(peer: Peer) -> None:
    """If a session can't even be opened, Envoy is told so, and not why."""

    def broken() -> Arrival:
        raise SECRET

    peer.sessions.arrival = broken
    call = peer.call("admission")

    assert await failure_of(call) == (grpc.StatusCode.INTERNAL, "processor fault")
    assert peer.kit.recorder.faults == [("session", SECRET)]


@pytest.mark.parametrize("verb", ["receive", "closed"])
async def test_broken_session(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The text of an exception reaches the hooks, and never the peer."""

    class Broken:
        finished = verb == "closed"

        def receive(self, message: bytes) -> bytes:
            raise SECRET from ValueError(message)

        def closed(self) -> None:
            if verb == "closed":
                raise SECRET

    def opened(_: Sessions, __: str, ___: str) -> Session:
        return Broken()

    monkeypatch.setattr(Sessions, "open", opened)
    call = peer.call("admission")
    if verb == "receive":
        await call.write(HEAD)

    assert await failure_of(call) == (grpc.StatusCode.INTERNAL, "processor fault")
    assert peer.kit.recorder.faults == [("session", SECRET)]


@pytest.mark.parametrize("point", ["counter", "before"])
async def test_cancelled_service(peer: Peer, point: str) -> None:
    """A cancelled task that a request has waited for is a fault, and is answered."""
    cancelled = asyncio.CancelledError("sk-CANARY-in-an-exception")
    if point == "counter":
        peer.kit.counter.point = raising(cancelled)
    else:
        peer.kit.ledger.before["reserve"] = raising(cancelled)
    call = peer.call("admission")
    await ask(call, HEAD)
    await call.write(BODY)

    assert await failure_of(call) == (grpc.StatusCode.INTERNAL, "processor fault")
    await peer.over()
    assert [where for where, _ in peer.kit.recorder.faults] == ["session"]
    assert await peer.kit.ledger.reserved() == {}


@pytest.mark.parametrize("point", ["counter", "before", "after"])
async def test_broken_service(peer: Peer, point: str) -> None:
    """What breaks while a request waits is answered, and gives back what it took."""
    if point == "counter":
        peer.kit.counter.point = raising(SECRET)
    else:
        getattr(peer.kit.ledger, point)["reserve"] = raising(SECRET)
    call = peer.call("admission")
    await ask(call, HEAD)
    answer = await ask(call, BODY)

    assert answer.immediate_response.status.code == 500
    assert "CANARY" not in str(answer)
    assert await ends(call)
    await peer.over()
    assert await peer.kit.ledger.reserved() == {}


# === peers that leave =============================================================


@pytest.mark.parametrize("point", ["counter", "before", "after"])
async def test_cancelled_while_waiting(peer: Peer, point: str) -> None:
    """A client that leaves while its request waits leaves nothing reserved."""
    gate = Gate()
    if point == "counter":
        peer.kit.counter.point = gate
    else:
        getattr(peer.kit.ledger, point)["reserve"] = gate
    call = peer.call("admission")
    await ask(call, HEAD)
    await call.write(BODY)
    await gate.reached.wait()
    call.cancel()
    await peer.closed()
    gate.opened.set()

    await peer.over()
    assert await peer.kit.ledger.reserved() == {}
    assert [e.settlement for e in peer.kit.recorder.exchanges] == [None]
    assert peer.kit.recorder.faults == []


@pytest.mark.parametrize("messages", [0, 1, 2, 3])
async def test_cancelled_response(peer: Peer, messages: int) -> None:
    """A response whose stream is reset at any point is settled once."""
    call = peer.call("response")
    await ask(call, request_headers(ticket=await admit(peer)))
    pieces = [
        response_headers(200, STREAM),
        response_body(delta("Hello")),
        response_body(USAGE_EVENT),
    ]
    for message in pieces[:messages]:
        await ask(call, message)
    call.cancel()

    await peer.over()
    assert len(peer.kit.ledger.settlements) == 1
    assert await peer.kit.ledger.reserved() == {}
    assert peer.kit.recorder.faults == []


async def test_stop_cancels_what_is_open(peer: Peer) -> None:
    """When the server stops, what is still open is settled by what passed."""
    call = peer.call("response")
    await ask(call, request_headers(ticket=await admit(peer)))
    await ask(call, response_headers(200, STREAM))
    await peer.server.stop(0.01)

    await peer.over()
    assert len(peer.kit.ledger.settlements) == 1
    assert await peer.kit.ledger.reserved() == {}
    assert peer.kit.recorder.faults == []


def dawdling(chance: random.Random, *, fails: float = 0.0) -> Point:
    """Return a point that takes some turns of the loop; the ledger *fails* at times."""

    async def dawdle() -> None:
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        if chance.random() < fails:
            raise DOWN

    return dawdle


async def play_and_leave(peer: Peer, chance: random.Random) -> None:
    """Play an exchange through both filters, and reset a stream somewhere."""
    script = [("admission", [HEAD, BODY]), ("response", [])]
    left = chance.randrange(9)
    for role, messages in script:
        call = peer.call(role)
        for message in messages:
            await call.write(message)
            if left == 0:
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                call.cancel()
                return
            left -= 1
            answer = await call.read()
            if answer is grpc.aio.EOF:
                return
            if message is BODY:
                fields = parsed(answer).dynamic_metadata.fields
                if not fields:
                    return
                ticket = fields["tokenweir"].struct_value["ticket"]
                script[1][1].extend(responses(ticket))


def responses(ticket: str) -> list[bytes]:
    """Return what Envoy tells of a response."""
    return [
        request_headers(ticket=ticket),
        response_headers(200, JSON),
        response_body(REPLY[:100]),
        response_body(REPLY[100:200]),
        response_body(REPLY[200:], ended=True),
    ]


async def test_500_resets_anywhere(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """E14: after 500 resets at random points nothing is reserved, no task is left."""
    monkeypatch.setattr(handoff_module, "CLAIM_SECONDS", 0.05)
    chance = random.Random(14)
    peer.kit.counter.point = dawdling(chance)
    peer.kit.ledger.before["reserve"] = dawdling(chance, fails=0.05)
    peer.kit.ledger.after["reserve"] = dawdling(chance, fails=0.05)
    for _ in range(50):
        await asyncio.gather(*(play_and_leave(peer, chance) for _ in range(10)))
        peer.kit.now_ms += 60_000  # buckets fill up again
    await asyncio.sleep(0.1)

    await peer.over()
    assert await peer.kit.ledger.reserved() == {}
    assert peer.kit.services.responding == set()
    assert peer.kit.handoff.size == 0
    outcomes = {s.outcome for s in peer.kit.ledger.settlements}
    assert outcomes == {"completed", "cut"}
    assert peer.kit.recorder.faults == []
