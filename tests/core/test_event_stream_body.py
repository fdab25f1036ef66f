"""A binary event stream is read as it comes; whatever is wrong costs little."""

from __future__ import annotations

import base64
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import event, exception, frame, header
from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.dialects.bedrock import Bedrock
from tokenweir.core.dialects.bedrock_invoke import BedrockInvoke
from tokenweir.core.event_stream_body import EventStreamBody
from tokenweir.core.usage import TokenUsage

USAGE = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}
SETTLED = TokenUsage(input_tokens=11, output_tokens=7)
START = event("messageStart", {"role": "assistant"})
STOP = event("messageStop", {"stopReason": "end_turn"})
END = event("metadata", {"usage": USAGE})


def delta(text: str) -> bytes:
    """Return the event that carries *text*."""
    return event("contentBlockDelta", {"delta": {"text": text}})


STREAM = START + delta("Once") + delta(" upon") + STOP + END


def chunk(data: object) -> bytes:
    """Return a frame as InvokeModel sends it."""
    held = base64.b64encode(json.dumps(data).encode()).decode()
    return event("chunk", {"bytes": held})


def read(*pieces: bytes, max_frames: int = 1_000) -> ResponseFacts:
    """Return the facts of a body that comes in *pieces*."""
    facts = ResponseFacts()
    body = EventStreamBody(Bedrock(), facts, max_frames=max_frames)
    for piece in pieces:
        for _ in body.feed(piece):
            pass
    body.end()
    return facts


WHOLE = read(STREAM)


def test_whole() -> None:
    """Events are read by their names."""
    assert WHOLE.texts == ["Once", " upon"]
    assert (WHOLE.usage, WHOLE.usage_final, WHOLE.ended) == (SETTLED, True, True)
    assert not WHOLE.unreadable


@pytest.mark.parametrize("place", range(1, len(STREAM)))
def test_every_cut(place: int) -> None:
    """However the body is cut, the facts are the same."""
    assert read(STREAM[:place], STREAM[place:]) == WHOLE


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_any_cuts(places: set[int]) -> None:
    """The same for any set of cuts."""
    edges = [0, *sorted(places), len(STREAM)]

    assert read(*(STREAM[start:end] for start, end in pairwise(edges))) == WHOLE


@given(st.integers(0, len(STREAM)))
def test_a_stream_that_breaks_off(place: int) -> None:
    """What broke off is what its whole frames say, and no error of ours."""
    facts = read(STREAM[:place])

    assert facts.texts == WHOLE.texts[: len(facts.texts)]
    assert not facts.unreadable
    assert facts.usage_final is (place == len(STREAM))


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        (Bedrock(), event("words", {"text": "hello"})),
        (BedrockInvoke(), event("words", {"text": "hello"})),
        (BedrockInvoke(), chunk({"outputText": "hello", "index": 0})),
        (BedrockInvoke(), chunk({"generation": "hello", "stop_reason": None})),
        (BedrockInvoke(), chunk("hello")),
    ],
)
def test_events_of_another_kind(dialect: Dialect, stream: bytes) -> None:
    """A stream of which nothing is understood is no empty answer."""
    facts = ResponseFacts()
    body = EventStreamBody(dialect, facts)
    for _ in body.feed(stream * 50):
        pass
    body.end()

    assert facts.unreadable
    assert (facts.usage, facts.text_bytes) == (None, 0)


def test_events_that_say_nothing() -> None:
    """What begins and ends, cut off before any text, is understood."""
    begun = event("contentBlockStart", {"start": {}, "contentBlockIndex": 0})
    facts = read(START + begun + event("contentBlockStop", {"contentBlockIndex": 0}))

    assert not facts.unreadable


# === errors =====================================================================


def test_exceptions() -> None:
    """A stream that fails says so in a frame; its prose is not kept."""
    facts = read(START + delta("Once") + exception("throttlingException", {"a": "b"}))

    assert (facts.error, facts.texts) == ("throttlingException", ["Once"])
    assert not facts.ended


def test_unmodeled_errors() -> None:
    """So do errors that no event describes."""
    headers = header(":message-type", "error") + header(":error-code", "Internal")

    assert read(START + frame(headers)).error == "Internal"
    assert read(START + frame(header(":message-type", "error"))).error == "error"


def test_events_without_a_name() -> None:
    """An event that has no name says nothing."""
    facts = read(frame(b"", b"{}"))

    assert (facts.texts, facts.error, facts.unreadable) == ([], None, False)


# === what is wrong ==============================================================


def test_a_frame_that_is_dropped() -> None:
    """One wrong frame costs that frame, and what it said may be missing."""
    wrong = bytearray(delta("Twice"))
    wrong[-1] ^= 1
    facts = read(START + delta("Once") + bytes(wrong) + STOP + END)

    assert facts.texts == ["Once"]
    assert (facts.usage, facts.usage_final, facts.unreadable) == (SETTLED, True, True)


@pytest.mark.parametrize("size", [1, 16, 10_000])
def test_a_length_that_lies(size: int) -> None:
    """Behind a length that lies only the end is read, where the usage is."""
    body = START + delta("Once") + b"\xff" * 12 + delta("more") + STOP + END
    facts = read(*(body[at : at + size] for at in range(0, len(body), size)))

    assert facts.texts == ["Once", "more"]
    assert (facts.usage, facts.usage_final, facts.unreadable) == (SETTLED, True, True)


def test_nothing_behind_a_length_that_lies() -> None:
    """If nothing comes behind it, what passed before is what is known."""
    facts = read(START + delta("Once") + b"\xff" * 12)

    assert (facts.texts, facts.usage, facts.unreadable) == (["Once"], None, True)


def test_noise_behind_a_length_that_lies() -> None:
    """What can't be read is taken for as much text as came before."""
    facts = read(delta("Once") * 10 + b"\xff" * 12, b"x" * 2_000)

    assert facts.text_bytes > 40
    assert (facts.usage, facts.unreadable) == (None, True)


def test_a_stream_that_is_too_long() -> None:
    """Of a stream that is too long the end is read, and in between it is guessed."""
    facts = read(*[delta("word")] * 400, STOP + END, max_frames=100)

    assert len(facts.texts) < 400
    assert 1_200 < facts.text_bytes < 2_000
    assert (facts.usage, facts.usage_final, facts.ended) == (SETTLED, True, True)
    assert not facts.unreadable


def test_a_long_stream_that_breaks_off() -> None:
    """If such a stream has no report, it could not be read whole."""
    facts = read(*[delta("word")] * 400, max_frames=100)

    assert (facts.usage_final, facts.unreadable) == (False, True)


def test_bytes_are_work_too() -> None:
    """Few frames with much in them are too long as well."""
    facts = read(*[delta("x" * 60_000)] * 10, STOP + END, max_frames=300)

    assert facts.text_bytes == pytest.approx(600_000, rel=0.25)
    assert facts.usage_final


def test_steps() -> None:
    """A piece is read in steps, each of a bounded amount of work."""
    facts = ResponseFacts()
    body = EventStreamBody(Bedrock(), facts)
    piece = delta("word") * 200

    assert sum(1 for _ in body.feed(piece)) == len(piece) // 4_096
    assert len(facts.texts) == 200
