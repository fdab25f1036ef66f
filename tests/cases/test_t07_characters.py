"""T07: a character may be cut, and text may hold what some take for a line end."""

from __future__ import annotations

import hashlib

import pytest

from tests.cases.apis import TOLD, Api, both_apis, story
from tests.cases.stage import Stage
from tests.scripted_upstream import cut

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

APART_SECONDS = 0.004
# With the line ends of Unicode (U+2028, U+2029, U+0085) and of ASCII's past (VT, FF).
TEXT = "你好 ✅ é \u2028\u2029\u0085 👩\u200d👩\u200d👧 \u000b\u000c"
WORDS = ("Once ", TEXT, " upon")


def raw(api: Api) -> list[bytes]:
    """Return the story with VT and FF as they are, which JSON would escape."""
    escaped = {b"\\u000b": b"\x0b", b"\\f": b"\x0c"}
    events = story(api, WORDS)
    for written, byte in escaped.items():
        events = [event.replace(written, byte) for event in events]
    return events


def inside_characters(body: bytes) -> list[int]:
    """Return every position in the middle of a character."""
    return [at for at, byte in enumerate(body) if byte & 0xC0 == 0x80]


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t07_cut_inside_every_character(
    stage: Stage, api: Api, asked: bool
) -> None:
    """
    Bytes go on as they came, and the figures don't depend on the cut.

    api7/aisix#111, open-metadata/OpenMetadata#29531, jawah/urllib3.future#349
    """
    sent = b"".join(raw(api))
    pieces = cut(sent, *inside_characters(sent))

    if asked:
        reply, settled = await stage.stream(api, pieces, APART_SECONDS)
        got, told = hashlib.sha256(reply.body), hashlib.sha256(sent)
        assert got.hexdigest() == told.hexdigest()
    else:
        settled = await stage.stream_unasked(api, pieces, api.report(), APART_SECONDS)

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
async def test_t07_each_cut_alone(stage: Stage, api: Api) -> None:
    """
    The figures are the same for each single cut. api7/aisix#111
    """
    sent = b"".join(raw(api))
    for at in inside_characters(sent)[::3]:
        _, settled = await stage.stream(api, cut(sent, at), APART_SECONDS)

        assert settled.usage == TOLD.usage, at


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t07_broken_characters(stage: Stage, api: Api, asked: bool) -> None:
    """
    Bytes that are no UTF-8 pass as they are, and the usage after them still counts.

    api7/aisix#111
    """
    broken = api.delta("X").replace(b"X", b"\xff\xfe \xe4\xbd \xed\xa0\x80 \xc0\xaf")
    events = story(api)
    pieces = [*events[:4], broken, b"data: \xff\n\n", *events[4:]]

    if asked:
        _, settled = await stage.stream(api, pieces)
    else:
        settled = await stage.stream_unasked(api, pieces, api.report())

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
async def test_t07_no_report_after_cut_characters(stage: Stage, api: Api) -> None:
    """
    What is counted is the text itself: cut characters count once.

    api7/aisix#111
    """
    events = [*api.opening()[1:], *map(api.delta, WORDS)]
    sent = b"".join(events)
    pieces = cut(sent, *inside_characters(sent))

    _, settled = await stage.stream(api, pieces, APART_SECONDS)

    assert settled.sides == await stage.owed(api, WORDS)


@both_apis
async def test_t07_half_surrogates(stage: Stage, api: Api) -> None:
    """
    Half of an escaped surrogate pair, as a cut emoji leaves it, breaks nothing.

    api7/aisix#111
    """
    halves = [
        api.delta("X").replace(b"X", rb"\ud83d"),
        api.delta("X").replace(b"X", rb"\ude00"),
    ]
    events = [*api.opening()[1:], *halves, api.delta("weir")]

    _, settled = await stage.stream(api, events)

    assert settled.usage.total_output_tokens > 0
    assert settled.source in ("counted", "estimated")
