"""What all of OpenAI's APIs have in common: how replies are framed and errors told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.facts import note_strange_data
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_reply import read_reply
from tokenweir.core.events import Headers
from tokenweir.core.json_text import parse_object, read_value, write_value
from tokenweir.core.sse import ServerSentEvent

_END = b"[DONE]"


class OpenAIApi(ABC):
    """A `tokenweir.core.dialects.base.Dialect` without what is its own in requests."""

    name = "openai"
    route: str

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""
        members = self.read_members(body)
        return self.read_request(members, fields.model_name(members))

    def read_members(self, body: bytes) -> Members:
        """Return what *body* says, by name. Raises: MalformedRequestError."""
        members = parse_object(body)
        fields.check_names(members)
        return members

    def sent_with(self, headers: Headers) -> OpenAIApi:
        """Return what reads a body that is sent with *headers*: this, by default."""
        del headers
        return self

    @abstractmethod
    def read_request(self, members: Members, model: str) -> ModelRequest:
        """
        Read the *members* of a request for *model*.

        Raises:
            MalformedRequestError: One that is read has the wrong type.
        """

    @abstractmethod
    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*; a body that was read before never raises."""

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* as it is: the model is in the body."""
        del edits
        return path

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event; what is no JSON object, such as a comment, is not read."""
        data = event.data.strip()
        if data == _END:
            # A hint only: usage may still come, and an error is not complete.
            facts.finished = facts.ended = facts.error is None
        elif data.startswith(b"{"):
            self.read_body(data, facts)
        else:
            note_strange_data(facts, data)

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply."""
        reply = read_value(body)
        if isinstance(reply, dict):
            self.read_reply(reply, facts)
        else:
            facts.unreadable = True

    def read_reply(self, reply: dict[str, Any], facts: ResponseFacts) -> None:
        """Take *reply*, or the data of an event, into *facts*: chat's by default."""
        read_reply(reply, facts)

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as OpenAI does."""
        members = {
            "message": error.message,
            "type": error.type,
            "code": error.code,
            "param": error.param,
            "tokenweir": dict(error.detail),
        }
        return write_value({"error": members})
