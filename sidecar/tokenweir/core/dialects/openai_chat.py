"""OpenAI's chat completions, as OpenAI, vLLM and many others serve them."""

from __future__ import annotations

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ModelRequest
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.openai_prompt import read_prompt
from tokenweir.core.json_edit import set_inner_member, set_member
from tokenweir.core.json_text import parse_object

# OpenAI's own limit.
MAX_CHOICES = 128

# The newer spelling first.
_CAPS = ("max_completion_tokens", "max_tokens")


class OpenAIChat(OpenAIApi):
    """`POST /v1/chat/completions`."""

    route = "chat_completions"

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        options = fields.mapping(members, "stream_options")
        return ModelRequest(
            model=model,
            stream=fields.flag(members, "stream"),
            output_cap=_output_cap(members),
            choices=fields.integer(members, "n", high=MAX_CHOICES) or 1,
            # OpenAI replaces the second by the first.
            user=fields.user_id(members, "safety_identifier")
            or fields.user_id(members, "user"),
            wants_usage=fields.flag(options, "include_usage", "stream_options"),
            prompt=read_prompt(members),
            service_tier=fields.tier(members),
            speaks="audio" in fields.array(members, "modalities"),
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*; a body that was read before never raises."""
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        if edits.include_usage:
            body = set_inner_member(body, "stream_options", "include_usage", b"true")
        if edits.output_cap is not None:
            body = _capped(body, edits.output_cap, edits.output_cap_field)
        return body


def _output_cap(members: Members) -> int | None:
    """
    Return the client's cap in either spelling.

    OpenAI refuses both at once, vLLM takes the newer one, others the older one:
    the larger is what may be generated.
    """
    given = [name for name in _CAPS if not fields.is_unlimited(members, name)]
    caps = [fields.integer(members, name) for name in given]
    if len(given) < len(_CAPS):
        return None
    return max((cap for cap in caps if cap is not None), default=None)


def _capped(body: bytes, cap: int, field: str | None) -> bytes:
    members = parse_object(body)
    given = [name for name in _CAPS if members.get(name) is not None]
    # Servers that are not OpenAI's may know the older spelling only; OpenAI's newer
    # models refuse it. An app that gives neither gets the one that is not deprecated,
    # unless the policy says that its provider knows the other.
    for name in given or [field or _CAPS[0]]:
        if members.get(name) in (None, fields.UNLIMITED) or members[name] > cap:
            body = set_member(body, name, str(cap).encode())
    return body
