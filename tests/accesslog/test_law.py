"""
The law of paths: whoever reads an answer, the same is settled.

For every body that the tests have or that was recorded, whole and cut after each of its
pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.accesslog.settled import in_line, native, observed
from tests.envoyconf.told_bodies import Body, recorded, scripted
from tests.envoyconf.watched import Watch
from tests.recorded import NEEDS_RECORDINGS

WATCH = Watch()
# Of longer streams, some of the places are tried.
MAX_CUTS = 12
# A stream whose pieces are not those of its sender comes in pieces of so many bytes.
PIECE_BYTES = 400


def pieces_of(body: Body) -> Sequence[bytes]:
    """Return *body* as it comes."""
    if len(body.pieces) > 1:
        return body.pieces
    data = body.data
    return [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]


async def check(body: Body) -> None:
    """Compare what is settled of *body*, whole and cut."""
    pieces = pieces_of(body)
    whole = await in_line(body, pieces)
    assert await observed(body, pieces) == whole
    assert await native(WATCH, body, pieces) == whole
    step = max(1, len(pieces) // MAX_CUTS)
    for cut_after in range(1, len(pieces), step):
        cut = await in_line(body, pieces, cut_after)
        assert await observed(body, pieces, cut_after) == cut
        told = await native(WATCH, body, pieces, cut_after)
        # How much of the text is counted is measured: see bench/cut_streams.py.
        assert told.settlement == cut.settlement, cut_after


@pytest.mark.parametrize("body", scripted(), ids=lambda body: body.name)
async def test_scripted_bodies(body: Body) -> None:
    """What the tests have providers say."""
    await check(body)


@NEEDS_RECORDINGS
@pytest.mark.parametrize("body", recorded(), ids=lambda body: body.name)
async def test_recorded_bodies(body: Body) -> None:
    """What providers have said."""
    await check(body)
