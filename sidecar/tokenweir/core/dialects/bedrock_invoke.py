"""
Amazon Bedrock's InvokeModel, for Anthropic's models and for embeddings.

Bodies are what the model's maker takes and answers. Those of Anthropic's messages are
read, and embeddings, which Converse does not have. Of others nobody here knows what they
cost, so they are refused: Converse has the same models.

    /model/{model}/invoke
    /model/{model}/invoke-with-response-stream    (events in AWS' frames)
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from dataclasses import replace

from tokenweir.core.dialects import bedrock_embed, bedrock_error, fields
from tokenweir.core.dialects.anthropic_messages import AnthropicMessages, read_request
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.facts import note_strange_data
from tokenweir.core.dialects.path_form import Called
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.json_text import parse_object, read_value
from tokenweir.core.sse import ServerSentEvent

_VERSION = "anthropic_version"
# Members that are Bedrock's, and no part of the prompt.
_OF_BEDROCK = frozenset({_VERSION, "anthropic_beta"})
_MESSAGES = AnthropicMessages()
# A choice of price that no part of the body tells, and what is the usual one.
_USUAL = {
    "x-amzn-bedrock-service-tier": "default",
    "x-amzn-bedrock-performanceconfig-latency": "standard",
}


class BedrockInvoke:
    """
    `InvokeModel`; without *called* it reads answers and writes errors only.

    *headers*: of the request.
    """

    name = "bedrock"
    route = "invoke_model"

    def __init__(
        self,
        called: Called | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._called = called
        self._unusual = next(
            (name for name, value in headers if value != _USUAL.get(name, value)), None
        )

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""
        assert self._called is not None
        if self._unusual is not None:
            text = (
                f"The header {self._unusual} chooses a price that can't be told here "
                "by InvokeModel: leave it out, or call Converse."
            )
            raise MalformedRequestError(text)
        members = parse_object(body)
        fields.check_names(members)
        model = fields.model_name({"model": self._called.model})
        if (
            _VERSION not in members
            and not self._called.streams
            and bedrock_embed.is_embedding(members, model)
        ):
            return bedrock_embed.read_request(members, model)
        if not isinstance(members.get(_VERSION), str):
            text = (
                "InvokeModel is metered here for Anthropic's messages, which have "
                f"`{_VERSION}`, and, not streamed, for embeddings, by models that have "
                "`embed` in their names: call this model by Converse."
            )
            raise MalformedRequestError(text, _VERSION)
        rest = {n: value for n, value in members.items() if n not in _OF_BEDROCK}
        return read_request(rest, model, stream=self._called.streams)

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*: the model is in the path."""
        return _MESSAGES.rewrite(body, replace(edits, model=None))

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* with the model that it names."""
        if self._called is None or edits.model is None:
            return path
        return self._called.form.with_model(path, edits.model)

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event, which holds one of Anthropic's, in base64."""
        if event.event != "chunk":
            note_strange_data(facts, event.data)
            return
        chunk = read_value(event.data)
        held = chunk.get("bytes") if isinstance(chunk, dict) else None
        try:
            data = binascii.a2b_base64(held if isinstance(held, str) else "A")
        except ValueError:
            facts.unreadable = True
            return
        _MESSAGES.read_event(ServerSentEvent("message", data), facts)
        _forget_name(facts)

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply."""
        reply = read_value(body)
        if bedrock_embed.is_reply(reply):
            bedrock_embed.read_reply(reply, facts)
        else:
            _MESSAGES.read_body(body, facts)
        _forget_name(facts)

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as Bedrock does."""
        return bedrock_error.error_body(error)


def _forget_name(facts: ResponseFacts) -> None:
    # It is Anthropic's own, which has other prices than the region's that was called.
    facts.model = None
