"""What is kept of prompts: what an author may say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tokenweir.config.audit_entry import AuditEntry


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompts": False},
        {
            "prompts_of": ["acme"],
            "keep_prompt_text": True,
            "keep_prompt_text_of": ["acme"],
        },
    ],
)
def test_what_is_taken(fields: dict[str, Any]) -> None:
    """All of it can be left out: then hashes are kept, and no text."""
    entry = AuditEntry.model_validate(fields)

    assert entry.model_dump(exclude_unset=True) == fields
    assert AuditEntry() == AuditEntry(prompts=True, keep_prompt_text=False)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"prompts": False, "keep_prompt_text": True}, "remove one"),
        ({"prompts": False, "prompts_of": ["acme"]}, "remove one"),
        ({"keep_prompt_text_of": ["acme"]}, "only goes with"),
        ({"prompts_of": []}, "at least 1 item"),
        ({"keep_prompt_text": "yes"}, "valid boolean"),
        ({"keep_text": True}, "not permitted"),
    ],
)
def test_what_is_not(fields: dict[str, Any], text: str) -> None:
    """What would look like a choice and be none."""
    with pytest.raises(ValidationError, match=text):
        AuditEntry.model_validate(fields)
