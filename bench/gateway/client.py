"""
The apps: a process that asks for a while, and tells what it saw.

    python -m bench.gateway.client '{"port": 4000, …}'     # a `Task`; prints a `Seen`

A connection has one request at a time. Closed loop: the next one follows at once. Open
loop: requests are due at fixed moments, and each one's time counts from then, whether
or not a connection was free. Requests are whole: at the end what was asked is waited
for, so that CPU per request is that of whole ones.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

import uvloop

from bench.gateway.loads import BODIES, CHUNKS, KEY, MAX_TOKENS, MODEL, PATH, prompt
from bench.gateway.spread import percentile
from bench.gateway.upstream import hint
from bench.gateway.wire import HEAD_END, LAST_CHUNK, body_length, request

PATIENCE_SECONDS = 60.0
# Streams begin one after another, or all their chunks would come at once.
STAGGER_SECONDS = 0.3
_PERCENTILES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Task:
    """
    Attributes:
        port: Of whatever is asked, on 127.0.0.1.
        streams: Whether answers are streamed.
        connections: See `loads.Load`; so are *per_second* and *pace*.
        seconds: For how long new requests are made.
        most: How many, at most; None: any number.
        keys: Requests are by so many keys in turn.
        texts: ... and have so many different prompts.
        stagger_seconds: Over which streams begin, one after another.
    """

    port: int
    streams: bool
    connections: int
    seconds: float
    per_second: float | None = None
    pace: int | str = 0
    chunks: int = CHUNKS
    most: int | None = None
    keys: int = 1
    texts: int = BODIES
    prompt_bytes: int = 4_096
    max_tokens: int = MAX_TOKENS
    stagger_seconds: float = STAGGER_SECONDS


@dataclass(slots=True)
class Seen:
    """
    What the apps saw.

    Attributes:
        seconds: From the first request to the last answer.
        requests: That were answered by a whole 200.
        statuses: Answers by status.
        broken: Requests without a whole answer.
        chunks: Events of whole streams.
        latency_ms: From when a request was due to its answer's end: p50, p99.
        first_ms: ... to the first event.
        gap_ms: Between events, those that came together included.
        cpu_seconds: That the apps took themselves.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    requests: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    broken: int = 0
    chunks: int = 0
    latency_ms: dict[str, float] = field(default_factory=dict)
    first_ms: dict[str, float] = field(default_factory=dict)
    gap_ms: dict[str, float] = field(default_factory=dict)


def bodies(task: Task) -> list[bytes]:
    """Return the requests that are made in turn, as bytes."""
    count = max(task.texts, task.keys)
    texts = [prompt(number, task.prompt_bytes) for number in range(task.texts)]
    told = f"{hint(task.pace, task.chunks)} " if task.streams else ""
    return [
        request(
            PATH,
            KEY.format(number=number % task.keys),
            {
                "model": MODEL,
                "messages": [
                    {"role": "user", "content": told + texts[number % task.texts]}
                ],
                "max_tokens": task.max_tokens,
            }
            | ({"stream": True} if task.streams else {}),
        )
        for number in range(count)
    ]


class App(asyncio.Protocol):
    """A connection, and what it is waiting for."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._transport: asyncio.Transport | None = None
        self._due: float | None = None
        self._received = bytearray()
        self._first = self._last = 0.0
        self._events = 0
        self._head_end = -1
        self._end: int | None = None
        self._gaps: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """See `asyncio.Protocol`."""
        self._transport = None
        if self._due is not None:
            self._due = None
            self._crowd.broken()

    def ask(self, data: bytes, due: float) -> None:
        """Send *data*, which was due at the moment *due*."""
        self._received.clear()
        self._events, self._head_end, self._end = 0, -1, None
        self._gaps = []
        self._due = due
        if self._transport is None:
            self._due = None
            self._crowd.broken()
        else:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        now = time.perf_counter()
        self._received += data
        if self._head_end < 0:
            self._read_head()
        events = data.count(b"data: {")
        if events:
            self._note_events(events, now)
        if self._is_over():
            self._over(now)

    def _read_head(self) -> None:
        self._head_end = self._received.find(HEAD_END)
        if self._head_end >= 0:
            length = body_length(bytes(self._received[: self._head_end]))
            if length is not None:
                self._end = self._head_end + len(HEAD_END) + length

    def _note_events(self, events: int, now: float) -> None:
        if self._events:
            self._gaps.append(now - self._last)
        else:
            self._first = now
        self._gaps += [0.0] * (events - 1)
        self._events += events
        self._last = now

    def _is_over(self) -> bool:
        if self._head_end < 0:
            return False
        if self._end is not None:
            return len(self._received) >= self._end
        return self._received.endswith(LAST_CHUNK)

    def _over(self, now: float) -> None:
        due, self._due = self._due, None
        if due is None:
            return  # an answer that nobody asked for
        status = bytes(self._received[9:12]).decode("latin-1")
        mark = b"[DONE]" if self._events else b'"usage"'
        self._crowd.seen.statuses[status] = self._crowd.seen.statuses.get(status, 0) + 1
        if status == "200" and mark in self._received:
            self._crowd.latencies.append(now - due)
            if self._events:
                self._crowd.firsts.append(self._first - due)
                self._crowd.gaps += self._gaps
                self._crowd.seen.chunks += self._events
        elif status == "200":
            self._crowd.seen.broken += 1
        self._crowd.free(self)


class Crowd:
    """All connections, and what they saw."""

    def __init__(self, task: Task) -> None:
        self.seen = Seen()
        self.latencies: list[float] = []
        self.firsts: list[float] = []
        self.gaps: list[float] = []
        self._task = task
        self._bodies = bodies(task)
        self._idle: deque[App] = deque()
        self._waiting: deque[float] = deque()
        self._asked = self._ended = 0
        self._until = 0.0
        self._nothing_open = asyncio.Event()

    async def run(self) -> Seen:
        """Do the task."""
        loop = asyncio.get_running_loop()
        for _ in range(self._task.connections):
            _, app = await loop.create_connection(
                lambda: App(self), "127.0.0.1", self._task.port
            )
            self._idle.append(app)
        gc.freeze()
        gc.disable()  # nothing here makes cycles, and a pause would look like latency
        began, cpu_began = time.perf_counter(), time.process_time()
        self._until = began + self._task.seconds
        if self._task.per_second is None:
            await self._start_closed(began)
        else:
            await self._open_loop(began, self._task.per_second)
        await self._drain()
        self.seen.seconds = time.perf_counter() - began
        self.seen.cpu_seconds = time.process_time() - cpu_began
        return self._sum_up()

    async def _start_closed(self, began: float) -> None:
        apps = list(self._idle)
        self._idle.clear()
        for place, app in enumerate(apps):
            if self._task.streams:
                due = began + self._task.stagger_seconds * place / len(apps)
                await asyncio.sleep(due - time.perf_counter())
            self._next(app)

    async def _open_loop(self, began: float, per_second: float) -> None:
        number = 0
        while (due := began + number / per_second) < self._until:
            await asyncio.sleep(due - time.perf_counter())
            number += 1
            if self._idle:
                self._ask(self._idle.popleft(), due)
            else:
                self._waiting.append(due)

    async def _drain(self) -> None:
        while self._ended < self._asked or self._waiting:
            self._nothing_open.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._nothing_open.wait()
            except TimeoutError:
                self.seen.broken += self._asked - self._ended
                return

    def _ask(self, app: App, due: float) -> None:
        data = self._bodies[self._asked % len(self._bodies)]
        self._asked += 1
        app.ask(data, due)

    def _next(self, app: App) -> None:
        """Closed loop: let *app* ask again, if it is not over."""
        now = time.perf_counter()
        most = self._task.most
        if now < self._until and (most is None or self._asked < most):
            self._ask(app, now)

    def free(self, app: App) -> None:
        """*app* has its answer."""
        self._ended += 1
        if self._waiting:
            self._ask(app, self._waiting.popleft())
        elif self._task.per_second is None:
            self._next(app)
        else:
            self._idle.append(app)
        if self._ended >= self._asked:
            self._nothing_open.set()

    def broken(self) -> None:
        """A connection broke while it waited for an answer."""
        self._ended += 1
        self.seen.broken += 1
        if self._ended >= self._asked:
            self._nothing_open.set()

    def _sum_up(self) -> Seen:
        seen = self.seen
        seen.requests = len(self.latencies)
        seen.latency_ms = _percentiles(self.latencies)
        seen.first_ms = _percentiles(self.firsts)
        seen.gap_ms = _percentiles(self.gaps)
        return seen


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(seconds)
    return {
        name: round(1000 * percentile(ordered, share), 4)
        for name, share in _PERCENTILES.items()
    }


def main() -> None:
    """Do the task that the command line has, and print what was seen."""
    task = Task(**json.loads(sys.argv[1]))

    async def run() -> Seen:
        return await Crowd(task).run()

    print(json.dumps(asdict(uvloop.run(run()))))


if __name__ == "__main__":
    main()
