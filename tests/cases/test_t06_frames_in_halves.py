"""T06: events that come in halves are events."""

from __future__ import annotations

import pytest

from tests.cases.apis import TOLD, WORDS, Api, both_apis, story
from tests.cases.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PAUSE_SECONDS = 0.15


def halves(event: bytes) -> tuple[bytes, bytes]:
    """Return *event*, cut in the middle of its JSON."""
    middle = (event.index(b"data:") + len(event)) // 2
    return event[:middle], event[middle:]


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t06_every_event_in_two_halves(
    stage: Stage, api: Api, asked: bool
) -> None:
    """
    Each event may be flushed as two halves, 150 ms apart.

    Noveum/ai-gateway#30, spiceai/spiceai#12588
    """
    pieces = [half for event in story(api, WORDS[:2]) for half in halves(event)]

    if asked:
        _, settled = await stage.stream(api, pieces, PAUSE_SECONDS)
    else:
        settled = await stage.stream_unasked(api, pieces, api.report(), PAUSE_SECONDS)

    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t06_half_whole_half(stage: Stage, api: Api, asked: bool) -> None:
    """
    A piece may hold the end of one event, a whole one and the beginning of the next.

    Noveum/ai-gateway#30
    """
    events = story(api)
    pieces, rest = [], b""
    for first, second, third in zip(*[iter(events)] * 3, strict=False):
        begin, end = halves(third)
        pieces.append(rest + first + second + begin)
        rest = end
    pieces.append(rest + b"".join(events[len(events) // 3 * 3 :]))

    if asked:
        _, settled = await stage.stream(api, pieces, 0.02)
    else:
        settled = await stage.stream_unasked(api, pieces, api.report(), 0.02)

    assert settled.usage == TOLD.usage


@both_apis
async def test_t06_two_events_in_one_piece(stage: Stage, api: Api) -> None:
    """
    The report may share its piece with the last text and the end.

    Noveum/ai-gateway#30
    """
    events = story(api)
    pieces = [b"".join(events[:3]), b"".join(events[3:])]

    _, settled = await stage.stream(api, pieces, 0.02)
    unasked = await stage.stream_unasked(api, pieces, api.report(), 0.02)

    assert settled.usage == unasked.usage == TOLD.usage
