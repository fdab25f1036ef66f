"""
One connection as HTTP/2 has it: bytes in, bytes out, no socket and no loop.

Each frame has a handler; the table at the end is the table of contents. A handler raises
what the peer did wrong, and `receive` tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tokenweir.telemetry.hooks import Events
from tokenweir.transport.base import MAX_STREAMS
from tokenweir.transport.http2.conversation import Conversation
from tokenweir.transport.http2.errors import (
    ConnectionBrokenError,
    ErrorCode,
    StreamBrokenError,
)
from tokenweir.transport.http2.flow import DEFAULT_WINDOW_BYTES, ReceiveWindow
from tokenweir.transport.http2.frames import (
    ACK,
    END_STREAM,
    Frame,
    FrameReader,
    Kind,
    Payload,
    frame,
    goaway,
    number,
    rst_stream,
    unpadded,
    window_update,
)
from tokenweir.transport.http2.header_block import PRIORITY_BYTES, HeaderBlock
from tokenweir.transport.http2.headers import HeaderReader, RequestHead
from tokenweir.transport.http2.methods import Method
from tokenweir.transport.http2.outlet import Outlet
from tokenweir.transport.http2.patience import Patience
from tokenweir.transport.http2.settings import OURS
from tokenweir.transport.http2.statuses import Status, StatusError
from tokenweir.transport.http2.stream import Kept, Stream

# Only so that a peer may send without waiting for us: what it sends is used up at once,
# or waits in the window of its stream.
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
LAST_STREAM_ID = 2**31 - 1
PING_BYTES = 8
GOAWAY_BYTES = 8
# Comes back once the peer has read that it should open no more streams.
LAST_CALL = b"lastcall"


@dataclass(frozen=True, slots=True)
class Host:
    """
    What connections are given by whoever has them.

    Attributes:
        methods: What can be called, by path.
        events: Hear of faults.
        clock: Returns seconds that never go back.
    """

    methods: Mapping[str, Method]
    events: Events
    clock: Callable[[], float]


class Connection:
    """
    One peer's connection.

    Attributes:
        outlet: What is to be sent. There is something from the beginning on.
        calls: How many are not closed, those too whose streams are gone.
        closing: Nothing more is read; once all is sent, the connection is to be closed.
        refusing: New streams are refused, and the peer knows.
    """

    def __init__(self, host: Host, wake: Callable[[], None]) -> None:
        """*wake* is called when there is something to be sent."""
        self.outlet = Outlet(wake)
        self.calls = 0
        self.closing = False
        self.refusing = False
        self._host = host
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._patience = Patience(host.clock)
        self._receiving = ReceiveWindow(CONNECTION_WINDOW_BYTES)
        self._kept = Kept()
        self._streams: dict[int, Stream] = {}
        self._last_id = 0
        self._block: HeaderBlock | None = None
        self._greeted = False
        self.outlet.write(frame(Kind.SETTINGS, 0, 0, OURS))
        self.outlet.write(
            window_update(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES)
        )

    def receive(self, data: bytes) -> None:
        """Take what the peer has sent, cut anywhere. Raises nothing of the peer's."""
        if self.closing:
            return
        try:
            for received in self._frames.feed(data):
                self._handle(received)
        except ConnectionBrokenError as error:
            self._break_off(error.code, str(error))

    def go_away(self) -> None:
        """Have the peer open no more streams. Those under way are served."""
        self.outlet.write(goaway(LAST_STREAM_ID, ErrorCode.NO_ERROR))
        self.outlet.write(frame(Kind.PING, 0, 0, LAST_CALL))

    def end(self, status: Status, text: str) -> None:
        """End all streams, and the connection."""
        for stream in tuple(self._streams.values()):
            if stream.conversation is not None:
                stream.conversation.terminate(status, text)
        self._break_off(ErrorCode.NO_ERROR, "")

    def lost(self) -> None:
        """The peer is gone, and with it all streams."""
        self.closing = True
        for stream in tuple(self._streams.values()):
            stream.peer_reset()

    def _break_off(self, code: ErrorCode, why: str) -> None:
        self.outlet.write(goaway(self._last_id, code, why))
        self.lost()

    # === frames ====================================================================

    def _handle(self, received: Frame) -> None:
        kind, flags, stream_id, payload = received
        if self._block is not None and kind != Kind.CONTINUATION:
            raise ConnectionBrokenError(
                ErrorCode.PROTOCOL_ERROR, "a header block broke off"
            )
        if not self._greeted:
            if kind != Kind.SETTINGS or flags & ACK:
                raise ConnectionBrokenError(
                    ErrorCode.PROTOCOL_ERROR, "SETTINGS come first"
                )
            self._greeted = True
        handle = self._handlers.get(kind)
        if handle is None:
            self._patience.idle_frame()
            return
        try:
            handle(self, flags, stream_id, payload)
        except StreamBrokenError as error:
            self._reset(stream_id, error.code)

    def _reset(self, stream_id: int, code: ErrorCode) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self.outlet.write(rst_stream(stream_id, code))
        else:
            stream.reset(code)

    def _stream(self, stream_id: int) -> Stream | None:
        """Return a stream, or None if it is gone. Raises: ConnectionBrokenError."""
        stream = self._streams.get(stream_id)
        if stream is None and (stream_id == 0 or stream_id > self._last_id):
            raise ConnectionBrokenError(
                ErrorCode.PROTOCOL_ERROR, "a stream that was not opened"
            )
        return stream

    def _on_data(self, flags: int, stream_id: int, payload: Payload) -> None:
        size = len(payload)
        self._receiving.take(size, ConnectionBrokenError)
        if increment := self._receiving.use(size):
            self.outlet.write(window_update(0, increment))
        stream = self._streams.get(stream_id) or self._stream(stream_id)
        payload = unpadded(flags, payload)
        ended = bool(flags & END_STREAM)
        if not payload and not ended:
            self._patience.idle_frame()
        if stream is not None:
            stream.receive(payload, size, ended=ended)

    def _on_headers(self, flags: int, stream_id: int, payload: Payload) -> None:
        block = HeaderBlock(flags, stream_id, payload)
        if block.complete:
            self._on_block(block)
        else:
            self._block = block

    def _on_continuation(self, flags: int, stream_id: int, payload: Payload) -> None:
        block = self._block
        if block is None:
            raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "continues nothing")
        block.go_on(flags, stream_id, payload)
        if block.complete:
            self._block = None
            self._on_block(block)

    def _on_rst_stream(self, _: int, stream_id: int, payload: Payload) -> None:
        number(payload)
        if (stream := self._stream(stream_id)) is not None:
            stream.peer_reset()

    def _on_settings(self, flags: int, stream_id: int, payload: Payload) -> None:
        self._patience.idle_frame()
        if stream_id:
            raise ConnectionBrokenError(
                ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream"
            )
        if flags & ACK:
            if payload:
                raise ConnectionBrokenError(
                    ErrorCode.FRAME_SIZE_ERROR, "an ACK that says more"
                )
            self._headers.settings_acknowledged()
            return
        peer = self.outlet.peer
        before = peer.window_bytes
        peer.apply(payload)
        for stream in self._streams.values():
            stream.window.grow(peer.window_bytes - before, ConnectionBrokenError)
        self.outlet.write(frame(Kind.SETTINGS, ACK, 0))
        self.outlet.unblock()

    def _on_ping(self, flags: int, stream_id: int, payload: Payload) -> None:
        self._patience.idle_frame()
        if stream_id or len(payload) != PING_BYTES:
            raise ConnectionBrokenError(ErrorCode.FRAME_SIZE_ERROR, "no PING")
        if not flags & ACK:
            self.outlet.write(frame(Kind.PING, ACK, 0, bytes(payload)))
        elif payload == LAST_CALL:
            self.refusing = True
            self.outlet.write(goaway(self._last_id, ErrorCode.NO_ERROR))

    def _on_window_update(self, _: int, stream_id: int, payload: Payload) -> None:
        increment = number(payload) & LAST_STREAM_ID
        if stream_id == 0:
            if increment == 0:
                raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "grows by none")
            self.outlet.window.grow(increment, ConnectionBrokenError)
            self.outlet.unblock()
        elif (stream := self._stream(stream_id)) is not None:
            if increment == 0:
                raise StreamBrokenError(ErrorCode.PROTOCOL_ERROR, "grows by none")
            stream.window.grow(increment, StreamBrokenError)
            if stream.stuck:
                stream.unblock()

    def _on_priority(self, _: int, stream_id: int, payload: Payload) -> None:
        self._patience.idle_frame()
        if stream_id == 0 or len(payload) != PRIORITY_BYTES:
            raise ConnectionBrokenError(ErrorCode.FRAME_SIZE_ERROR, "no PRIORITY")

    def _on_goaway(self, _: int, stream_id: int, payload: Payload) -> None:
        """Take note: a peer that goes away closes when its streams are over."""
        self._patience.idle_frame()
        if stream_id or len(payload) < GOAWAY_BYTES:
            raise ConnectionBrokenError(ErrorCode.FRAME_SIZE_ERROR, "no GOAWAY")

    def _on_push_promise(self, _: int, __: int, ___: Payload) -> None:
        raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "clients don't push")

    # === streams ===================================================================

    def _on_block(self, block: HeaderBlock) -> None:
        stream_id = block.stream_id
        if stream_id % 2 == 0:
            raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "no client's stream")
        if stream_id <= self._last_id:
            self._on_trailers(block)
            return
        self._last_id = stream_id
        stream = Stream(stream_id, self.outlet, self._kept, self._streams.pop)
        self._streams[stream_id] = stream
        try:
            head = self._headers.read(block.joined())
        except StatusError as error:
            stream.finish(error.status, error.text)
        else:
            self._open(stream, head)
        if block.ended and stream_id in self._streams:
            stream.end()

    def _on_trailers(self, block: HeaderBlock) -> None:
        self._headers.skip(block.joined())
        stream = self._streams.get(block.stream_id)
        if stream is None:
            self._patience.idle_frame()
        elif not block.ended:
            raise StreamBrokenError(ErrorCode.PROTOCOL_ERROR, "a second head")
        else:
            stream.end()

    def _open(self, stream: Stream, head: RequestHead) -> None:
        if self.refusing or self.calls >= MAX_STREAMS:
            raise StreamBrokenError(ErrorCode.REFUSED_STREAM, "no more streams")
        if not head.is_grpc:
            stream.refuse_protocol()
            return
        method = self._host.methods.get(head.path)
        if method is None:
            stream.finish(Status.UNIMPLEMENTED, "no such method")
            return
        self.calls += 1
        stream.conversation = Conversation(
            method, stream, self._host.events, self._call_closed
        )
        stream.conversation.begin(head.metadata, head.timeout_seconds)

    def _call_closed(self) -> None:
        self.calls -= 1

    _handlers: ClassVar[dict[int, Callable[[Connection, int, int, Payload], None]]] = {
        Kind.DATA: _on_data,
        Kind.HEADERS: _on_headers,
        Kind.PRIORITY: _on_priority,
        Kind.RST_STREAM: _on_rst_stream,
        Kind.SETTINGS: _on_settings,
        Kind.PUSH_PROMISE: _on_push_promise,
        Kind.PING: _on_ping,
        Kind.GOAWAY: _on_goaway,
        Kind.WINDOW_UPDATE: _on_window_update,
        Kind.CONTINUATION: _on_continuation,
    }
