"""What a server of the OpenAI API sends, in pieces that others put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.core.usage import TokenUsage

THOUGHTS = ("The river", " is old.")
WORDS = ("Once", " upon", " a time.")
STORY = "".join(WORDS)

Members = Mapping[str, Any]


@dataclass(frozen=True)
class Server:
    """
    Attributes:
        name: Whose it is.
        events: What it streams: data, or a whole line such as a comment.
        reply: What it answers if nothing is streamed.
        usage: What both report, by class.
        texts: All that both have generated.
    """

    name: str
    events: tuple[Members | str, ...]
    reply: Members
    usage: TokenUsage
    texts: tuple[str, ...] = WORDS

    @property
    def stream(self) -> list[bytes]:
        """The events as they are sent."""
        return [_sent(event) for event in self.events]

    def without_usage(self) -> list[bytes]:
        """Return the events as of a server that never reports."""
        return [
            _sent(event if isinstance(event, str) else _unreported(event))
            for event in self.events
        ]


def _sent(event: Members | str) -> bytes:
    if isinstance(event, str):
        return event.encode() + b"\n\n"
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def _unreported(event: Members) -> dict[str, Any]:
    kept = {name: event[name] for name in event if name not in ("usage", "x_groq")}
    choices = kept.get("choices")
    if isinstance(choices, list):
        kept["choices"] = [
            {name: choice[name] for name in choice if name != "usage"}
            for choice in choices
        ]
    return kept


def chunk(choice: Members | None = None, **members: Any) -> dict[str, Any]:
    """Return an event of one *choice*, or of none."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "some-model",
        "choices": [] if choice is None else [{"index": 0, **choice}],
        **members,
    }


def says(delta: Members, **members: Any) -> dict[str, Any]:
    """Return a choice with a *delta*."""
    return {"delta": delta, "finish_reason": None, **members}


def whole(message: Members, usage: Any, **members: Any) -> dict[str, Any]:
    """Return a reply that is not streamed."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "some-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": "stop",
            }
        ],
        "usage": usage,
        **members,
    }


def sums(prompt: int, completion: int, **others: Any) -> dict[str, Any]:
    """Return a usage object."""
    total = prompt + completion
    figures = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**figures, "total_tokens": total, **others}


STOP = says({}, finish_reason="stop")
DONE = "data: [DONE]"
