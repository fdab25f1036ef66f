"""
Header blocks: requests of the peer, answers of ours (RFC 9113, section 8; RFC 7541).

Envoy sends the same few blocks over and over. We announce a header table of no size:
once the peer has agreed, a block says all by itself, and is looked up by its bytes.
Ours never refer to the table either, so they are made once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from hpack import Decoder, HPACKError, OversizedHeaderListError

from tokenweir.transport.base import MAX_METADATA_BYTES
from tokenweir.transport.http2.errors import (
    ConnectionBrokenError,
    ErrorCode,
    StreamBrokenError,
)
from tokenweir.transport.http2.statuses import Status, StatusError

# Envoy needs one or two for each filter of ours; tracing would make each one new.
MAX_KNOWN_BLOCKS = 256
MAX_KNOWN_BLOCK_BYTES = 4_096
MAX_TEXT_BYTES = 1_024

Fields = list[tuple[bytes, bytes]]

_PSEUDO = frozenset((b":method", b":path", b":scheme", b":authority"))
# What belongs to HTTP/1's connections makes a request malformed here.
_OF_CONNECTIONS = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding")
)
_UPPER = re.compile(rb"[A-Z]")
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNIT_SECONDS = {"H": 3_600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """
    What a peer wants.

    Attributes:
        method: ``"POST"``, if this is gRPC.
        path: Names the method of gRPC.
        metadata: All other fields but pseudo ones; the last one of each name.
        timeout_seconds: How long the peer waits, or None: for ever.
    """

    method: str
    path: str
    metadata: Mapping[str, str]
    timeout_seconds: float | None

    @property
    def is_grpc(self) -> bool:
        """Whether this is a call of gRPC's at all."""
        kind = self.metadata.get("content-type", "")
        return self.method == "POST" and kind.startswith("application/grpc")


class HeaderReader:
    """Reads the header blocks of one connection, each once and in order."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_METADATA_BYTES)
        self._known: dict[bytes, RequestHead] = {}
        self._stateless = False

    def settings_acknowledged(self) -> None:
        """Hold the peer to a header table of no size."""
        self._decoder.max_allowed_table_size = 0

    def read(self, block: bytes) -> RequestHead:
        """
        Read the head of a request.

        Raises:
            ConnectionBrokenError: Nor will what follows be understood.
            StreamBrokenError: It is malformed.
            StatusError: It is too large.
        """
        if self._stateless and (known := self._known.get(block)) is not None:
            return known
        head = _request_head(self._fields(block))
        if self._stateless and len(block) <= MAX_KNOWN_BLOCK_BYTES:
            if len(self._known) >= MAX_KNOWN_BLOCKS:
                del self._known[next(iter(self._known))]
            self._known[block] = head
        return head

    def skip(self, block: bytes) -> None:
        """Read what matters to nobody, as later blocks may refer to it. See `read`."""
        if not self._stateless:
            self._fields(block)

    def _fields(self, block: bytes) -> Fields:
        decoder = self._decoder
        try:
            fields = decoder.decode(block, raw=True)
        except OversizedHeaderListError as error:
            if decoder.header_table_size == 0:  # so nothing is lost with the rest of it
                raise StatusError(
                    Status.RESOURCE_EXHAUSTED, "metadata too large"
                ) from error
            raise ConnectionBrokenError(
                ErrorCode.ENHANCE_YOUR_CALM, "metadata too large"
            ) from error
        except (HPACKError, IndexError, ValueError) as error:
            raise ConnectionBrokenError(
                ErrorCode.COMPRESSION_ERROR, "no header block"
            ) from error
        # It was not larger than allowed, and can't become so again.
        self._stateless = decoder.max_allowed_table_size == 0
        return [(field[0], field[1]) for field in fields]


def _request_head(fields: Fields) -> RequestHead:
    pseudo: dict[bytes, str] = {}
    metadata: dict[str, str] = {}
    for name, value in fields:
        if name[:1] == b":":
            if metadata or name in pseudo or name not in _PSEUDO:
                raise _malformed("pseudo fields")
            pseudo[name] = value.decode("latin-1")
        elif not name or name in _OF_CONNECTIONS or _UPPER.search(name):
            raise _malformed("names")
        else:
            metadata[name.decode("latin-1")] = value.decode("latin-1")
    if b":method" not in pseudo or b":path" not in pseudo or b":scheme" not in pseudo:
        raise _malformed("pseudo fields")
    return RequestHead(
        pseudo[b":method"],
        pseudo[b":path"],
        metadata,
        _timeout_seconds(metadata.get("grpc-timeout")),
    )


def _timeout_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        raise _malformed("grpc-timeout")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def _malformed(what: str) -> StreamBrokenError:
    return StreamBrokenError(ErrorCode.PROTOCOL_ERROR, f"malformed {what}")


# === ours ==========================================================================


def _string(value: bytes) -> bytes:
    """Return *value* behind its size, which has seven bits where it fits into them."""
    size, head = len(value), bytearray()
    if size >= 0x7F:
        head.append(0x7F)
        size -= 0x7F
        while size > 0x7F:
            head.append(0x80 | size & 0x7F)
            size >>= 7
    head.append(size)
    return bytes(head) + value


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a field that is in no table and comes into none."""
    return b"\x00" + _string(name) + _string(value)


# The first block of a connection says that we use no table, whatever is allowed.
NO_TABLE = b"\x20"
_STATUS_200 = b"\x88"
_STATUS_415 = b"\x08" + _string(b"415")
_CONTENT_TYPE = b"\x0f\x10" + _string(b"application/grpc")

HEAD_BLOCK = _STATUS_200 + _CONTENT_TYPE
NOT_GRPC_BLOCK = _STATUS_415
"""For who speaks another protocol."""


def trailers_block(status: Status, text: str = "") -> bytes:
    """
    Return what ends a stream. *text* is cut where it is long.

    Alone, behind `HEAD_BLOCK`, it is an answer without messages.
    """
    block = _literal(b"grpc-status", str(int(status)).encode())
    if not text:
        return block
    # "Percent-Encoded": all but printable ASCII, and the percent sign.
    printable = quote(text[:MAX_TEXT_BYTES], safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
    return block + _literal(b"grpc-message", printable.encode())


WELL_BLOCK = trailers_block(Status.OK)
