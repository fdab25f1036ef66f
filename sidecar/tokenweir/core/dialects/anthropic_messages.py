"""Anthropic's messages, as Anthropic and those who imitate it serve them."""

from __future__ import annotations

from typing import Any

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.anthropic_prompt import read_prompt
from tokenweir.core.dialects.anthropic_reply import read_message, read_stream_event
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.facts import note_strange_data
from tokenweir.core.dialects.fields import Members
from tokenweir.core.json_edit import set_inner_member, set_member
from tokenweir.core.json_text import parse_object, read_value, write_value
from tokenweir.core.sse import ServerSentEvent

# As https://docs.anthropic.com/en/api/errors lists them.
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OTHER_SERVER_ERROR = "api_error"
_OTHER_CLIENT_ERROR = "invalid_request_error"


class AnthropicMessages:
    """`POST /v1/messages`."""

    name = "anthropic"
    route = "messages"

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""
        members = parse_object(body)
        fields.check_names(members)
        model = fields.model_name(members)
        return read_request(members, model, stream=fields.flag(members, "stream"))

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """
        Return *body* with *edits*; a body that was read before never raises.

        Usage needs no asking for: every stream has it.
        """
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        if edits.output_cap is not None:
            body = set_member(body, "max_tokens", str(edits.output_cap).encode())
        if edits.thinking_tokens is not None:
            budget = str(edits.thinking_tokens).encode()
            body = set_inner_member(body, "thinking", "budget_tokens", budget)
        return body

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* as it is: the model is in the body."""
        del edits
        return path

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event; what is no JSON object is not read."""
        if not event.data.lstrip().startswith(b"{"):
            note_strange_data(facts, event.data)
            return
        data = read_value(event.data)
        if isinstance(data, dict):
            read_stream_event(_kind(event, data), data, facts)
        else:
            facts.unreadable = True

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply."""
        message = read_value(body)
        if isinstance(message, dict):
            read_message(message, facts)
        else:
            facts.unreadable = True

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as Anthropic does, with its type for the status."""
        other = _OTHER_SERVER_ERROR if error.status >= 500 else _OTHER_CLIENT_ERROR
        members = {
            "type": _ERROR_TYPES.get(error.status, other),
            "message": error.message,
            "tokenweir": dict(error.detail),
        }
        return write_value({"type": "error", "error": members})


def read_request(members: Members, model: str, *, stream: bool) -> ModelRequest:
    """Return the facts of a body for *model*. Raises: MalformedRequestError."""
    metadata = fields.mapping(members, "metadata")
    return ModelRequest(
        model=model,
        stream=stream,
        # Zero fills the prompt cache, and generates nothing.
        output_cap=fields.integer(members, "max_tokens", low=0),
        choices=1,
        user=fields.user_id(metadata, "user_id", "metadata"),
        wants_usage=True,
        prompt=read_prompt(members),
        service_tier=fields.tier(members),
        thinking_tokens=thinking_tokens(members.get("thinking")),
    )


def thinking_tokens(thinking: object) -> int | None:
    """Return the budget for thinking; what can be none is the provider's to refuse."""
    if not isinstance(thinking, dict):
        return None
    fields.check_names(thinking, "thinking")
    if thinking.get("type") != "enabled":
        return None
    budget = thinking.get("budget_tokens")
    return budget if type(budget) is int and 0 < budget <= fields.MAX_TOKENS else None


def _kind(event: ServerSentEvent, data: dict[str, Any]) -> str:
    # The same word stands in both places; some who imitate it leave one out.
    kind = data.get("type")
    return kind if isinstance(kind, str) else event.event
