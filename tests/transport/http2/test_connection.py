"""A connection: its settings, its streams, its end, and peers that break the rules."""

from __future__ import annotations

import asyncio

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder

from tests.transport.http2.dialogue import Dialogue, Heard, framed, head
from tests.transport.http2.echo import PATH
from tokenweir.transport.http2 import connection as connection_module
from tokenweir.transport.http2.connection import (
    CONNECTION_WINDOW_BYTES,
    LAST_CALL,
    LAST_STREAM_ID,
)
from tokenweir.transport.http2.errors import ErrorCode
from tokenweir.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Kind,
    frame,
    goaway,
    window_update,
)
from tokenweir.transport.http2.patience import IDLE_FRAMES_PER_SECOND
from tokenweir.transport.http2.statuses import Status


def block(*fields: tuple[str, str]) -> bytes:
    """Return a header block that needs no table."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return bytes(encoder.encode(list(fields) or head()))


async def test_greeting() -> None:
    """Settings are the first that is said, and are acknowledged; calls go at once."""
    talk = Dialogue()
    talk.play()
    settings = talk.client.remote_settings

    assert settings[SettingCodes.HEADER_TABLE_SIZE] == 0
    assert settings.initial_window_size == 1024 * 1024
    assert talk.client.outbound_flow_control_window == CONNECTION_WINDOW_BYTES
    assert talk.wakes > 0


async def test_streams_beside_each_other() -> None:
    """A stream that waits holds no other one up."""
    talk = Dialogue()
    waiting, other = talk.open(), talk.open()
    talk.say(waiting, b"wait")
    await talk.turns()
    talk.say(other, b"last")
    assert talk.heard[other].status == ("0", "")
    talk.echo.gate.set()
    await talk.turns()

    assert talk.heard[waiting].messages == [b"wait"]


async def test_one_write() -> None:
    """What one read brings is answered by what is taken at once."""
    talk = Dialogue()
    for _ in range(3):
        stream = talk.client.get_next_available_stream_id()
        talk.client.send_headers(stream, head())
        talk.client.send_data(stream, framed(b"one"))
    talk.connection.receive(talk.client.data_to_send())

    assert talk.wakes == 1
    assert b"".join(talk.connection.outlet.taken()).count(framed(b"one")) == 3


async def test_metadata() -> None:
    """The service sees what the peer has told with the stream."""
    talk = Dialogue()
    talk.open(PATH, ("x-tokenweir-role", "admission"))

    assert talk.echo.metadata[0]["x-tokenweir-role"] == "admission"


@pytest.mark.parametrize(
    ("word", "status"),
    [("refuse", ("3", "nobody of yours")), ("break", ("13", "processor fault"))],
)
async def test_not_opened(word: str, status: tuple[str, str]) -> None:
    """A call that is not opened is told of in one frame."""
    talk = Dialogue()
    stream = talk.open(PATH, (word, ""))

    assert talk.heard[stream].status == status
    assert talk.heard[stream].trailers == {}
    assert talk.heard[stream].headers[":status"] == "200"
    assert talk.connection.calls == 0


@pytest.mark.parametrize("path", ["/test.Echo/Other", "/", "*", "/test.Echo/Talk/"])
async def test_unknown_path(path: str) -> None:
    """What nobody serves is not implemented."""
    talk = Dialogue()
    stream = talk.open(path)

    assert talk.heard[stream].status == ("12", "no such method")


async def test_no_grpc() -> None:
    """Who speaks plain HTTP is told by HTTP."""
    talk = Dialogue()
    stream = talk.client.get_next_available_stream_id()
    talk.heard[stream] = heard = Heard()
    fields = [*head()[:4], ("content-type", "text/plain")]
    talk.client.send_headers(stream, fields, end_stream=True)
    talk.play()

    assert heard.headers == {":status": "415"}
    assert heard.ended


async def test_continuation() -> None:
    """A head may come in pieces."""
    talk = Dialogue()
    talk.play()
    whole = block()
    talk.raw(
        frame(Kind.HEADERS, 0, 1, whole[:10])
        + frame(Kind.CONTINUATION, 0, 1, whole[10:20])
        + frame(Kind.CONTINUATION, END_HEADERS, 1, whole[20:])
    )

    assert len(talk.echo.calls) == 1


async def test_health() -> None:
    """Health is served beside services, also to those who watch it."""
    talk = Dialogue()
    watch = talk.open("/grpc.health.v1.Health/Watch")
    talk.say(watch, b"", end=True)
    check = talk.open("/grpc.health.v1.Health/Check")
    talk.say(check, b"", end=True)

    assert talk.heard[check].messages == [b"\x08\x01"]
    assert talk.heard[check].status == ("0", "")
    talk.health.drain()
    talk.play()
    assert talk.heard[watch].messages == [b"\x08\x01", b"\x08\x02"]
    assert not talk.heard[watch].ended


# === its end =======================================================================


async def test_go_away() -> None:
    """A peer that is told to leave is served as long as it has streams."""
    talk = Dialogue()
    stream = talk.open()
    talk.connection.go_away()
    # h2 takes a farewell for the end, and says no more; others read on.
    farewell = b"".join(talk.connection.outlet.taken())
    assert farewell == goaway(LAST_STREAM_ID, ErrorCode.NO_ERROR) + frame(
        Kind.PING, 0, 0, LAST_CALL
    )
    assert not talk.connection.refusing
    talk.connection.receive(frame(Kind.PING, 1, 0, LAST_CALL))
    assert talk.connection.refusing
    last = b"".join(talk.connection.outlet.taken())
    assert last == goaway(stream, ErrorCode.NO_ERROR)
    talk.connection.receive(frame(Kind.DATA, 0, stream, framed(b"last")))

    assert framed(b"last") in b"".join(talk.connection.outlet.taken())
    assert not talk.connection.closing


async def test_new_streams_are_refused() -> None:
    """Once the peer knows that we leave, a new stream is one it may send elsewhere."""
    talk = Dialogue()
    talk.play()
    talk.connection.refusing = True
    stream = talk.open()

    assert talk.heard[stream].reset == ErrorCodes.REFUSED_STREAM
    assert talk.echo.calls == []


async def test_ended() -> None:
    """When we end, each open stream gets a status, and each call is closed."""
    talk = Dialogue()
    idle, waiting = talk.open(), talk.open()
    talk.say(waiting, b"wait")
    await talk.turns()
    talk.connection.end(Status.UNAVAILABLE, "the processor ends")
    talk.play()
    await talk.turns()

    for stream in (idle, waiting):
        assert talk.heard[stream].status == ("14", "the processor ends")
    assert talk.connection.closing
    assert talk.connection.calls == 0
    assert [call.closes for call in talk.echo.calls] == [1, 1]


async def test_lost() -> None:
    """When the peer is gone, each call is closed, and nothing is a fault."""
    talk = Dialogue()
    talk.open()
    waiting = talk.open()
    talk.say(waiting, b"wait")
    await talk.turns()
    talk.connection.lost()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert [call.closes for call in talk.echo.calls] == [1, 1]
    assert talk.connection.calls == 0
    assert talk.recorder.faults == []


async def test_a_peer_says_goodbye() -> None:
    """A peer that goes away gets the answers that it waits for."""
    talk = Dialogue()
    stream = talk.open()
    talk.raw(frame(Kind.GOAWAY, 0, 0, b"\0" * 8))
    talk.say(stream, b"last")

    assert talk.heard[stream].status == ("0", "")


# === peers that break the rules ====================================================

SETTINGS = frame(Kind.SETTINGS, 0, 0)
OPENED = frame(Kind.HEADERS, END_HEADERS, 1, block())
BREAKS = {
    "another protocol": (b"GET / HTTP/1.1\r\n", ErrorCodes.PROTOCOL_ERROR),
    "no settings": (PREFACE + OPENED, ErrorCodes.PROTOCOL_ERROR),
    "an ack first": (PREFACE + frame(Kind.SETTINGS, 1, 0), ErrorCodes.PROTOCOL_ERROR),
    "an ack that says": (frame(Kind.SETTINGS, 1, 0, b"x"), ErrorCodes.FRAME_SIZE_ERROR),
    "settings of a stream": (frame(Kind.SETTINGS, 0, 1), ErrorCodes.PROTOCOL_ERROR),
    "half a setting": (frame(Kind.SETTINGS, 0, 0, b"x"), ErrorCodes.FRAME_SIZE_ERROR),
    "a short ping": (frame(Kind.PING, 0, 0, b"x"), ErrorCodes.FRAME_SIZE_ERROR),
    "a short priority": (frame(Kind.PRIORITY, 0, 1, b""), ErrorCodes.FRAME_SIZE_ERROR),
    "a short goaway": (frame(Kind.GOAWAY, 0, 0, b"x"), ErrorCodes.FRAME_SIZE_ERROR),
    "a push": (frame(Kind.PUSH_PROMISE, 0, 1, b"xxxx"), ErrorCodes.PROTOCOL_ERROR),
    "data of nobody": (frame(Kind.DATA, 0, 7, b"x"), ErrorCodes.PROTOCOL_ERROR),
    "data of all": (frame(Kind.DATA, 0, 0, b"x"), ErrorCodes.PROTOCOL_ERROR),
    "a reset of nobody": (
        frame(Kind.RST_STREAM, 0, 7, b"xxxx"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "a short reset": (frame(Kind.RST_STREAM, 0, 7, b"x"), ErrorCodes.FRAME_SIZE_ERROR),
    "a window of nobody": (window_update(7, 1), ErrorCodes.PROTOCOL_ERROR),
    "a window of none": (window_update(0, 0), ErrorCodes.PROTOCOL_ERROR),
    "a window too large": (
        window_update(0, 2**31 - 1),
        ErrorCodes.FLOW_CONTROL_ERROR,
    ),
    "our own stream": (
        frame(Kind.HEADERS, END_HEADERS, 2, block()),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "no stream": (
        frame(Kind.HEADERS, END_HEADERS, 0, block()),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "no block": (
        frame(Kind.HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
        ErrorCodes.COMPRESSION_ERROR,
    ),
    "a lone piece": (frame(Kind.CONTINUATION, 0, 1), ErrorCodes.PROTOCOL_ERROR),
    "a block that breaks off": (
        frame(Kind.HEADERS, 0, 1, b"") + frame(Kind.PING, 0, 0, b"x" * 8),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "padding only": (
        OPENED + frame(Kind.DATA, 0x8, 1, b"\x09x"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("case", BREAKS)
async def test_broken_connections(case: str) -> None:
    """A connection that can't be understood ends by GOAWAY, and all its calls."""
    data, code = BREAKS[case]
    if not data.startswith((PREFACE, b"GET")):
        data = PREFACE + SETTINGS + data
    talk = Dialogue()
    talk.connection.receive(data)
    last = b"".join(talk.connection.outlet.taken())
    told = last[last.rindex(b"\x07\0\0\0\0\0") + 6 :]

    assert told[4:8] == int(code).to_bytes(4)
    assert talk.connection.closing
    assert all(call.closes == 1 for call in talk.echo.calls)
    talk.connection.receive(PREFACE)
    assert talk.connection.outlet.taken() == []
    assert talk.recorder.faults == []


async def test_window_of_all_overflows_by_settings() -> None:
    """A setting may not make a stream's window too large, either."""
    talk = Dialogue()
    stream = talk.open()
    talk.raw(window_update(stream, 2**31 - 1 - 65_535))
    assert talk.terminated is None
    talk.raw(frame(Kind.SETTINGS, 0, 0, b"\0\x04" + (100_000).to_bytes(4)))

    assert talk.terminated is not None
    assert talk.terminated.error_code == ErrorCodes.FLOW_CONTROL_ERROR


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (window_update(1, 0), ErrorCodes.PROTOCOL_ERROR),
        (window_update(1, 2**31 - 1), ErrorCodes.FLOW_CONTROL_ERROR),
        (
            frame(Kind.HEADERS, END_HEADERS, 1, block(("a", "b"))),
            ErrorCodes.PROTOCOL_ERROR,
        ),
    ],
)
async def test_broken_streams(data: bytes, code: ErrorCodes) -> None:
    """Where one stream is broken, it alone is reset."""
    talk = Dialogue()
    stream = talk.open()
    other = talk.open()
    talk.raw(data)
    assert talk.heard[stream].reset == code
    talk.say(other, b"one")

    assert talk.heard[other].messages == [b"one"]
    assert [call.closes for call in talk.echo.calls] == [1, 0]


async def test_malformed_head() -> None:
    """A malformed request is reset before any call is opened."""
    talk = Dialogue()
    talk.play()
    talk.connection.receive(
        frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, block((":path", "/")))
    )

    reset = b"".join(talk.connection.outlet.taken())
    assert reset == frame(Kind.RST_STREAM, 0, 1, b"\0\0\0\x01")
    assert talk.connection._streams == {}


async def test_too_much_metadata() -> None:
    """A stream that tells too much is refused alone."""
    talk = Dialogue()
    talk.open()
    talk.client.max_outbound_frame_size = 16_384
    stream = talk.open(PATH, *((f"x-{n}", "y" * 4_000) for n in range(9)))

    assert talk.heard[stream].status == ("8", "metadata too large")
    other = talk.open()
    talk.say(other, b"one")
    assert talk.heard[other].messages == [b"one"]


async def test_too_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more calls at once than the limit: those too count that are being cancelled."""
    monkeypatch.setattr(connection_module, "MAX_STREAMS", 2)
    talk = Dialogue()
    cancelled = talk.open()
    talk.open()
    talk.say(cancelled, b"wait")
    await talk.turns()
    talk.client.reset_stream(cancelled)
    refused = talk.open()
    await talk.turns()

    assert talk.heard[refused].reset == ErrorCodes.REFUSED_STREAM
    served = talk.open()
    talk.say(served, b"one")
    assert talk.heard[served].messages == [b"one"]
    assert len(talk.echo.calls) == 3


@pytest.mark.parametrize(
    "data",
    [
        frame(Kind.PING, 0, 0, b"x" * 8),
        frame(Kind.SETTINGS, 0, 0),
        frame(Kind.DATA, 0, 1, b""),
        frame(Kind.PRIORITY, 0, 1, b"x" * 5),
        frame(0x42, 0, 0, b"?"),  # type: ignore[arg-type]  # there is none of that kind
    ],
)
async def test_floods(data: bytes) -> None:
    """Frames that lead nowhere are borne for a while, and no longer."""
    talk = Dialogue()
    stream = talk.open()
    talk.connection.receive(data * (IDLE_FRAMES_PER_SECOND - 10))
    assert not talk.connection.closing
    talk.now = 1.0
    talk.connection.outlet.taken()
    talk.say(stream, b"one")
    assert talk.heard[stream].messages == [b"one"]
    talk.connection.receive(data * (IDLE_FRAMES_PER_SECOND + 10))

    assert talk.connection.closing
    assert [call.closes for call in talk.echo.calls] == [1]


async def test_rapid_resets() -> None:
    """Streams that are reset at once leave nothing behind, however many."""
    talk = Dialogue()
    for _ in range(300):
        stream = talk.client.get_next_available_stream_id()
        talk.client.send_headers(stream, head())
        talk.client.send_data(stream, framed(b"wait"))
        talk.client.reset_stream(stream)
    talk.play()
    await talk.turns()

    assert talk.connection.calls == 0
    assert talk.connection._streams == {}
    assert {call.closes for call in talk.echo.calls} == {1}
