"""E12: whatever breaks in the processor, the app is answered, and nothing stays held."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.faulty_processor import (
    REQUEST_PLACES,
    RESPONSE_PLACES,
    SINKS,
    STUCK_EVENT,
    STUCK_SECONDS,
    Breaks,
)
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, HASTY_ENVOY, KEY, until
from tests.scripted_upstream import event_stream
from tokenweir.core.holding import HOLD_MS
from tokenweir.driver.handoff import CLAIM_SECONDS
from tokenweir.ledger.sweeper import INTERVAL_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# Envoy's own patience is 2 s; more is what a busy machine takes. Who is not given up
# is answered when what is stuck moves again.
ANSWERED_SECONDS = STUCK_SECONDS
SECONDS_TO_RELEASE = CLAIM_SECONDS + 5.0
SECONDS_TO_REAP = HOLD_MS / 1_000 + 2 * INTERVAL_SECONDS + 10.0
# Of the prompt, the key, and the provider's credential: never in a log.
SECRETS = ("Tell me a story", KEY, CREDENTIAL, "weir.")
WAITING = ("request.session", "request.driver", "count_prompt", "ledger.reserve")
BOTH: tuple[Api, ...] = (OPENAI, ANTHROPIC)
QUOTAS = [
    {"tokens_per_minute": 1, "capacity": 1_000_000_000},
    {"concurrency": 1_000},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(breaks: Breaks) -> AsyncIterator[Scene]:
    """Give the module a pod whose processor can be broken."""
    options: dict[str, Any] = {"program": "tests.cases.faulty_processor"}
    options["envoy_settings"] = HASTY_ENVOY
    async with Scene.open(quotas=QUOTAS, options=options) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene, breaks: Breaks) -> AsyncIterator[Scene]:
    """Give a test the pod, whole and with an empty ledger; afterwards it must work."""
    await opened.clear()
    yield opened
    breaks("")
    await opened.clear()
    opened.upstream.play(*event_stream(story(OPENAI)))
    answer = await opened.call(OPENAI.request())

    assert answer.status == 200
    await opened.ledger_shows(CHARGED)
    for told in (
        opened.pod.processors[0].log.read_text(),
        opened.pod.envoy.output(),
        opened.pod.envoy.log(),
    ):
        assert not [secret for secret in SECRETS if secret in told]


async def asked(scene: Scene, api: Api, *, stream: bool = True) -> Answer:
    """Return the answer to the usual request; the provider's is a story."""
    scene.upstream.play(*event_stream(story(api)))
    body = api.request(stream=stream)
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(body, path=api.path))
        return await app.answer()


def expect_own_fault(answer: Answer, api: Api) -> None:
    """Demand that *answer* says that it is we who failed, and in time."""
    assert answer.seconds < ANSWERED_SECONDS
    if answer.status == 500:
        expect(answer, api, 500, "internal_fault")
    else:
        expect(answer, api, 503, "governor_unavailable")


async def nothing_was_taken(scene: Scene) -> None:
    """Demand that nothing is held, charged, or known to the provider."""
    await scene.pod.settled(SECONDS_TO_RELEASE)
    assert not await scene.pod.ledger.records()
    assert not scene.upstream.requests


@both_apis
@pytest.mark.parametrize("place", REQUEST_PLACES)
async def test_e12_a_request_meets_a_fault(
    scene: Scene, breaks: Breaks, api: Api, place: str
) -> None:
    """
    Wherever the processor breaks before it has answered, the app is told at once, in
    its API's shape; nothing is sent, held or charged.

    envoyproxy/ai-gateway#840: the error was logged, and the client waited.
    """
    faults = scene.pod.processors[0].count("fault")
    breaks(f"raise {place}")

    answer = await asked(scene, api)

    if place.startswith("parse.") and api.name not in place:
        assert answer.status == 200
        return
    expect_own_fault(answer, api)
    await nothing_was_taken(scene)
    await until(lambda: scene.pod.processors[0].count("fault") > faults)


@both_apis
@pytest.mark.parametrize("how", ["hang", "cancel"])
@pytest.mark.parametrize("place", WAITING)
async def test_e12_a_request_waits_in_vain(
    scene: Scene, breaks: Breaks, api: Api, place: str, how: str
) -> None:
    """
    What hangs, or is cancelled under the request's feet, is given up in time.

    envoyproxy/ai-gateway#840
    """
    breaks(f"{how} {place}")

    answer = await asked(scene, api)

    expect_own_fault(answer, api)
    breaks("")
    await nothing_was_taken(scene)


async def test_e12_the_processor_is_stuck(scene: Scene, breaks: Breaks) -> None:
    """
    While nothing in the processor moves, apps are told so, and what it did for them
    when it came back is undone.

    envoyproxy/ai-gateway#840
    """
    processor = scene.pod.processors[0]
    stopped = processor.count(STUCK_EVENT)
    breaks("block identify")
    stuck = asyncio.create_task(asked(scene, OPENAI))
    await until(lambda: processor.count(STUCK_EVENT) > stopped)
    breaks("")

    answers = await asyncio.gather(stuck, *(asked(scene, api) for api in BOTH))

    for answer, api in zip(answers, (BOTH[0], *BOTH), strict=True):
        expect_own_fault(answer, api)
    await asyncio.sleep(STUCK_SECONDS)
    await nothing_was_taken(scene)


async def test_e12_a_response_meets_a_fault(scene: Scene, breaks: Breaks) -> None:
    """
    Wherever the processor breaks while an answer flows, the app gets all of it, at
    once, and nothing stays held.

    envoyproxy/ai-gateway#840
    """
    for place, api, stream in itertools.product(
        [*RESPONSE_PLACES, *SINKS], BOTH, (True, False)
    ):
        breaks(f"raise {place}")
        answer = await asked(scene, api, stream=stream)

        assert answer.status == 200, place
        assert answer.body == b"".join(story(api)), place
        assert answer.seconds < ANSWERED_SECONDS, place
        await asyncio.sleep(0.05)  # the end of its stream comes after the answer
    breaks("")

    await scene.pod.settled(SECONDS_TO_REAP)
    records = await scene.pod.ledger.records()
    holds = [record["hold"] for record in records]
    assert len(holds) == len(set(holds))
    assert all(int(record["input_tokens"]) > 0 for record in records)


async def test_e12_what_could_not_be_read_is_not_free(
    scene: Scene, breaks: Breaks
) -> None:
    """
    If reading an answer breaks, its size is charged. envoyproxy/ai-gateway#840
    """
    breaks("raise feed")
    answer = await asked(scene, OPENAI)

    assert answer.body == b"".join(story(OPENAI))
    await scene.pod.settled(SECONDS_TO_RELEASE)
    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert output > TOLD.output


def pieces(count: int) -> Sequence[bytes]:
    """Return many words of a stream."""
    return [OPENAI.delta(f"word {number} ") for number in range(count)]


@pytest.mark.parametrize("pause_seconds", [0.0, 0.001, 0.01])
async def test_e12_the_processor_freezes(scene: Scene, pause_seconds: float) -> None:
    """
    A processor that freezes in the middle of an answer holds it up for some seconds,
    and takes nothing of it along, however many pieces it had been shown by then.

    envoyproxy/ai-gateway#840
    """
    sent = pieces(1_000 if pause_seconds < 0.01 else 100)
    pid = scene.pod.processors[0].process.pid
    scene.upstream.play(*event_stream(sent, pause_seconds))
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        await app.head()
        got = await app.chunk()
        os.kill(pid, signal.SIGSTOP)
        try:
            got += await app.rest()
        finally:
            os.kill(pid, signal.SIGCONT)

    assert got == b"".join(sent)
    await scene.pod.settled(SECONDS_TO_REAP)
    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert output > 0
