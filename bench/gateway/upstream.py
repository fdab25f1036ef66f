"""
The provider: answers at once as JSON, or as paced events.

    python -m bench.gateway.upstream     # prints its port

How it answers is told by the prompt, as ``[[pace=10 chunks=100]]``: whatever stands in
between passes it on. ``pace=hold`` holds a stream after its first chunk until somebody
asks for /release; /held tells how many are. It has to cost much less than what is measured, so it reads nothing
else and writes bytes that are made beforehand; what it does cost stands in results.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
from http.client import HTTPConnection
from typing import cast

import uvloop

from bench.gateway.loads import INPUT_TOKENS, MODEL, OUTPUT_TOKENS
from bench.gateway.wire import HEAD_END, LAST_CHUNK, body_length, chunk

RELEASE, HELD = "/release", "/held"
_HINT = re.compile(rb"\[\[pace=(\w+) chunks=(\d+)\]\]")
_STREAMS = re.compile(rb'"stream":\s*true')
_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_COMMON = {"id": "chatcmpl-bench", "created": 1_760_000_000, "model": MODEL}


def hint(pace: int | str, chunks: int) -> str:
    """Return what tells how to answer, for a prompt."""
    return f"[[pace={pace} chunks={chunks}]]"


def _completion() -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Tokens " * 12, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    content = {"object": "chat.completion", "choices": [choice], "usage": _USAGE}
    body = json.dumps(_COMMON | content).encode()
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        f"x-request-id: bench\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _event(choices: list[object], usage: object = None) -> bytes:
    content = {
        "object": "chat.completion.chunk",
        "service_tier": "default",
        "system_fingerprint": "fp_bench",
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + json.dumps(_COMMON | content).encode() + b"\n\n"


def _delta(delta: object, finish: str | None = None) -> bytes:
    return _event(
        [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    )


JSON_ANSWER = _completion()
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"x-request-id: bench\r\ntransfer-encoding: chunked\r\n\r\n"
)
_CHUNK = chunk(_delta({"content": " tokens"}))
_STOP = chunk(_delta({}, "stop"))
_USED = chunk(_event([], _USAGE))
_END = chunk(b"data: [DONE]\n\n") + LAST_CHUNK


class Provider(asyncio.Protocol):
    """A connection. *held* are the streams that wait for a release, of all of them."""

    def __init__(self, held: set[Provider]) -> None:
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._left = 0
        self._pace_seconds = 0.0
        self._due = 0.0
        self._tells_usage = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """See `asyncio.Protocol`."""
        self._transport = None
        self._held.discard(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        head_end = self._received.find(HEAD_END)
        if head_end < 0:
            return
        head = bytes(self._received[:head_end])
        end = head_end + len(HEAD_END) + (body_length(head) or 0)
        if len(self._received) >= end:
            body = bytes(self._received[head_end:end])
            del self._received[:end]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.partition(b"\r\n")[0].split()[1].decode("latin-1")
        if path in {RELEASE, HELD}:
            self._tell_held(releases=path == RELEASE)
        elif _STREAMS.search(body) is None:
            self._write(JSON_ANSWER)
        else:
            found = _HINT.search(body)
            assert found is not None, "a stream's prompt tells its pace"
            self._tells_usage = b"include_usage" in body
            self._begin(found[1], int(found[2]))

    def _begin(self, pace: bytes, chunks: int) -> None:
        self._left = chunks - 1
        self._write(SSE_HEAD + _CHUNK)
        if pace == b"hold":
            self._held.add(self)
            return
        self._pace_seconds = int(pace) / 1000
        self._due = self._loop.time() + self._pace_seconds
        self._loop.call_at(self._due, self._next)

    def _tell_held(self, *, releases: bool) -> None:
        told = str(len(self._held))
        for stream in tuple(self._held) if releases else ():
            stream.release()
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(told)}\r\n\r\n"
        self._write((head + told).encode())

    def release(self) -> None:
        """Send the rest of a held stream at once."""
        self._held.discard(self)
        self._write(_CHUNK * self._left)
        self._finish()

    def _next(self) -> None:
        if self._transport is None:
            return
        if self._left == 0:
            self._finish()
            return
        self._left -= 1
        self._write(_CHUNK)
        self._due += self._pace_seconds
        self._loop.call_at(self._due, self._next)

    def _finish(self) -> None:
        self._write(_STOP + (_USED if self._tells_usage else b"") + _END)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def held_by(port: int) -> int:
    """Ask how many streams the one at *port* holds. Raises: OSError."""
    return _asked(port, HELD)


def release(port: int) -> int:
    """Let it end them, and return how many there were. Raises: OSError."""
    return _asked(port, RELEASE)


def _asked(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return int(connection.getresponse().read())
    finally:
        connection.close()


async def serve() -> None:
    """Serve until killed."""
    held: set[Provider] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Provider(held), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.freeze()
    gc.disable()  # nothing here makes cycles, and a pause would look like a gap
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
