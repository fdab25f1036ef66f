"""OpenAI's other APIs, in exact bytes: see `tests.cases.apis`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cases.apis import QUESTION, TOLD, OpenAI, Told, data, encoded, named


class Responses:
    """Responses."""

    name = "responses"
    path = "/v1/responses"
    model = "gpt-4o"
    asks_usage = False

    def request(
        self, *, stream: bool = True, asked: bool = True, **members: object
    ) -> bytes:
        """See `Api`; usage comes in any case."""
        del asked
        body: dict[str, Any] = {"model": self.model, "input": QUESTION}
        if stream:
            body["stream"] = True
        return encoded(body | members)

    def response(self, status: str, **members: object) -> dict[str, Any]:
        """Return a response in some *status*."""
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": "gpt-4o-2024-08-06",
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
            **members,
        }

    def last(self, status: str, **members: object) -> bytes:
        """Return the event that ends a stream."""
        kind = f"response.{status}"
        return named({"type": kind, "response": self.response(status, **members)})

    def usage(self, told: Told = TOLD) -> dict[str, Any]:
        """Return the usage object."""
        return {
            "input_tokens": told.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": told.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": told.input + told.output,
        }

    def delta(self, text: str) -> bytes:
        """See `Api`."""
        return named({"type": "response.output_text.delta", "delta": text})

    def opening(self, told: Told = TOLD) -> list[bytes]:
        """See `Api`."""
        del told
        begun = self.response("in_progress")
        item = {"type": "message", "role": "assistant", "content": []}
        return [
            named({"type": "response.created", "response": begun}),
            named({"type": "response.in_progress", "response": begun}),
            named({"type": "response.output_item.added", "item": item}),
        ]

    def finish(self) -> list[bytes]:
        """See `Api`."""
        return [named({"type": "response.output_text.done", "text": "…"})]

    def report(self, told: Told = TOLD) -> bytes:
        """See `Api`: it is the end, too."""
        return self.last("completed", usage=self.usage(told))

    def end(self) -> bytes:
        """See `Api`."""
        return b""

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """See `Api`."""
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "role": "assistant", "content": [part]}
        return encoded(
            self.response("completed", output=[item], usage=self.usage(told)) | members
        )

    def error(self) -> bytes:
        """See `Api`."""
        return named({"type": "error", "code": "overloaded", "message": "Overloaded."})


class Completions(OpenAI):
    """Completions."""

    path = "/v1/completions"

    def request(
        self, *, stream: bool = True, asked: bool = True, **members: object
    ) -> bytes:
        """See `Api`."""
        body: dict[str, Any] = {"model": self.model, "prompt": QUESTION}
        if stream:
            body["stream"] = True
            if asked:
                body["stream_options"] = {"include_usage": True}
        return encoded(body | members)

    def delta(self, text: str) -> bytes:
        """See `Api`."""
        choice = {"index": 0, "text": text, "finish_reason": None}
        return data({"object": "text_completion", "choices": [choice]})

    def choice(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        """Return the event of one choice, without text."""
        del delta
        return self.chunk(choices=[{"index": 0, "text": "", "finish_reason": finish}])

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """See `Api`."""
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        return encoded(
            {
                "object": "text_completion",
                "model": "gpt-4o-2024-08-06",
                "choices": [choice],
                "usage": self.usage(told),
            }
            | members
        )


class Embeddings(OpenAI):
    """Embeddings: no stream, no output."""

    path = "/v1/embeddings"

    def request(
        self, *, stream: bool = False, asked: bool = False, **members: object
    ) -> bytes:
        """See `Api`."""
        del stream, asked
        return encoded({"model": self.model, "input": QUESTION} | members)

    def reply(self, text: str, told: Told = TOLD, **members: object) -> bytes:
        """Return an answer whose vector is *text*, in place of base64."""
        vector = {"object": "embedding", "index": 0, "embedding": text}
        usage = {"prompt_tokens": told.input, "total_tokens": told.input}
        return encoded(
            {
                "object": "list",
                "data": [vector],
                "model": "gpt-4o-2024-08-06",
                "usage": usage,
            }
            | members
        )


RESPONSES = Responses()
COMPLETIONS = Completions()
EMBEDDINGS = Embeddings()
