"""How long answers may be: what an entry may say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tokenweir.config.cap_entry import CapEntry
from tokenweir.config.scalar import MAX_OUTPUT_TOKENS


@pytest.mark.parametrize(
    "fields",
    [
        {"output_tokens": 1},
        {"if_unset": MAX_OUTPUT_TOKENS},
        {"output_tokens": 300, "if_unset": 300},
        {
            "output_tokens": 300,
            "models": ["gpt-*"],
            "routes": ["chat_completions", "completions", "messages", "responses"],
            "tenants": ["acme"],
        },
    ],
)
def test_what_is_taken(fields: dict[str, Any]) -> None:
    """Either figure or both, for some or for all."""
    entry = CapEntry.model_validate(fields)

    assert entry.model_dump(exclude_none=True) == fields


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "must have output_tokens, if_unset or both"),
        ({"models": ["gpt-*"]}, "must have output_tokens, if_unset or both"),
        ({"output_tokens": 300, "if_unset": 301}, "has an `if_unset` above"),
        ({"output_tokens": 0}, "greater than or equal to 1"),
        ({"output_tokens": MAX_OUTPUT_TOKENS + 1}, "less than or equal to"),
        ({"output_tokens": 300, "routes": ["models"]}, "Input should be"),
        ({"output_tokens": 300, "routes": ["embeddings"]}, "Input should be"),
        ({"output_tokens": 300, "tenants": []}, "at least 1 item"),
        ({"output_tokens": 300, "keys": ["k"]}, "not permitted"),
    ],
)
def test_what_is_not(fields: dict[str, Any], text: str) -> None:
    """A cap that caps nothing, or where there is nothing to cap."""
    with pytest.raises(ValidationError, match=text):
        CapEntry.model_validate(fields)
