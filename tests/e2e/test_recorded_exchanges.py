"""
What others have recorded, played to apps through a real Envoy, whole and in pieces.

What a provider reported is settled, and the app gets every byte. That holds at every
cut: see tests/core/test_recorded_exchanges.py; here are some of them.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC as MESSAGES
from tests.cases.apis import OPENAI as CHAT
from tests.cases.apis import Api
from tests.cases.app import Reply
from tests.cases.openai_apis import EMBEDDINGS, RESPONSES
from tests.every_dialect.bedrock_rows import ASKED as BEDROCK_ASKED
from tests.every_dialect.media_rows import HEAR
from tests.every_dialect.row import JSON, Row
from tests.every_dialect.speaker import ANTHROPIC, AZURE, BEDROCK, OPENAI
from tests.every_dialect.theatre import Act, Theatre
from tests.forms import CONTENT_TYPE
from tests.recorded import NEEDS_RECORDINGS, Recording, framed, recordings
from tests.scripted_upstream import reply

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    NEEDS_RECORDINGS,
]

# What the recorded requests ask for.
MODELS = {
    "openai": (
        *("gpt-5-nano", "gpt-4o-mini-search-preview", "gpt-4o-mini-audio-preview"),
        *("babbage-002", "text-embedding-3-small", "text-embedding-4-ultra"),
        "gpt-4o-transcribe",
    ),
    "azure": ("prod",),
    "bedrock": ("m",),
}
APIS: dict[str, Api] = {
    CHAT.path: CHAT,
    MESSAGES.path: MESSAGES,
    EMBEDDINGS.path: EMBEDDINGS,
    RESPONSES.path: RESPONSES,
}
SPEAKERS = {"/openai/": AZURE, "/v1/messages": ANTHROPIC, "/model/": BEDROCK}
CUTS = 9
NOT_NOW = ("x-should-retry", "false")


def row_of(recording: Recording) -> Row:
    """Return the row of a recording: asked as it was, where that was recorded."""
    body, sent = recording.request, JSON
    if recording.path.startswith("/model/"):
        body = BEDROCK_ASKED
    elif not body or recording.status >= 400:  # what is no request goes nowhere
        body = APIS[recording.path].request(stream=recording.is_stream)
    elif not body.startswith(b"{"):  # a form, which was left out
        body, sent = HEAR, CONTENT_TYPE
    speaker = next(
        (each for start, each in SPEAKERS.items() if recording.path.startswith(start)),
        OPENAI,
    )
    return Row(
        recording.name,
        speaker,
        # The name of a deployment; that of the model is in the body.
        recording.path.replace("gpt-5-nano", "prod"),
        body,
        tuple(pieces_of(recording)),
        recording.reported,
        streamed=True,
        sent=sent,
        answered=("content-type", recording.content_type),
    )


def pieces_of(recording: Recording) -> list[bytes]:
    """Return the answer in pieces, cut anywhere, but always in the same places."""
    body, chance = recording.response, random.Random(recording.name)
    edges = sorted({0, *chance.choices(range(1, len(body)), k=CUTS), len(body)})
    return [body[a:b] for a, b in pairwise(edges)]


RECORDED = {recording.name: recording for recording in (*recordings(), *framed())}
ROWS = [row_of(recording) for recording in RECORDED.values()]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theatre() -> AsyncIterator[Theatre]:
    """Give the module a pod that knows the recorded models."""
    async with Theatre.open(MODELS) as opened:
        yield opened


async def whole(theatre: Theatre, row: Row) -> Reply:
    """The answer comes in one piece, and says its length."""
    recording = RECORDED[row.name]
    status = f"{recording.status} So"
    step = reply(recording.response, status, [row.answered, NOT_NOW])
    call = await theatre.begin(row, [step])
    return await call.reply()


async def in_pieces(theatre: Theatre, row: Row) -> Reply:
    """The answer comes in pieces; one that is refused comes whole."""
    if RECORDED[row.name].status != 200:
        return await whole(theatre, row)
    call = await theatre.begin(row, row.steps())
    return await call.reply()


@pytest.mark.parametrize("act", [whole, in_pieces], ids=lambda act: act.__name__)
@every_row
async def test_a_recorded_exchange(theatre: Theatre, row: Row, act: Act) -> None:
    """What the provider reported is settled, and the app gets what it sent."""
    played = await theatre.played(act, row, ROWS)

    recording = RECORDED[row.name]
    assert (played.answer.status, played.answer.whole) == (recording.status, True)
    assert played.answer.body == recording.response
    assert played.record is not None
    if recording.status >= 400:
        assert played.sides == (0, 0)
    elif recording.reported is None:
        assert played.record["source"] == "counted"
        assert played.sides[0] > 0
    else:
        assert played.record["source"] == "reported"
        assert played.sides == recording.reported
