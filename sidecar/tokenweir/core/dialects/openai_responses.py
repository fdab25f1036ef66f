"""OpenAI's responses, as OpenAI, vLLM and others serve them."""

from __future__ import annotations

from typing import Any

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ModelRequest, ResponseFacts
from tokenweir.core.dialects.facts import note_strange
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.responses_prompt import read_prompt
from tokenweir.core.dialects.responses_reply import read_event, read_response
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.json_edit import set_member
from tokenweir.core.json_text import parse_object

_CAP = "max_output_tokens"
# Members of a response by which it is known.
_OF_RESPONSE = frozenset({"output", "status", "usage", "error"})
_BACKGROUND = (
    "`background` must be false: what is generated after the answer has no report "
    "that could be charged."
)


class OpenAIResponses(OpenAIApi):
    """`POST /v1/responses`."""

    route = "responses"

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        if fields.flag(members, "background"):
            raise MalformedRequestError(_BACKGROUND, "background")
        return ModelRequest(
            model=model,
            stream=fields.flag(members, "stream"),
            output_cap=fields.integer(members, _CAP),
            choices=1,
            user=fields.user_id(members, "safety_identifier")
            or fields.user_id(members, "user"),
            wants_usage=True,
            prompt=read_prompt(members),
            service_tier=fields.tier(members),
            speaks="audio" in fields.array(members, "modalities"),
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*; usage is in every stream that ends."""
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        if edits.output_cap is not None:
            body = _capped(body, edits.output_cap)
        return body

    def read_reply(self, reply: dict[str, Any], facts: ResponseFacts) -> None:
        """Take a whole response, or one event; an error is no response."""
        if isinstance(reply.get("type"), str):
            read_event(reply, facts)
        else:
            read_response(reply, facts)
            note_strange(facts, reply, _OF_RESPONSE)


def _capped(body: bytes, cap: int) -> bytes:
    given = parse_object(body).get(_CAP)
    if given is None or given > cap:
        body = set_member(body, _CAP, str(cap).encode())
    return body
