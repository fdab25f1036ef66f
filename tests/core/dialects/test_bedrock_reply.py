"""What a Converse reply says: usage in disjoint classes, text, ends and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.bedrock_reply import read_reply, read_stream_event
from tokenweir.core.usage import TokenUsage

USAGE = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}
SETTLED = TokenUsage(input_tokens=11, output_tokens=7)


def reply(*blocks: dict[str, Any], **members: Any) -> ResponseFacts:
    """Return the facts of an answer with *blocks*."""
    facts = ResponseFacts()
    message = {"role": "assistant", "content": [*blocks]}
    whole = {"output": {"message": message}, "stopReason": "end_turn", "usage": USAGE}
    read_reply(whole | members, facts)
    return facts


def stream(*events: tuple[str, dict[str, Any]]) -> ResponseFacts:
    """Return the facts of a stream of *events*."""
    facts = ResponseFacts()
    for name, data in events:
        read_stream_event(name, data, facts)
    return facts


def test_an_answer() -> None:
    """An answer has its text, its end and its report."""
    facts = reply({"text": "Hello."})

    assert (facts.texts, facts.deltas, facts.finished) == (["Hello."], 1, True)
    assert (facts.usage, facts.usage_final) == (SETTLED, True)
    assert (facts.model, facts.error, facts.at_cap, facts.hidden) == (
        *(None, None, 0, False),
    )


def test_all_kinds_of_blocks() -> None:
    """Calls, thoughts and cited texts are generated; what is no text is told apart."""
    facts = reply(
        {"toolUse": {"toolUseId": "t", "name": "look", "input": {"at": 1}}},
        {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
        {"citationsContent": {"content": [{"text": "As said."}, 1]}},
    )

    assert facts.texts == ["look", '{"at":1}', "Hm.", "As said."]
    assert not facts.hidden


@pytest.mark.parametrize(
    "block",
    [
        {"image": {}},
        {"toolResult": {}},
        {"reasoningContent": {"redactedContent": "AAAA"}},
        {"reasoningContent": {"signature": "AAAA"}},
    ],
)
def test_what_is_no_text(block: dict[str, Any]) -> None:
    """What can't be counted is noticed."""
    assert reply(block).hidden


def test_a_stream() -> None:
    """A stream has its text in pieces, and reports at its end."""
    facts = stream(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"delta": {"text": "Hel"}}),
        ("contentBlockDelta", {"delta": {"text": "lo."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", {"start": {"toolUse": {"name": "look"}}}),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": '{"at"'}}}),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": ""}}}),
        ("contentBlockDelta", {"delta": {"reasoningContent": {"text": "Hm."}}}),
        ("contentBlockDelta", {"delta": {"citation": {"title": "T"}}}),
        ("messageStop", {"stopReason": "max_tokens"}),
        ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}}),
    )

    assert facts.texts == ["Hel", "lo.", "look", '{"at"', "Hm."]
    assert facts.deltas == 5
    assert (facts.finished, facts.ended, facts.at_cap) == (True, True, 1)
    assert (facts.usage, facts.usage_final) == (SETTLED, True)


def test_a_stream_is_not_over_before_it_reports() -> None:
    """The last event is the report: what stops before it has not ended."""
    facts = stream(("messageStop", {"stopReason": "end_turn"}))

    assert (facts.finished, facts.ended, facts.usage_final) == (True, False, False)
    assert not stream(("metadata", {"usage": USAGE})).ended


# === usage ======================================================================


@pytest.mark.parametrize(
    ("report", "usage"),
    [
        (
            {
                "cacheReadInputTokens": 100,
                "cacheWriteInputTokens": 30,
                "totalTokens": 148,
            },
            TokenUsage(11, 100, 30, output_tokens=7),
        ),
        (
            {"cacheReadInputTokenCount": 100, "cacheWriteInputTokenCount": 30},
            TokenUsage(11, 100, 30, output_tokens=7),
        ),
        (
            {
                "cacheWriteInputTokens": 30,
                "cacheDetails": [
                    {"ttl": "1h", "inputTokens": 20},
                    {"ttl": "5m", "inputTokens": 10},
                    1,
                ],
            },
            TokenUsage(
                11, cache_write_tokens=10, cache_write_1h_tokens=20, output_tokens=7
            ),
        ),
        (
            {
                "cacheWriteInputTokens": 30,
                "cacheDetails": [{"ttl": "1h", "inputTokens": 99}],
            },
            TokenUsage(11, cache_write_1h_tokens=30, output_tokens=7),
        ),
        ({"totalTokens": 30}, TokenUsage(11, output_tokens=19)),
        ({"totalTokens": None}, SETTLED),
        ({"totalTokens": 5}, SETTLED),
        ({"cacheReadInputTokens": "5"}, SETTLED),
    ],
)
def test_classes(report: dict[str, Any], usage: TokenUsage) -> None:
    """Classes are disjoint; of the output the total knows, if anything is left out."""
    facts = reply(usage=USAGE | report)

    assert (facts.usage, facts.usage_final) == (usage, True)


@pytest.mark.parametrize("figure", [10**9 + 1, 10**30])
def test_absurd(figure: int) -> None:
    """A report that nobody can believe is left out."""
    facts = reply(usage=USAGE | {"outputTokens": figure})

    assert (facts.usage, facts.absurd) == (None, True)


@pytest.mark.parametrize(
    "report",
    [
        None,
        [],
        {},
        {"inputTokens": 0, "outputTokens": 0},
        {"inputTokens": -1, "outputTokens": True},
        {"inputTokens": "11", "outputTokens": 7.5},
    ],
)
def test_reports_that_say_nothing(report: object) -> None:
    """What reports nothing is not taken for an answer without tokens."""
    facts = reply({"text": "Hello."}, usage=report)

    assert (facts.usage, facts.usage_final) == (None, False)


def test_half_a_report() -> None:
    """With one side of a report the other has yet to be counted."""
    facts = reply(usage={"inputTokens": 11})

    assert facts.usage == TokenUsage(input_tokens=11)
    assert not facts.usage_final


def test_a_report_that_leaves_figures_out() -> None:
    """Each figure replaces its own earlier one only."""
    first = {
        "inputTokens": 10,
        "outputTokens": 7,
        "cacheReadInputTokens": 4,
        "cacheWriteInputTokens": 9,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 3}],
    }
    last = {"inputTokens": 12}
    facts = stream(("metadata", {"usage": first}), ("metadata", {"usage": last}))

    assert facts.usage == TokenUsage(
        input_tokens=12,
        cached_input_tokens=4,
        cache_write_tokens=6,
        cache_write_1h_tokens=3,
        output_tokens=7,
    )


def test_a_guardrail_answers() -> None:
    """A prompt that a guardrail has blocked cost nothing, if that is reported."""
    nothing = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    stop = {"stopReason": "guardrail_intervened"}
    facts = stream(
        ("contentBlockDelta", {"delta": {"text": "No."}}),
        ("messageStop", stop),
        ("metadata", {"usage": nothing}),
    )

    assert (facts.usage, facts.usage_final) == (TokenUsage(), True)
    assert not reply({"text": "No."}, usage={"inputTokens": 0}, **stop).usage_final
    late = reply({"text": "No."}, **stop)
    assert (late.usage, late.usage_final) == (SETTLED, True)


# === tiers, errors, nonsense ====================================================


@pytest.mark.parametrize(
    ("members", "tier"),
    [
        ({}, None),
        ({"serviceTier": {"type": "priority"}}, "priority"),
        ({"serviceTier": {"type": "no word"}}, "other"),
        ({"performanceConfig": {"latency": "standard"}}, None),
        ({"performanceConfig": {"latency": "optimized"}}, "optimized"),
    ],
)
def test_tiers(members: dict[str, Any], tier: str | None) -> None:
    """The tier that served it is told, and a faster mode is one."""
    assert reply(**members).service_tier == tier


def test_errors() -> None:
    """An error in an answer's place is one; its prose is not kept."""
    facts, named = ResponseFacts(), ResponseFacts()
    read_reply({"message": "Your prompt was: secret"}, facts)
    read_reply({"message": "x", "__type": "ThrottlingException"}, named)
    read_stream_event("messageStop", {"stopReason": "end_turn"}, named)

    assert (facts.error, named.error) == ("error", "ThrottlingException")
    assert not named.finished


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("output", "message", "content", "text", "toolUse", "input"),
                    *("reasoningContent", "reasoningText", "citationsContent", "usage"),
                    *("inputTokens", "outputTokens", "cacheDetails", "stopReason"),
                    *("start", "delta", "serviceTier", "performanceConfig"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["output", "usage", "delta", "start", "stopReason"]), JSON
    ),
    st.sampled_from(["contentBlockStart", "contentBlockDelta", "metadata", "other"]),
)
def test_anything(data: dict[str, Any], name: str) -> None:
    """Whatever comes, nothing raises."""
    facts = ResponseFacts()
    read_reply(data, facts)
    read_stream_event(name, data, facts)

    assert all(isinstance(text, str) for text in facts.texts)
