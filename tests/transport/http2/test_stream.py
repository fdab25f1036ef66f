"""Streams: windows both ways, messages across frames, ends on either side."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from tests.transport.http2.dialogue import Dialogue, framed
from tests.transport.http2.echo import STREAM_PATH
from tokenweir.transport.http2 import stream as stream_module
from tokenweir.transport.http2.frames import Kind, frame, window_update
from tokenweir.transport.http2.settings import STREAM_WINDOW_BYTES

OK = ("0", "")


async def test_talk() -> None:
    """Messages are answered one by one; the last one ends the stream on both sides."""
    talk = Dialogue()
    stream = talk.open()
    heard = talk.heard[stream]
    talk.say(stream, b"one")
    assert (heard.messages, heard.ended) == ([b"one"], False)
    talk.say(stream, b"two", b"last")

    assert heard.headers == {":status": "200", "content-type": "application/grpc"}
    assert heard.messages == [b"one", b"two", b"last"]
    assert (heard.status, heard.ended) == (OK, True)
    assert heard.reset == ErrorCodes.NO_ERROR
    assert talk.connection.calls == 0
    assert talk.connection._streams == {}


async def test_half_closed() -> None:
    """A stream that the peer has ended needs no reset to be over."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"last", end=True)

    assert talk.heard[stream].status == OK
    assert talk.heard[stream].reset is None


async def test_last_word() -> None:
    """Where only the client streams, it gets one message once it has said all."""
    talk = Dialogue()
    stream = talk.open(STREAM_PATH)
    talk.say(stream, b"quiet")
    talk.say(stream, b"quiet", end=True)

    assert talk.heard[stream].messages == [b"bye"]
    assert talk.heard[stream].status == OK


async def test_end_by_trailers() -> None:
    """A peer may say by trailers, too, that it has said all."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"one")
    talk.client.send_headers(stream, [("x-more", "nothing")], end_stream=True)
    talk.play()

    assert talk.heard[stream].messages == [b"one"]
    assert talk.heard[stream].status == OK


async def test_end_without_a_message() -> None:
    """A peer that says nothing at all is no fault."""
    talk = Dialogue()
    stream = talk.open(end=True)

    assert talk.heard[stream].status == OK
    assert talk.recorder.faults == []


async def test_message_across_frames() -> None:
    """A message may come in any pieces, and with padding."""
    talk = Dialogue()
    stream = talk.open()
    data = framed(b"x" * 40_000)
    for at in range(0, len(data), 9_000):
        talk.client.send_data(stream, data[at : at + 9_000], pad_length=at % 200)
        talk.play()

    assert talk.heard[stream].messages == [b"x" * 40_000]


async def test_cut_message() -> None:
    """A peer that ends amid a message is told so; the call is closed."""
    talk = Dialogue()
    stream = talk.open()
    talk.client.send_data(stream, framed(b"whole") + b"\0\0", end_stream=True)
    talk.play()

    assert talk.heard[stream].status == ("13", "message cut off")
    assert [call.closes for call in talk.echo.calls] == [1]
    assert talk.recorder.faults == []


async def test_compressed_message() -> None:
    """What can't be read ends its stream by a status."""
    talk = Dialogue()
    stream = talk.open()
    talk.client.send_data(stream, b"\x01\0\0\0\x01a")
    talk.play()

    code, _ = talk.heard[stream].status
    assert code == "12"
    assert [call.closes for call in talk.echo.calls] == [1]


async def test_too_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all streams have of unfinished messages is bounded, and given back."""
    monkeypatch.setattr(stream_module, "MAX_KEPT_BYTES", 25_000)
    talk = Dialogue()
    first, second = talk.open(), talk.open()
    begin = framed(b"x" * 60_000)[:16_000]
    for stream in (first, second):
        talk.client.send_data(stream, begin)
        talk.play()
    assert talk.heard[second].status == ("8", "too much at once")
    assert talk.heard[first].ended is False
    talk.client.reset_stream(first)
    talk.play()

    assert talk.connection._kept.size_bytes == 0


async def test_peer_is_held_back() -> None:
    """While an answer is awaited, no more is let in than a window; then it is."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"wait")
    sent = 0
    piece = framed(b"quiet" + b" " * 10_000)
    while talk.client.local_flow_control_window(stream) >= len(piece):
        talk.client.send_data(stream, piece)
        sent += len(piece)
        talk.play()
    assert STREAM_WINDOW_BYTES - 2 * len(piece) < sent <= STREAM_WINDOW_BYTES
    talk.echo.gate.set()
    await talk.turns()

    assert talk.heard[stream].messages == [b"wait"]
    assert talk.client.local_flow_control_window(stream) >= STREAM_WINDOW_BYTES // 2


async def test_large_message_is_let_in() -> None:
    """A message that is larger than all windows comes in all the same."""
    talk = Dialogue()
    stream = talk.open()
    data = memoryview(framed(b"quiet " + b"x" * (3 * STREAM_WINDOW_BYTES)))
    while data:
        data = data[send(talk, stream, data) :]
    talk.say(stream, b"last")

    [call] = talk.echo.calls
    assert [len(message) for message in call.got] == [6 + 3 * STREAM_WINDOW_BYTES, 4]
    assert talk.heard[stream].status == OK


def send(talk: Dialogue, stream: int, data: memoryview) -> int:
    """Send so much of *data* as the windows let; return how much."""
    size = min(16_384, talk.client.local_flow_control_window(stream))
    assert size > 0
    talk.client.send_data(stream, bytes(data[:size]))
    talk.play()
    return min(size, len(data))


async def test_too_much_is_sent() -> None:
    """Who sends more than the window lets in loses the stream, and no other."""
    talk = Dialogue()
    stream, other = talk.open(), talk.open()
    talk.say(stream, b"wait")
    data = frame(Kind.DATA, 0, stream, framed(b"quiet" + b" " * 16_000))
    for _ in range(STREAM_WINDOW_BYTES // 16_000 + 1):
        talk.connection.receive(data)
    talk.play()
    await talk.turns()

    assert talk.heard[stream].reset == ErrorCodes.FLOW_CONTROL_ERROR
    assert talk.echo.calls[0].closes == 1
    talk.say(other, b"one")
    assert talk.heard[other].messages == [b"one"]


async def test_large_answer() -> None:
    """An answer leaves as far as the peer's windows go, and then the rest of it."""
    talk = Dialogue()
    talk.fetching = False
    stream = talk.open()
    heard = talk.heard[stream]
    talk.say(stream, b"large 100000", b"after it")
    assert len(heard.data) == 65_535
    talk.client.increment_flow_control_window(20_000, stream)
    talk.play()
    assert len(heard.data) == 65_535  # the connection's window is used up
    talk.client.increment_flow_control_window(200_000)
    talk.play()
    assert len(heard.data) == 85_535
    talk.client.increment_flow_control_window(100_000, stream)
    talk.play()

    assert heard.messages == [b"x" * 100_000, b"after it"]
    talk.say(stream, b"last")
    assert heard.status == OK


async def test_status_waits_for_answers() -> None:
    """A stream ends behind its last answer, however late that leaves."""
    talk = Dialogue({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    stream = talk.open()
    heard = talk.heard[stream]
    talk.fetching = False
    talk.say(stream, b"one", b"last")
    assert (heard.data, heard.ended) == (framed(b"one") + b"\0\0", False)
    # Its call is over: what comes meanwhile is nobody's.
    talk.say(stream, b"late")
    talk.client.increment_flow_control_window(100, stream)
    talk.play()

    assert heard.messages == [b"one", b"last"]
    assert heard.status == OK
    assert [call.got for call in talk.echo.calls] == [[b"one", b"last"]]


async def test_windows_below_nothing() -> None:
    """A peer may take back what it let us send; then more is needed to go on."""
    talk = Dialogue()
    stream = talk.open()
    heard = talk.heard[stream]
    talk.fetching = False
    talk.say(stream, b"large 1000")
    talk.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    talk.play()
    talk.say(stream, b"last")
    assert len(heard.data) == 1_005
    talk.client.increment_flow_control_window(905, stream)
    talk.play()
    assert len(heard.data) == 1_005
    talk.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1_000})
    talk.play()

    assert heard.messages == [b"x" * 1_000, b"last"]
    assert heard.status == OK


async def test_reset_by_the_peer() -> None:
    """A stream that is reset is over at once; what it waits for is cancelled."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"wait")
    await talk.turns()
    talk.client.reset_stream(stream)
    talk.play()
    assert talk.connection._streams == {}
    assert talk.connection.calls == 1
    await talk.turns()

    assert talk.connection.calls == 0
    assert [(call.waits, call.closes) for call in talk.echo.calls] == [(0, 1)]
    assert talk.recorder.faults == []


async def test_reset_amid_an_answer() -> None:
    """So is one whose answer has not left: nothing more is sent on it."""
    talk = Dialogue()
    talk.fetching = False
    stream = talk.open()
    talk.say(stream, b"large 100000")
    talk.client.reset_stream(stream)
    talk.client.increment_flow_control_window(200_000)
    talk.play()

    assert len(talk.heard[stream].data) == 65_535
    assert talk.connection.outlet.starved == {}


async def test_after_the_end() -> None:
    """What comes on a stream that is over is ignored, and does not harm others."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"last")
    for data in (
        frame(Kind.DATA, 0, stream, framed(b"late")),
        window_update(stream, 100),
        frame(Kind.RST_STREAM, 0, stream, b"\0\0\0\x08"),
    ):
        talk.connection.receive(data)
    assert b"".join(talk.connection.outlet.taken()) == b""
    other = talk.open()
    talk.say(other, b"one")

    assert talk.heard[other].messages == [b"one"]


async def test_twice_ended() -> None:
    """Who ends a stream, and goes on, loses it."""
    talk = Dialogue()
    stream = talk.open()
    talk.say(stream, b"wait", end=True)
    talk.raw(frame(Kind.DATA, 0, stream, framed(b"more")))
    await talk.turns()

    assert talk.heard[stream].reset == ErrorCodes.STREAM_CLOSED
    assert [call.closes for call in talk.echo.calls] == [1]
