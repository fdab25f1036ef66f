"""
gRPC's framing: messages out of a stream's bytes, cut anywhere, and back.

A large message is gathered where it will stay: it is copied once, out of what was read.
"""

from __future__ import annotations

import io

from tokenweir.transport.base import MAX_MESSAGE_BYTES
from tokenweir.transport.http2.frames import Payload
from tokenweir.transport.http2.statuses import Status, StatusError

PREFIX_BYTES = 5


class MessageReader:
    """
    Takes the bytes of one stream.

    Attributes:
        kept_bytes: Of the message that is not complete.
    """

    __slots__ = ("_body", "_missing_bytes", "_prefix", "kept_bytes")

    def __init__(self) -> None:
        self._prefix = b""
        self._body: io.BytesIO | None = None
        self._missing_bytes = 0
        self.kept_bytes = 0

    def feed(self, data: Payload) -> list[bytes]:
        """
        Return the messages that *data* completes.

        Raises: StatusError, for what is no message of ours; the stream is over then.
        """
        if not self.kept_bytes:
            # As it nearly always is: a frame is one message, and small.
            size = len(data) - PREFIX_BYTES
            if size >= 0 and int.from_bytes(data[:PREFIX_BYTES]) == size:
                return [bytes(data[PREFIX_BYTES:])]
        return self._feed(data)

    def _feed(self, data: Payload) -> list[bytes]:
        messages = []
        rest = memoryview(data)
        while rest:
            if self._body is None:
                rest = self._read_prefix(rest)
                if self._body is None:
                    break
            part = rest[: self._missing_bytes]
            self._body.write(part)
            self._missing_bytes -= len(part)
            rest = rest[len(part) :]
            if not self._missing_bytes:
                messages.append(self._body.getvalue())
                self._body = None
        body_bytes = 0 if self._body is None else self._body.tell() + PREFIX_BYTES
        self.kept_bytes = len(self._prefix) + body_bytes
        return messages

    def _read_prefix(self, data: memoryview) -> memoryview:
        """Begin a message if its prefix is complete; return what follows."""
        wanted = PREFIX_BYTES - len(self._prefix)
        self._prefix += data[:wanted]
        if len(self._prefix) == PREFIX_BYTES:
            compressed, size = self._prefix[0], int.from_bytes(self._prefix[1:])
            if compressed:
                raise StatusError(
                    Status.UNIMPLEMENTED, "compressed messages are not understood"
                )
            if size > MAX_MESSAGE_BYTES:
                raise StatusError(
                    Status.RESOURCE_EXHAUSTED,
                    f"message larger than {MAX_MESSAGE_BYTES} bytes",
                )
            self._prefix, self._missing_bytes = b"", size
            self._body = io.BytesIO()
        return data[wanted:]


def prefix(message: bytes) -> bytes:
    """Return what stands before *message* on the wire."""
    return len(message).to_bytes(PREFIX_BYTES)
