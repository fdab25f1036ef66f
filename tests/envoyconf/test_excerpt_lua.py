"""
lua/excerpt.lua, under the LuaJIT that Envoy has: whatever is read of a body can be read
of what is written down of it, however it comes, and the app gets every byte.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.envoyconf.told_bodies import Body, recorded, scripted
from tests.envoyconf.watched import NATIVE, Watch
from tests.recorded import NEEDS_RECORDINGS
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.excerpt import Excerpt, read_excerpt

WATCH = Watch()
# A body of at most so many bytes is cut at each of them, and comes byte by byte.
SHORT = 700
WAYS = 12


def cuts(pieces: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield ways in which a body comes that was sent in *pieces*."""
    body, chance = b"".join(pieces), random.Random(7)
    yield list(pieces)
    yield [body]
    if len(body) <= SHORT:
        yield [body[at : at + 1] for at in range(len(body))]
        for at in range(1, len(body)):
            yield [body[:at], body[at:]]
        return
    for _ in range(WAYS):
        count = min(len(body) - 1, chance.choice((1, 3, 20, 200)))
        places = sorted(chance.sample(range(1, len(body)), count))
        edges = [0, *places, len(body)]
        yield [body[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def told(facts: ResponseFacts) -> ResponseFacts:
    """Return *facts* without what only the text itself tells."""
    return replace(facts, texts=[], text_bytes=0, deltas=0, hidden=False, strange=False)


def excerpt_of(body: Body, pieces: Sequence[bytes]) -> Excerpt:
    """Return what is written down of *body*; all of it must have passed."""
    watched = WATCH.reply(pieces, told=NATIVE, content_type=body.content_type)

    assert watched.errors == []
    assert watched.body == body.data
    excerpt = read_excerpt(watched.notes)
    assert not excerpt.fault
    assert excerpt.whole
    assert excerpt.seen_bytes == len(body.data)
    return excerpt


def check(body: Body) -> None:
    """Compare what is known of *body* with what is known by its excerpts."""
    expected = body.facts([body.data])
    for pieces in cuts(body.pieces):
        excerpt = excerpt_of(body, pieces)

        assert excerpt.gap_at is None
        assert body.facts_in(excerpt) == expected
        decisive = body.facts(unit.data for unit in excerpt.decisive())
        assert told(decisive) == told(expected)


@pytest.mark.parametrize("body", scripted(), ids=lambda body: body.name)
def test_scripted_bodies(body: Body) -> None:
    """What the tests have providers say is written down, all of it."""
    check(body)


@NEEDS_RECORDINGS
@pytest.mark.parametrize("body", recorded(), ids=lambda body: body.name)
def test_recorded_bodies(body: Body) -> None:
    """What providers have said is written down, all of it."""
    check(body)
