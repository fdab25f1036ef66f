"""
A stream as HTTP/2 has it: its windows, its frames, its end on either side.

Once both sides have ended it, or one has reset it, it is gone: nobody knows it any more,
and what is still sent on it is ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tokenweir.transport.http2.conversation import Conversation
from tokenweir.transport.http2.errors import ErrorCode, StreamBrokenError
from tokenweir.transport.http2.flow import ReceiveWindow, SendWindow
from tokenweir.transport.http2.frames import (
    END_STREAM,
    Kind,
    Payload,
    frame_head,
    rst_stream,
    window_update,
)
from tokenweir.transport.http2.headers import (
    HEAD_BLOCK,
    NOT_GRPC_BLOCK,
    WELL_BLOCK,
    trailers_block,
)
from tokenweir.transport.http2.messages import PREFIX_BYTES, MessageReader, prefix
from tokenweir.transport.http2.outlet import Outlet
from tokenweir.transport.http2.settings import STREAM_WINDOW_BYTES
from tokenweir.transport.http2.statuses import Status, StatusError

# Only a peer that sends large messages on many streams at once gets here: Envoy has each
# of these bodies in its own memory as well.
MAX_KEPT_BYTES = 1024 * 1024 * 1024


class Kept:
    """
    What all streams of a connection have of messages that are not complete.

    Attributes:
        size_bytes: In all.
    """

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class Stream:
    """
    One stream; it is where its conversation's replies go.

    Attributes:
        id: Its number.
        window: What the peer lets it send.
        conversation: What is said on it; None: nothing, as it was refused.
    """

    __slots__ = (
        "_gone",
        "_headed",
        "_kept",
        "_on_gone",
        "_outlet",
        "_peer_ended",
        "_pending",
        "_reader",
        "_receiving",
        "_trailers",
        "_unused_bytes",
        "conversation",
        "id",
        "window",
    )

    def __init__(
        self,
        stream_id: int,
        outlet: Outlet,
        kept: Kept,
        on_gone: Callable[[int], object],
    ) -> None:
        self.id = stream_id
        self.window = SendWindow(outlet.peer.window_bytes)
        self.conversation: Conversation | None = None
        self._outlet = outlet
        self._kept = kept
        self._on_gone = on_gone
        self._receiving = ReceiveWindow(STREAM_WINDOW_BYTES)
        self._reader = MessageReader()
        self._unused_bytes = 0
        self._pending: deque[Payload] | None = None
        self._trailers: bytes | None = None
        self._headed = self._peer_ended = self._gone = False

    # === in ========================================================================

    def receive(self, payload: Payload, size_bytes: int, *, ended: bool) -> None:
        """
        Take a frame of DATA; *size_bytes* are with its padding.

        Raises: StreamBrokenError.
        """
        if self._peer_ended:
            raise StreamBrokenError(ErrorCode.STREAM_CLOSED, "it has ended")
        self._receiving.take(size_bytes, StreamBrokenError)
        self._peer_ended = ended
        conversation = self.conversation
        if conversation is None or conversation.over:
            return  # it only waits to be sent to its end
        try:
            messages = self._read(payload)
        except StatusError as error:
            conversation.terminate(error.status, error.text)
            return
        if messages:
            conversation.take(messages)
        if ended:
            self._peer_done()
        else:
            self._let_in(size_bytes)

    def end(self) -> None:
        """The peer has said all. Raises: StreamBrokenError."""
        if self._peer_ended:
            raise StreamBrokenError(ErrorCode.STREAM_CLOSED, "it has ended")
        self._peer_ended = True
        self._peer_done()

    def caught_up(self) -> None:
        """Let the peer send more: all that has arrived is dealt with."""
        if self._unused_bytes:
            self._let_in(0)

    def _peer_done(self) -> None:
        if self.conversation is None:
            return
        if self._reader.kept_bytes:
            self.conversation.terminate(Status.INTERNAL, "message cut off")
        else:
            self.conversation.peer_done()

    def _read(self, payload: Payload) -> list[bytes]:
        before = self._reader.kept_bytes
        messages = self._reader.feed(payload)
        if more := self._reader.kept_bytes - before:
            self._kept.size_bytes += more
            if self._kept.size_bytes > MAX_KEPT_BYTES:
                raise StatusError(Status.RESOURCE_EXHAUSTED, "too much at once")
        return messages

    def _let_in(self, size_bytes: int) -> None:
        """Let the peer send more once nothing waits here."""
        self._unused_bytes += size_bytes
        if self._peer_ended or not (self.conversation and self.conversation.idle):
            return
        used, self._unused_bytes = self._unused_bytes, 0
        if increment := self._receiving.use(used):
            self._outlet.write(window_update(self.id, increment))

    # === out =======================================================================

    @property
    def stuck(self) -> bool:
        """Whether something that was sent does not leave."""
        return bool(self._pending)

    def send(self, message: bytes) -> None:
        """Send a message, as soon as the peer lets us."""
        if self._gone or self._trailers is not None:
            return
        outlet = self._outlet
        if not self._headed:
            self._headed = True
            outlet.headers(self.id, HEAD_BLOCK)
        size = len(message) + PREFIX_BYTES
        if not self._pending and size <= self._room:
            self.window.free_bytes -= size
            outlet.window.free_bytes -= size
            outlet.write(
                frame_head(size, Kind.DATA, 0, self.id) + prefix(message) + message
            )
            return
        if self._pending is None:
            self._pending = deque()
        # A large one is not copied to stand behind its five bytes.
        self._pending += (prefix(message), memoryview(message))
        self._drain()

    def finish(self, status: Status, text: str = "") -> None:
        """End the stream once all that was sent has left."""
        if self._gone or self._trailers is not None:
            return
        block = WELL_BLOCK if status is Status.OK else trailers_block(status, text)
        self._trailers = block if self._headed else HEAD_BLOCK + block
        if not self._pending:
            self._end()

    def refuse_protocol(self) -> None:
        """End the stream of somebody who does not speak gRPC."""
        self._trailers = NOT_GRPC_BLOCK
        self._end()

    def unblock(self) -> None:
        """Send what can be sent by now, and go on."""
        self._drain()
        if self._pending:
            return
        if self._trailers is not None:
            self._end()
        elif self.conversation is not None:
            self.conversation.go_on()
            self.caught_up()

    @property
    def _room(self) -> int:
        outlet = self._outlet
        room = min(self.window.free_bytes, outlet.window.free_bytes)
        return min(room, outlet.peer.max_frame_bytes)

    def _drain(self) -> None:
        pending = self._pending
        while pending:
            part = pending[0]
            room = self._room
            if room <= 0:
                self._outlet.starved[self.id] = self
                return
            self.window.free_bytes -= min(room, len(part))
            self._outlet.data(self.id, part[:room])
            if len(part) > room:
                pending[0] = part[room:]
            else:
                pending.popleft()
        self._outlet.starved.pop(self.id, None)

    # === the end ===================================================================

    def reset(self, code: ErrorCode) -> None:
        """End the stream at once, from our side."""
        if not self._gone:
            self._outlet.write(rst_stream(self.id, code))
            self.peer_reset()

    def peer_reset(self) -> None:
        """The peer has ended the stream at once, or is gone itself."""
        conversation = self.conversation
        self._forget()
        if conversation is not None:
            conversation.abandon()

    def _end(self) -> None:
        assert self._trailers is not None
        self._outlet.headers(self.id, self._trailers, END_STREAM)
        if not self._peer_ended:
            # "A server MAY request that the client abort transmission of a request
            # without error": else the stream would be open until it has.
            self._outlet.write(rst_stream(self.id, ErrorCode.NO_ERROR))
        self._forget()

    def _forget(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._kept.size_bytes -= self._reader.kept_bytes
        self._reader = MessageReader()
        self._pending = None
        self.conversation = None
        self._outlet.starved.pop(self.id, None)
        self._on_gone(self.id)
