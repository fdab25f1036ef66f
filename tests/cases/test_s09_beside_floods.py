"""S09, beside a flood: whoever asks meanwhile is answered, and soon."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, story
from tests.cases.meanwhile import alone, beside, bound_seconds
from tests.cases.scene import Scene
from tests.pod import OTHER_KEY
from tests.scripted_upstream import ScriptedUpstream, Step, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MB = 1024 * 1024
# Half of what Envoy waits for before it refuses. Beside a flood a small request waits
# for a step of some milliseconds each time that it comes back to the processor, which
# is a dozen times. Of half of them, since a busy machine makes single ones wait; that
# none waits for too long is what its status says.
BOUND_SECONDS = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod whose second provider answers at once, whatever the first."""
    async with ScriptedUpstream() as prompt:
        prompt.play(reply(ANTHROPIC.reply("Done.")))

        def adapt(content: dict[str, Any]) -> None:
            url = f"http://127.0.0.1:{prompt.port}"
            content["providers"]["anthropic"]["base_url"] = url

        async with Scene.open(adapt=adapt) as opened:
            yield opened


def asking(content: object) -> bytes:
    """Return a request with *content*."""
    return OPENAI.request(stream=False, messages=[{"role": "user", "content": content}])


def bomb(unit: bytes) -> list[Step]:
    """Return the answer of some kilobytes that is 60 MB of *unit*."""
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    return [reply(gzip.compress(unit * (60 * MB // len(unit)), 1), headers=headers)]


PICTURE = {"type": "image_url", "image_url": {"url": "https://127.0.0.1/a.png"}}
DONE: list[Step] = [reply(OPENAI.reply("Done."))]


@dataclass(frozen=True)
class Flood:
    """
    Something large.

    Attributes:
        steps: What the provider answers.
        bodies: What is asked, all at once.
        status: That each of them gets.
    """

    steps: Sequence[Step]
    bodies: Sequence[bytes] = (OPENAI.request(),)
    status: int = 200


FLOODS = {
    "22 MB of tiny events": Flood(
        event_stream([*[b"data:x\n\n" * 8_192] * 352, *story(OPENAI)])
    ),
    "events of no JSON": Flood(
        event_stream([*[b'data:{"a\n\n' * 6_553] * 64, *story(OPENAI)])
    ),
    "a bomb of events": Flood(bomb(b"data:{}\n\n")),
    "a bomb of comments": Flood(bomb(b":\n")),
    "a bomb of a letter": Flood(bomb(b"a")),
    "large replies": Flood([reply(OPENAI.reply('"\n' * MB))], [asking("x")] * 4),
    "bodies of 8 MB": Flood(DONE, [asking("a word " * (MB - 100))] * 4),
    "escapes": Flood(DONE, [asking('"' * (4 * MB - 200))] * 4),
    "60,000 parts": Flood(DONE, [asking([PICTURE] * 60_000)] * 4, status=400),
    "10,000 parts": Flood(DONE, [asking([PICTURE] * 10_000)] * 4),
    "numbers": Flood(
        DONE, [OPENAI.request(stream=False, x=[1] * 2_000_000)] * 4, status=400
    ),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_s09_others_are_answered_meanwhile(scene: Scene, name: str) -> None:
    """
    While a flood is read, small requests of others are admitted, and not much later
    than without it.

    theopenco/llmgateway#2981: one event was worth minutes of the processor.
    """
    flood = FLOODS[name]
    await scene.clear()
    scene.upstream.play(*flood.steps)

    async def ask() -> None:
        body = ANTHROPIC.request(stream=False)
        answer = await scene.call(body, path=ANTHROPIC.path, key=OTHER_KEY)
        assert answer.status == 200, answer
        assert json.loads(answer.body)["type"] == "message"

    control = await alone(ask)
    large = asyncio.gather(*(scene.call(body) for body in flood.bodies))
    waits = await beside(large, ask)
    answers = await large

    assert {answer.status for answer in answers} == {flood.status}
    assert median(waits) < bound_seconds(control, BOUND_SECONDS), (control, waits)
    await scene.pod.settled(60.0)
