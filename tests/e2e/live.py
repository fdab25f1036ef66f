"""A policy that changes under load, and what is asked meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cases.apis import OPENAI, TOLD, story
from tests.cases.connection import Connection, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.e2e import odd_renderer
from tests.pod import Pod, Processor, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    Pause,
    ReceivedRequest,
    Step,
    chunk,
    reply,
)

Content = dict[str, Any]

CHARGED = (TOLD.input, TOLD.output)
PIECES = story(OPENAI)
STREAM = b"".join(PIECES)
REPLY = OPENAI.reply("Hi.", TOLD)
# What an app says, so that the provider answers so.
LONG, SLOW, SHORT = "long", "slow", "short"
# Of `Pod.start`: see there.
PATIENT: Mapping[str, Any] = {
    "program": "tests.e2e.odd_renderer",
    "arguments": odd_renderer.ARGUMENTS,
}
_TICK_SECONDS = 0.05
# Others use this machine too.
_BETWEEN_SECONDS = 0.05


class Tail:
    """The events in a processor's log, counted as they come."""

    def __init__(self, processor: Processor) -> None:
        self._path = processor.log
        self._read = 0
        self._counts: Counter[str] = Counter()

    def count(self, event: str) -> int:
        """Return how many lines there are of *event*."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            new, end, _ = log.read().rpartition(b"\n")
        self._read += len(new) + len(end)
        for line in new.splitlines():
            with contextlib.suppress(ValueError):
                self._counts[json.loads(line).get("event", "")] += 1
        return self._counts[event]


class Policies:
    """Puts policies in force, with all workers of *pod*."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._tails = [Tail(each) for each in pod.processors]
        self.content: Content = yaml.safe_load(pod.policy_path.read_text())

    async def put(
        self, content: Mapping[str, Any] | str, told: str = "policy_loaded"
    ) -> None:
        """Put *content* in its file, and wait until every worker says *told*."""
        before = [tail.count(told) for tail in self._tails]
        text = content if isinstance(content, str) else yaml.safe_dump(dict(content))
        replace(self._pod.policy_path, text.encode())
        for each in self._pod.processors:
            each.process.send_signal(signal.SIGHUP)

        def all_told() -> bool:
            pairs = zip(self._tails, before, strict=True)
            return all(tail.count(told) > count for tail, count in pairs)

        await until(all_told, 60)


def replace(path: Path, content: bytes) -> None:
    """Put *content* in the place of what is in the file, as Kubernetes does."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)


def ask(how: str, model: str = "gpt-4o") -> bytes:
    """Return a request that is answered *how*."""
    body = OPENAI.request(
        stream=how != SHORT,
        model=model,
        messages=[{"role": "user", "content": how}],
    )
    return request(body)


@dataclass
class Provider:
    """
    Plays what it is asked for.

    Attributes:
        gate: Until it opens, long answers stand still in their middle.
    """

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, asked: ReceivedRequest) -> list[Step]:
        """Return what is played to a request."""
        how = json.loads(asked.body)["messages"][0]["content"]
        if how == SHORT:
            return [reply(REPLY)]
        steps: list[Step] = [STREAM_HEAD]
        for piece in PIECES[:6]:
            steps += [chunk(piece), Pause(_TICK_SECONDS if how == SLOW else 0)]
        if how == LONG:
            steps.append(Hold(self.gate))
        return [*steps, *map(chunk, PIECES[6:]), LAST_CHUNK]


@dataclass
class Load:
    """
    Apps that ask again and again.

    Attributes:
        bad: Answers that were not as the provider gave them, at most twenty.
        answers: How many there were.
    """

    scene: Scene
    bad: list[tuple[int, bytes]] = field(default_factory=list)
    answers: int = 0

    @contextlib.asynccontextmanager
    async def running(self, apps: Iterable[bytes]) -> AsyncIterator[None]:
        """Have an app for each of *apps* ask just that, until the end of the block."""
        over = asyncio.Event()
        tasks = [asyncio.create_task(self._ask(data, over)) for data in apps]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*tasks)

    async def _ask(self, data: bytes, over: asyncio.Event) -> None:
        while not over.is_set():
            async with Connection.open(self.scene.pod.port) as app:
                for _ in range(10):  # on one connection, then on another
                    await self.once(app, data)
                    await asyncio.sleep(_BETWEEN_SECONDS)
                    if over.is_set():
                        break

    async def once(self, app: Connection, data: bytes) -> None:
        """Ask for *data*, and compare the answer."""
        await app.send(data)
        answer = await app.answer()
        self.answers += 1
        if answer.status != 200 or answer.body not in (STREAM, REPLY):
            self.bad = [*self.bad, (answer.status, answer.body)][:20]
