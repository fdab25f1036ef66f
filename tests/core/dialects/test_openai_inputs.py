"""Texts, token ids and batches of them are counted, whatever stands beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.openai_inputs import inputs_in, read_inputs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "texts", "ids", "count"),
    [
        ("one text", ("one text",), 0, 1),
        ("", (), 0, 1),
        (["a", "b"], ("a", "b"), 0, 2),
        ([9906, 1917], (), 2, 1),
        ([[1, 2, 3], [4, 5]], (), 5, 2),
        ([], (), 0, 1),
        (None, (), 0, 1),
        (["a", [1]], ("a",), 1, 2),
        ([1, "a"], ("a",), 1, 2),
        ([-1, 2], (), 2, 1),
        (["a"] * 2_049, ("a",) * 2_049, 0, 2_049),
        ([True], (), 0, 1),
        ({"text": "odd"}, ("text", "odd"), 0, 1),
    ],
)  # fmt: skip
def test_inputs(value: object, texts: tuple[str, ...], ids: int, count: int) -> None:
    """
    Ids count one each, texts as they are; what is wrong is the provider's to refuse.

    Case T30.
    """
    body = {"input": value}
    prompt = read_inputs(body, "input", frozenset({"input"}))
    [message] = prompt.messages

    assert (message.role, message.texts) == ("", texts)
    assert prompt.token_ids == ids
    assert inputs_in(body, "input") == count


def test_absent_input() -> None:
    """Without an input there is one to be answered, of nothing."""
    assert inputs_in({}, "input") == 1
    assert read_inputs({}, "input", frozenset()).messages[0].texts == ()


def test_what_stands_beside_it() -> None:
    """A member that nobody here knows is read by the model, for all we know."""
    body = {"prompt": "a", "suffix": "end", "user": "u"}
    prompt = read_inputs(body, "prompt", frozenset({"prompt", "user"}))

    assert prompt.messages[0].texts == ("a", "end")


@given(JSON)
def test_any_input(value: object) -> None:
    """No input breaks the reading, and each is one answer at least."""
    body = {"input": value}

    assert read_inputs(body, "input", frozenset({"input"})).token_ids >= 0
    assert inputs_in(body, "input") >= 1
