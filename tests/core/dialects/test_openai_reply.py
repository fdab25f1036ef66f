"""An OpenAI reply is understood in whatever shape it comes."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.openai_reply import read_reply
from tokenweir.core.usage import TokenUsage

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
KNOWN = TokenUsage(input_tokens=11, output_tokens=7)


def facts_of(*replies: dict[str, Any]) -> ResponseFacts:
    """Return what is known after *replies*."""
    facts = ResponseFacts()
    for reply in replies:
        read_reply(reply, facts)
    return facts


def delta(members: object, **others: Any) -> dict[str, Any]:
    """Return an event with one choice."""
    return {"choices": [{"index": 0, "delta": members, **others}]}


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "usage": USAGE},
        {"usage": USAGE},
        {"choices": None, "usage": USAGE},
        {"choices": "odd", "usage": USAGE},
        delta({"role": "assistant", "content": None}, finish_reason="stop") | {"usage": USAGE},
        delta({}, finish_reason="stop") | {"usage": USAGE},
        delta(None, finish_reason="stop") | {"usage": USAGE},
        delta({"content": "!"}) | {"usage": USAGE},
        delta({}, finish_reason="stop", usage=USAGE),
        {"choices": [], "x_groq": {"id": "x", "usage": USAGE}},
        {"choices": [{"usage": {"prompt_tokens": 1, "completion_tokens": 1}}], "usage": USAGE},
    ],
)  # fmt: skip
def test_usage_whatever_the_choices(last: dict[str, Any]) -> None:
    """Usage counts wherever it stands (T16)."""
    facts = facts_of(delta({"content": "hi"}), last)

    assert facts.usage == KNOWN
    assert facts.usage_final


def ended(index: object, prompt: int, completion: int, **others: Any) -> dict[str, Any]:
    """Return the last event of a choice, with a report of its own."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion} | others
    return delta({}, index=index, finish_reason="stop", usage=usage)


def test_reports_within_choices() -> None:
    """Each is of its choice's output; the prompt is the same one (Moonshot)."""
    both = facts_of(ended(0, 10, 100), ended(1, 10, 30))
    again = facts_of(ended(0, 10, 50), ended(1, 10, 30), ended(0, 12, 100))
    whole = {"prompt_tokens": 10, "completion_tokens": 120}
    told = facts_of(ended(0, 10, 100), ended(1, 10, 30), {"usage": whole})

    assert both.usage == TokenUsage(input_tokens=10, output_tokens=130)
    assert both.usage_final
    assert again.usage == TokenUsage(input_tokens=12, output_tokens=130)
    assert told.usage == TokenUsage(input_tokens=10, output_tokens=120)


def test_reports_within_choices_of_a_whole_reply() -> None:
    """There they have no index sometimes, and stand one behind the other."""
    first, second = (ended(None, 10, tokens) for tokens in (100, 30))
    facts = facts_of({"choices": [*first["choices"], *second["choices"]]})

    assert facts.usage == TokenUsage(input_tokens=10, output_tokens=130)


def test_odd_reports_within_choices() -> None:
    """Those that say nothing add nothing, and those beyond belief are told."""
    nothing = facts_of(ended(0, 0, 0, prompt_tokens=None, completion_tokens=None))
    none = facts_of(*(delta({}, index=n, usage={}) for n in range(2)))
    absurd = facts_of(ended(0, 10, 5), ended(1, 10, 10**12))
    far = facts_of(ended(10**9, 10, 5), ended(-1, 10, 5))

    assert nothing.usage is none.usage is far.usage is None
    assert absurd.usage == TokenUsage(input_tokens=10, output_tokens=5)
    assert absurd.absurd
    assert not absurd.usage_final


@pytest.mark.parametrize(
    ("audio", "hidden"),
    [(None, False), ({}, False), ({"data": ""}, False), ({"data": "UklG"}, True)],
)
def test_hidden(audio: object, hidden: bool) -> None:
    """Audio was generated, and is no text."""
    assert facts_of(delta({"audio": audio})).hidden is hidden
    assert facts_of(delta({"audio": audio}), delta({})).hidden is hidden


@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, True),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "x"}]}, False),
        ({"images": [{"image_url": {"url": "data:image/png;base64,AAAA"}}]}, True),
        ({"images": []}, False),
    ],
)
def test_hidden_by_gateways(message: dict[str, Any], hidden: bool) -> None:
    """Encrypted thoughts and pictures were generated, and are no text."""
    assert facts_of(delta(message)).hidden is hidden
    assert facts_of({"choices": [{"message": message}]}).hidden is hidden


def test_all_of_the_answer_beside_what_is_new() -> None:
    """A message with all that was said so far is no text beside its delta."""

    def event(new: str, so_far: str) -> dict[str, Any]:
        return delta({"content": new}, message={"content": so_far})

    facts = facts_of(event("a", "a"), event("b", "ab"), event("", "ab"))

    assert facts.texts == ["a", "b"]


def test_a_message_beside_an_empty_delta() -> None:
    """A whole reply may have a delta that is empty: its messages are the answer."""
    choices = [
        {"delta": {"content": ""}, "message": {"content": text}} for text in ("a", "b")
    ]

    assert facts_of({"choices": choices}).texts == ["a", "b"]


def test_the_same_text_under_two_names() -> None:
    """A text beside a delta that says the same counts once."""
    facts = facts_of(
        delta({"role": "assistant", "content": "a"}, text="a"),
        delta({"content": ""}, text=""),
        {"choices": [{"text": "b", "delta": None}]},
    )

    assert facts.texts == ["a", "b"]


@pytest.mark.parametrize("usage", [None, {}, [], "no"])
def test_null_is_unknown(usage: object) -> None:
    """null on every event is no usage: what passed must be counted (T12)."""
    event = delta({"role": None, "content": None}, finish_reason="") | {"usage": usage}
    facts = facts_of(event, delta({"content": "hi"}) | {"usage": usage}, event)

    assert facts.usage is None
    assert not facts.usage_final
    assert not facts.finished
    assert facts.texts == ["hi"]


def test_running_totals_cover_what_passed() -> None:
    """Totals with every event are final at every moment; a first one alone is not."""
    first = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}
    text = delta({"content": "a"})
    total = {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}

    assert facts_of(first).usage_final
    assert not facts_of(first, text).usage_final
    assert facts_of(first, text | total).usage_final
    assert not facts_of(first, text | total, text).usage_final


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ({"content": "a"}, ["a"]),
        ({"content": None, "refusal": "no"}, ["no"]),
        ({"content": "a", "reasoning_content": "b"}, ["a", "b"]),
        ({"reasoning": "b"}, ["b"]),
        ({"reasoning": "b", "reasoning_content": "b"}, ["b"]),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, ["f", "{}"]),
        ({"tool_calls": [{"function": None}, None, {"function": "f"}]}, []),
        ({"tool_calls": [{"custom": {"name": "f", "input": "x"}}]}, ["f", "x"]),
        ({"tool_calls": {"function": {"name": "f", "arguments": "{"}}}, ["f", "{"]),
        ({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1e999}}}]}, ["f", '{"a":Infinity}']),
        ({"tool_calls": "f"}, []),
        ({"reasoning": "b", "reasoning_details": [{"text": "b"}]}, ["b"]),
        ({"reasoning": None, "reasoning_details": [{"summary": "b"}, {"data": "x"}]}, ["b"]),
        ({"reasoning": {"text": "b"}}, []),
        ({"content": [{"type": "reasoning", "summary": [{"text": "a"}, 5]}]}, ["a"]),
        ({"function_call": {"name": "f", "arguments": "{"}}, ["f", "{"]),
        ({"audio": {"id": "x", "data": "T2dn", "transcript": "beep"}}, ["beep"]),
        ({"audio": None}, []),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "a"}]}, {"text": "b"}]},
            ["b", "a"],
        ),
        ({"content": ["a", None]}, []),
        ({"content": 5, "refusal": 5, "reasoning": 5}, []),
        (None, []),
        ("text", []),
    ],
)  # fmt: skip
def test_texts(message: object, texts: list[str]) -> None:
    """All that was generated is text, in an event as in a whole reply."""
    streamed = facts_of(delta(message))
    whole = facts_of({"choices": [{"message": message}]})

    assert sorted(streamed.texts) == sorted(whole.texts) == sorted(texts)
    assert streamed.deltas == whole.deltas == (1 if texts else 0)


def test_texts_of_all_choices() -> None:
    """All choices count; choices that are none are skipped."""
    choices = [{"delta": {"content": "a"}}, None, 5, {"delta": {"content": "b"}}]
    facts = facts_of({"choices": choices})

    assert facts.texts == ["a", "b"]
    assert facts.deltas == 1


def test_finished() -> None:
    """A reason to finish is the end, unless another choice goes on."""
    text, end = delta({"content": "a"}), delta({}, finish_reason="length")

    assert not facts_of(text).finished
    assert not facts_of(delta({}, finish_reason=None)).finished
    assert facts_of(text, end).finished
    assert not facts_of(text, end, text).finished
    assert facts_of(text, end, text, end).finished
    assert facts_of(delta({"content": "a"}, finish_reason="stop")).finished


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ({"error": {"message": "x", "type": "server_error", "code": None}}, "server_error"),
        ({"error": {"type": "tokens", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded"),
        ({"error": {"type": "BadRequestError", "code": 400}}, "BadRequestError"),
        ({"error": {}}, "error"),
        ({"error": "overloaded, try again"}, "error"),
        ({"object": "error", "message": "x", "type": "NotFoundError", "code": 404}, "NotFoundError"),
        ({"error": None}, None),
        ({"error": ""}, None),
        ({"object": "chat.completion.chunk"}, None),
    ],
)  # fmt: skip
def test_error(reply: dict[str, Any], error: str | None) -> None:
    """An error inside of a good status is an error (T27)."""
    assert facts_of(reply).error == error


def test_model() -> None:
    """The model is the one that the provider names."""
    assert (
        facts_of({"model": "gpt-4o-2024-08-06"}, {"model": None}).model
        == "gpt-4o-2024-08-06"
    )


def test_service_tier() -> None:
    """It is that of the reply; an event without one changes nothing (B09)."""
    facts = ResponseFacts()
    assert facts.service_tier is None

    read_reply({"service_tier": "flex", "choices": []}, facts)
    read_reply({"choices": []}, facts)
    assert facts.service_tier == "flex"


def test_choices_that_ended_at_their_cap() -> None:
    """Each is counted; whoever ended by itself is not."""
    both = {"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}

    assert facts_of(both).at_cap == 1
    assert facts_of(delta({}, finish_reason="length"), both).at_cap == 2
    assert facts_of(delta({"content": "hi"}), delta({}, finish_reason=7)).at_cap == 0
