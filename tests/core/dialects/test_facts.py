"""What is written down about a response is bounded and safe to show."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import (
    MAX_RETAINED_BYTES,
    add_texts,
    figure,
    is_absurd,
    name_error,
    name_model,
    name_tier,
    note_strange,
    note_strange_data,
)
from tokenweir.core.dialects.fields import MAX_TOKENS


def test_texts() -> None:
    """Strings with something in them are text; an event counts once."""
    facts = ResponseFacts()
    add_texts(facts, ["a", "", None, 5, ["x"], {"y": 1}, "é✅"])
    add_texts(facts, ["b"])

    assert facts.texts == ["a", "é✅", "b"]
    assert facts.text_bytes == 1 + 5 + 1
    assert facts.deltas == 2


@pytest.mark.parametrize(
    ("members", "strange"),
    [
        ({"words": "hello"}, True),
        ({"known": "hello", "words": ["hello"]}, True),
        ({"words": {"is": "hello"}}, True),
        ({"known": "hello", "words": "", "more": [], "number": 5, "flag": True}, False),
        ({"type": "ping", "words": "hello"}, False),
        ({"type": ["ping"], "known": None}, True),
        ({}, False),
    ],
)
def test_what_may_be_text(members: dict[str, Any], *, strange: bool) -> None:
    """Whatever is neither known nor empty may be text; once seen it stays."""
    facts = ResponseFacts()
    note_strange(facts, members, {"known"})
    note_strange(facts, {}, set())

    assert facts.strange is strange


@pytest.mark.parametrize(
    ("data", "strange"),
    [
        (b"hello", True),
        (b'"hello"', True),
        (b"[1]", True),
        (b"[DONE] hello", True),
        (b"[DONE]\n", False),
        (b"[DO", False),
        (b" PING ", False),
        (b": hello", False),
        (b"", False),
        (b"null", False),
    ],
)
def test_data_that_may_be_text(data: bytes, *, strange: bool) -> None:
    """What is no object is text, but for the words that keep a connection alive."""
    facts = ResponseFacts()
    note_strange_data(facts, data)

    assert facts.strange is strange


def test_text_after_a_report() -> None:
    """No report covers what comes after it, and the answer goes on."""
    facts = ResponseFacts(usage_final=True, finished=True, ended=True)
    add_texts(facts, ["", None])
    unchanged = (facts.usage_final, facts.finished, facts.ended, facts.deltas)
    add_texts(facts, ["x"])

    assert unchanged == (True, True, True, 0)
    assert (facts.usage_final, facts.finished, facts.ended) == (False, False, False)
    assert facts.deltas == 1


@given(
    st.lists(st.integers(1, 100_000), min_size=1, max_size=8), st.sampled_from("aé✅")
)
def test_retained_text_is_bounded(sizes: list[int], letter: str) -> None:
    """What is kept is the beginning, up to the limit; all of it is measured."""
    facts = ResponseFacts()
    for size in sizes:
        add_texts(facts, [letter * size])
    whole = letter * sum(sizes)
    kept = "".join(facts.texts)

    assert facts.text_bytes == len(whole.encode())
    assert whole.startswith(kept)
    assert len(kept.encode()) <= MAX_RETAINED_BYTES
    assert len(kept.encode()) >= min(facts.text_bytes, MAX_RETAINED_BYTES - 3)


def test_half_surrogate_pairs() -> None:
    """What no encoding holds is replaced, so that it can be counted."""
    facts = ResponseFacts()
    add_texts(facts, ["a\ud83d", "b"])

    assert facts.texts == ["a?", "b"]
    assert facts.text_bytes == 3


@pytest.mark.parametrize("value", [0, 1, 12, 10**9])
def test_figures(value: int) -> None:
    """Integers from zero are figures."""
    assert figure(value) == value


@pytest.mark.parametrize(
    "value",
    [None, True, False, -1, -3, 1.5, 12.0, math.nan, math.inf, 1e400, 10**9 + 1, 10**30, "12", [], {}],
)  # fmt: skip
def test_no_figures(value: object) -> None:
    """What is no number of tokens is unknown."""
    assert figure(value) is None


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06", "x" * 256])
def test_model(name: str) -> None:
    """The model is what the provider calls it."""
    facts = ResponseFacts(model="before")
    name_model(facts, name)

    assert facts.model == name


@pytest.mark.parametrize("name", [None, "", 5, ["x"], "x" * 257, "a\nb", "a\0"])
def test_no_model(name: object) -> None:
    """What can't be a label is not taken."""
    facts = ResponseFacts(model="before")
    name_model(facts, name)

    assert facts.model == "before"


@pytest.mark.parametrize(
    ("names", "tier"),
    [
        (("flex",), "flex"),
        ((None,), None),
        (("default", None), "default"),
        (("auto", "priority"), "priority"),
        (("",), "other"),
        ((5,), "other"),
        (("flex\n",), "other"),
        (("x" * 65,), "other"),
    ],
)
def test_tiers(names: tuple[object, ...], tier: str | None) -> None:
    """The last one counts; what is no label is a tier all the same (B09)."""
    facts = ResponseFacts()
    for name in names:
        name_tier(facts, name)

    assert facts.service_tier == tier


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("rate_limit_exceeded", "tokens"), "rate_limit_exceeded"),
        ((None, "server_error"), "server_error"),
        ((400, "BadRequestError"), "BadRequestError"),
        (("No, sk-CANARY is wrong", "overloaded_error"), "overloaded_error"),
        (("x" * 65,), "error"),
        (("",), "error"),
        ((), "error"),
    ],
)
def test_error(names: tuple[object, ...], error: str) -> None:
    """An error is a short word; prose, which may quote anything, is not kept."""
    facts = ResponseFacts()
    name_error(facts, *names)

    assert facts.error == error


@pytest.mark.parametrize(
    ("report", "absurd"),
    [
        ({}, False),
        ({"input_tokens": MAX_TOKENS}, False),
        ({"input_tokens": MAX_TOKENS + 1}, True),
        ({"details": {"cached_tokens": MAX_TOKENS + 1}}, True),
        ({"details": {"cached_tokens": MAX_TOKENS}}, False),
        ({"cost_in_ticks": MAX_TOKENS + 1, "details": {"total_ns": 10**18}}, False),
        ({"input_tokens": -(10**18), "output_tokens": 1e300}, False),
        ({"input_tokens": str(10**18)}, False),
    ],
)
def test_absurd(report: dict[str, Any], absurd: bool) -> None:
    """Absurd is a whole number of tokens, in a report or its details, that none is."""
    assert is_absurd(report) is absurd
