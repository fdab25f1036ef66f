"""A stream that is an array is read element by element, however it is cut."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.array_body import ArrayBody
from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.usage import TokenUsage

GEMINI = by_route("generate_content")


def element(text: str, **members: Any) -> dict[str, Any]:
    """Return a piece of an answer."""
    return {"candidates": [{"content": {"parts": [{"text": text}]}}], **members}


USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 4}
LAST = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": USAGE}
HARD = '} ] " \\ [ { 你 \\" \\\\'
ARRAY = json.dumps(
    [element("Once"), element(HARD), element(" \u2028 a"), LAST],
    ensure_ascii=False,
    indent=1,
).encode()


def facts_of(pieces: Iterable[bytes], **limits: int) -> ResponseFacts:
    """Return what is known after *pieces*."""
    facts = ResponseFacts()
    body = ArrayBody(GEMINI, facts, **limits)
    for piece in pieces:
        for _ in body.feed(piece):
            pass
    body.end()
    return facts


def test_a_whole_array() -> None:
    """Each element is read as a piece of a stream is."""
    facts = facts_of([ARRAY])

    assert facts.texts == ["Once", HARD, " \u2028 a"]
    assert facts.usage == TokenUsage(input_tokens=9, output_tokens=4)
    assert facts.usage_final
    assert facts.finished
    assert not facts.unreadable


def test_every_cut() -> None:
    """However the array is cut, what is known is the same."""
    whole = facts_of([ARRAY])

    assert facts_of(ARRAY[at : at + 1] for at in range(len(ARRAY))) == whole
    for at in range(1, len(ARRAY)):
        assert facts_of([ARRAY[:at], ARRAY[at:]]) == whole


@given(st.sets(st.integers(1, len(ARRAY) - 1), max_size=20))
def test_any_cut(places: set[int]) -> None:
    """Many cuts change as little as one."""
    edges = [0, *sorted(places), len(ARRAY)]

    assert facts_of(ARRAY[a:b] for a, b in pairwise(edges)) == facts_of([ARRAY])


def test_a_stream_that_breaks_off() -> None:
    """Whatever was whole is known; half an element says nothing, nor does its end."""
    whole = facts_of([ARRAY])
    for at in range(len(ARRAY)):
        facts = facts_of([ARRAY[:at]])

        assert facts.texts == whole.texts[: len(facts.texts)]
        assert facts.unreadable is (not facts.texts)
        assert facts.usage in (None, whole.usage)
    missing = facts_of([ARRAY[:-1]])
    assert missing == whole


@pytest.mark.parametrize(
    "body", [b"[", b"[]", b"[1, true]", b'["a"]', b"[[1]]", b"[{]", b"[nonsense"]
)
def test_no_answer(body: bytes) -> None:
    """What says nothing that an answer says is unreadable, and not free."""
    assert facts_of([body]).unreadable


def test_an_error() -> None:
    """An error in an array is an error."""
    facts = facts_of([b'[{"error": {"status": "UNAVAILABLE"}}]'])

    assert facts.error == "UNAVAILABLE"
    assert not facts.unreadable


def test_an_element_that_is_too_long() -> None:
    """It is left out, which is told; what comes after it is read."""
    long = json.dumps([element("x" * 500), LAST]).encode()
    facts = facts_of(
        (long[at : at + 50] for at in range(0, len(long), 50)), max_bytes=200
    )

    assert facts.texts == []
    assert facts.unreadable
    assert facts.usage_final
    assert facts.usage == TokenUsage(input_tokens=9, output_tokens=4)


def test_more_elements_than_are_read() -> None:
    """The rest has as much text for its size; no report stands for all of it."""
    part = json.dumps(element("weir")).encode()
    pieces = [b"[" + part, *[b"," + part] * 9]
    facts = facts_of(pieces, max_elements=5)

    assert len(facts.texts) == 5
    assert facts.text_bytes == pytest.approx(40, abs=1)
    assert facts.unreadable
    assert not facts.usage_final


def test_steps() -> None:
    """A large piece is read in steps."""
    large = json.dumps([element("x" * 100)] * 1_000).encode()

    assert len(list(ArrayBody(GEMINI, ResponseFacts()).feed(large))) > 10
