"""
Amazon Bedrock's Converse API.

The path names the model, percent-encoded, and what is wanted of it:

    /model/{model}/converse
    /model/{model}/converse-stream    (answered by an AWS event stream)

Usage needs no asking for: every stream ends with it.
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.dialects import bedrock_error, fields
from tokenweir.core.dialects.anthropic_messages import thinking_tokens
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.bedrock_prompt import read_prompt
from tokenweir.core.dialects.bedrock_reply import read_reply, read_stream_event
from tokenweir.core.dialects.bedrock_spelling import check_spelling
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.path_form import Called
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.json_edit import set_member_at
from tokenweir.core.json_text import parse_object, read_value
from tokenweir.core.sse import ServerSentEvent

_CONFIG = "inferenceConfig"
_CAP = "maxTokens"
# What goes to the model as it is, in its maker's words.
_MORE = "additionalModelRequestFields"
# Makers' words for a cap, which Bedrock passes on as well.
_CAPS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("max_tokens_to_sample", "max_gen_len", _CAP, "maxTokenCount"),
)
_THINKING = ("thinking", "reasoning_config")
_THINKING_BUDGET = "budget_tokens"
_OPTIMIZED = "optimized"


class Bedrock:
    """`Converse`; without *called* it reads answers and writes errors only."""

    name = "bedrock"
    route = "converse"

    def __init__(self, called: Called | None = None) -> None:
        self._called = called

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""
        assert self._called is not None
        members = parse_object(body)
        check_spelling(members)
        place = _place_of_cap(members)
        holder = fields.mapping(members, place[0])
        return ModelRequest(
            model=fields.model_name({"model": self._called.model}),
            stream=self._called.streams,
            output_cap=fields.integer(holder, place[1]),
            choices=1,
            user="",
            wants_usage=True,
            prompt=read_prompt(members),
            service_tier=_tier(members),
            thinking_tokens=_thinking(members)[1],
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*: the model is in the path."""
        if edits.output_cap is None:
            return body
        members = parse_object(body)
        cap = str(edits.output_cap).encode()
        body = set_member_at(body, _place_of_cap(members), cap)
        if edits.thinking_tokens is not None:
            place = (_MORE, _thinking(members)[0], _THINKING_BUDGET)
            body = set_member_at(body, place, str(edits.thinking_tokens).encode())
        return body

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* with the model that it names."""
        if self._called is None or edits.model is None:
            return path
        return self._called.form.with_model(path, edits.model)

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event; its name is the header `:event-type`."""
        data = read_value(event.data)
        if isinstance(data, dict):
            read_stream_event(event.event, data, facts)
        else:
            facts.unreadable = True

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply."""
        reply = read_value(body)
        if isinstance(reply, dict):
            read_reply(reply, facts)
        else:
            facts.unreadable = True

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as Bedrock does."""
        return bedrock_error.error_body(error)


def _place_of_cap(members: Members) -> tuple[str, str]:
    """
    Return where the cap on output is, or would be.

    Bedrock refuses two of them; and where one is hidden deeper, models may take it.
    """
    more = fields.mapping(members, _MORE)
    found = [name for name in _CAPS if more.get(name) is not None]
    hidden = any(
        isinstance(value, dict) and any(name in value for name in _CAPS)
        for value in more.values()
    )
    config = fields.mapping(members, _CONFIG)
    told = len(found) + (config.get(_CAP) is not None)
    if told > 1 or hidden:
        text = f"Cap the output once, by `{_CONFIG}.{_CAP}`."
        raise MalformedRequestError(text, f"{_CONFIG}.{_CAP}")
    return (_MORE, found[0]) if found else (_CONFIG, _CAP)


def _thinking(members: Members) -> tuple[str, int | None]:
    """Return what the model's word for thinking is, and how much it may think."""
    more: dict[str, Any] = fields.mapping(members, _MORE)
    for name in _THINKING:
        tokens = thinking_tokens(more.get(name))
        if tokens is not None:
            return name, tokens
    return _THINKING[0], None


def _tier(members: Members) -> str | None:
    """Return the tier that is asked for: what is fast is one by itself."""
    config = fields.mapping(members, "performanceConfig")
    if config.get("latency") == _OPTIMIZED:
        return _OPTIMIZED
    tier = fields.mapping(members, "serviceTier")
    return fields.string(tier, "type", "serviceTier")[: fields.MAX_TIER_CHARS] or None
