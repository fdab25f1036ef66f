"""
OpenAI's moderations: they cost nothing there, and are metered by requests.

No token is reserved. Others that serve this API may report tokens: those are recorded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tokenweir.core.dialects.base import Edits, ModelRequest, Prompt, ResponseFacts
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.openai_reply import read_reply
from tokenweir.core.json_edit import set_member

# What OpenAI takes where a request names none.
_DEFAULT_MODEL = "omni-moderation-latest"


class OpenAIModerations(OpenAIApi):
    """`POST /v1/moderations`."""

    route = "moderations"

    def read_members(self, body: bytes) -> Members:
        """Read a body, which need not name a model. Raises: MalformedRequestError."""
        members = super().read_members(body)
        if members.get("model") is None:
            members["model"] = _DEFAULT_MODEL
        return members

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        del members
        return ModelRequest(
            model=model,
            stream=False,
            output_cap=0,
            choices=1,
            user="",
            wants_usage=True,
            prompt=Prompt(),
            can_be_capped=False,
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with the model of *edits*; nothing else can be asked for."""
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        return body

    def read_reply(self, reply: dict[str, Any], facts: ResponseFacts) -> None:
        """Take a whole reply: without a report it has cost nothing."""
        read_reply(reply, facts)
        facts.usage_final = facts.usage is not None
        facts.finished = facts.error is None and "results" in reply
