"""Tickets survive their way through Envoy, and nothing else is one."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import FAILURE, PROVIDER_KEY, STATE, ticket
from tokenweir.core.hold import Amounts, Hold, Limit, LimitState, Part, Subject
from tokenweir.core.policy import Axis
from tokenweir.core.prompt_part import Kind, PromptPart, PromptParts
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.ticket import Ticket

# Texts as they come out of a parsed body: any character but lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 10**10)
limits = st.builds(Limit, texts, st.sampled_from(Axis), texts, counts, counts)
subjects = st.builds(Subject, *[texts] * 11)
holds = st.builds(
    Hold,
    texts,
    st.lists(st.builds(Part, texts, st.lists(limits, max_size=2).map(tuple))).map(
        tuple
    ),
    st.builds(Amounts, counts, counts, counts),
    subjects,
)
failures = st.builds(
    QuotaFailure, texts, st.sampled_from(Axis), texts, *[counts] * 5, st.booleans()
)
tickets = st.builds(
    Ticket,
    hold=holds,
    started_ms=counts,
    method=texts,
    dialect=texts,
    counting_model=texts,
    tokenizer=st.none() | texts,
    output_cap=st.none() | counts,
    choices=counts,
    max_output_tokens=st.none() | counts,
    expected_tokens=counts,
    instead_of=st.none() | st.tuples(texts, texts),
    prompt=st.none()
    | st.builds(
        PromptParts,
        st.lists(st.builds(PromptPart, st.sampled_from(Kind), texts, counts)).map(
            tuple
        ),
        counts,
    ),
    states=st.lists(st.builds(LimitState, limits, counts, counts)).map(tuple),
    shadowed=st.lists(failures, max_size=2).map(tuple),
    flags=st.lists(texts, max_size=2).map(tuple),
    governor_ms=st.floats(0, 1e6),
    ledger_ms=st.floats(0, 1e6),
)


@given(tickets)
def test_round_trip(original: Ticket) -> None:
    """Whatever the request side knew, the response side is told."""
    assert Ticket.from_text(original.to_text()) == original


def test_types_survive() -> None:
    """What comes back is made of the same classes: it can settle as it is."""
    original = Ticket(
        ticket().hold, 1, "POST", states=(STATE,), shadowed=(FAILURE,), flags=("f",)
    )
    found = Ticket.from_text(original.to_text())

    assert isinstance(found.hold, Hold)
    assert isinstance(found.hold.parts, tuple)
    assert isinstance(found.hold.parts[0].limits[0].axis, Axis)
    assert isinstance(found.states[0], LimitState)
    assert hash(found) == hash(original)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no ticket",
        "{}",
        "null",
        "[]",
        '{"hold": 1, "started_ms": 1, "method": "POST"}',
        ticket().to_text()[:-1],
        ticket().to_text().replace('"started_ms":', '"started_ms":"x",'),
        ticket().to_text().replace(Axis.TOKENS, "tokens_per_fortnight"),
        "[" * 10_000,
    ],
)
def test_what_is_no_ticket(text: str) -> None:
    """What is not a whole ticket raises ValueError and nothing else."""
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec words it
        Ticket.from_text(text)


def test_unknown_members_are_ignored() -> None:
    """A ticket of a newer processor, which knows more, can still be settled."""
    text = ticket().to_text().replace("{", '{"newer": [1, {"x": null}],', 1)

    assert Ticket.from_text(text) == ticket()


def test_what_is_missing_has_a_default() -> None:
    """A ticket needs no more than what a settle needs."""
    members = msgspec.json.decode(ticket().to_text())
    least = {name: members[name] for name in ("hold", "started_ms", "method")}
    found = Ticket.from_text(msgspec.json.encode(least).decode())

    assert found.hold == ticket().hold
    assert found.dialect == ""


def test_nothing_secret_in_it() -> None:
    """A ticket travels in metadata that access logs may print."""
    assert PROVIDER_KEY not in ticket().to_text()
    assert "CANARY" not in ticket().to_text()


def test_what_is_owed_where_nothing_is_reported() -> None:
    """What was reserved of the input, or what it was taken for if that is more."""
    reserved = ticket().hold.amounts.input_tokens

    assert replace(ticket(), uncorrected=reserved - 1).owed_input == reserved
    assert replace(ticket(), uncorrected=reserved + 1).owed_input == reserved + 1
