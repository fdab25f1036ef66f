"""
The two APIs, as apps and providers speak them, in exact bytes.

Both tell the same story, so that a case can be tried on both:

    for event in api.story(WORDS, Told(11, 7)): …

`Told` is what the provider reports; what has no place in an API is left out of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from tokenweir.core.usage import TokenUsage

QUESTION = "Tell me a story."
WORDS = ("Once", " upon", " a", " time", " there", " was", " a", " weir", ".")


@dataclass(frozen=True)
class Told:
    """The usage that a provider reports: *input* tokens and *output* tokens."""

    input: int
    output: int

    @property
    def usage(self) -> TokenUsage:
        """The same, as it must be settled."""
        return TokenUsage(input_tokens=self.input, output_tokens=self.output)


TOLD = Told(11, 7)


class Api(Protocol):
    """One of them."""

    name: str
    path: str
    model: str
    asks_usage: bool  # a stream has usage only if it was asked for

    def request(
        self, *, stream: bool = True, asked: bool = True, **members: object
    ) -> bytes:
        """Return a request; *asked*: the app itself wants the usage of a stream."""

    def delta(self, text: str) -> bytes:
        """Return the event that carries *text*."""

    def opening(self, told: Told = TOLD) -> list[bytes]:
        """Return the events before the first text."""

    def finish(self) -> list[bytes]:
        """Return what comes between the last text and the final report."""

    def report(self, told: Told = TOLD) -> bytes:
        """Return the event with the final report."""

    def end(self) -> bytes:
        """Return the event that says that nothing more will come."""

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """Return an answer that is not streamed, with *text* and the report."""

    def error(self) -> bytes:
        """Return an error event, as sent under a status of 200."""


def story(api: Api, words: Sequence[str] = WORDS, told: Told = TOLD) -> list[bytes]:
    """Return a whole stream, event by event."""
    deltas = [api.delta(word) for word in words]
    return [*api.opening(told), *deltas, *api.finish(), api.report(told), api.end()]


def encoded(value: Mapping[str, Any]) -> bytes:
    """Return *value* as JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


def data(value: Mapping[str, Any]) -> bytes:
    """Return an event without a name."""
    return b"data: " + encoded(value) + b"\n\n"


def named(value: Mapping[str, Any]) -> bytes:
    """Return an event that is named after its type, as Anthropic's are."""
    return b"event: " + str(value["type"]).encode() + b"\n" + data(value)


class OpenAI:
    """Chat completions."""

    name = "openai"
    path = "/v1/chat/completions"
    model = "gpt-4o"
    asks_usage = True

    def request(
        self, *, stream: bool = True, asked: bool = True, **members: object
    ) -> bytes:
        """See `Api`."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": QUESTION}],
        }
        if stream:
            body["stream"] = True
            if asked:
                body["stream_options"] = {"include_usage": True}
        return encoded(body | members)

    def chunk(self, **members: object) -> bytes:
        """Return one event with *members* beside the usual ones."""
        return data(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": "gpt-4o-2024-08-06",
                **members,
            }
        )

    def choice(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        """Return the event of one choice."""
        return self.chunk(
            choices=[{"index": 0, "delta": delta, "finish_reason": finish}]
        )

    def usage(self, told: Told = TOLD) -> dict[str, Any]:
        """Return the usage object."""
        return {
            "prompt_tokens": told.input,
            "completion_tokens": told.output,
            "total_tokens": told.input + told.output,
        }

    def delta(self, text: str) -> bytes:
        """See `Api`."""
        return self.choice({"content": text})

    def opening(self, told: Told = TOLD) -> list[bytes]:
        """See `Api`."""
        del told
        return [self.choice({"role": "assistant", "content": ""})]

    def finish(self) -> list[bytes]:
        """See `Api`."""
        return [self.choice({}, "stop")]

    def report(self, told: Told = TOLD) -> bytes:
        """See `Api`."""
        return self.chunk(choices=[], usage=self.usage(told))

    def end(self) -> bytes:
        """See `Api`."""
        return b"data: [DONE]\n\n"

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """See `Api`."""
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return encoded(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1_700_000_000,
                "model": "gpt-4o-2024-08-06",
                "choices": [choice],
                "usage": self.usage(told),
            }
            | members
        )

    def error(self) -> bytes:
        """See `Api`."""
        error = {"message": "Overloaded.", "type": "server_error", "code": "overloaded"}
        return data({"error": error})


class Anthropic:
    """Messages."""

    name = "anthropic"
    path = "/v1/messages"
    model = "claude-sonnet-5"
    asks_usage = False

    def request(
        self, *, stream: bool = True, asked: bool = True, **members: object
    ) -> bytes:
        """See `Api`; usage comes in any case."""
        del asked
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": 1_000,
            "messages": [{"role": "user", "content": QUESTION}],
        }
        if stream:
            body["stream"] = True
        return encoded(body | members)

    def start(self, usage: object) -> bytes:
        """Return `message_start` with *usage*."""
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-20250929",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return named({"type": "message_start", "message": message})

    def stop(self, usage: object, reason: str | None = "end_turn") -> bytes:
        """Return `message_delta` with *usage*."""
        delta = {"stop_reason": reason, "stop_sequence": None}
        return named({"type": "message_delta", "delta": delta, "usage": usage})

    def delta(self, text: str) -> bytes:
        """See `Api`."""
        return named(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
        )

    def opening(self, told: Told = TOLD) -> list[bytes]:
        """See `Api`."""
        block = {"type": "text", "text": ""}
        return [
            self.start({"input_tokens": told.input, "output_tokens": 1}),
            named({"type": "content_block_start", "index": 0, "content_block": block}),
            named({"type": "ping"}),
        ]

    def finish(self) -> list[bytes]:
        """See `Api`."""
        return [named({"type": "content_block_stop", "index": 0})]

    def report(self, told: Told = TOLD) -> bytes:
        """See `Api`."""
        return self.stop({"output_tokens": told.output})

    def end(self) -> bytes:
        """See `Api`."""
        return named({"type": "message_stop"})

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """See `Api`."""
        return encoded(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5-20250929",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": told.input, "output_tokens": told.output},
            }
            | members
        )

    def error(self) -> bytes:
        """See `Api`."""
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return named({"type": "error", "error": error})


OPENAI = OpenAI()
ANTHROPIC = Anthropic()

both_apis = pytest.mark.parametrize(
    "api", [OPENAI, ANTHROPIC], ids=lambda api: str(api.name)
)
