"""Bodies as apps and providers write them."""

import json
from collections.abc import Mapping
from typing import Any

from tokenweir.core.events import Headers

JSON: Headers = (("content-type", "application/json"),)
STREAM: Headers = (("content-type", "text/event-stream; charset=utf-8"),)


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return *body* as JSON."""
    return json.dumps(body).encode()


def chat(model: str = "gpt-4o-mini", **members: object) -> bytes:
    """Return a request to OpenAI's chat completions."""
    messages = [{"role": "user", "content": "Say hello."}]
    return encoded({"model": model, "messages": messages, **members})


def messages(model: str = "claude", **members: object) -> bytes:
    """Return a request to Anthropic's messages."""
    turns = [{"role": "user", "content": "Say hello."}]
    return encoded({"model": model, "max_tokens": 100, "messages": turns, **members})


# === OpenAI's answers =============================================================

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
REPLY = encoded(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello there!"},
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
)


def sse(data: Mapping[str, Any], event: str | None = None) -> bytes:
    """Return one server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def chunk(**members: object) -> bytes:
    """Return one event of a streamed chat completion."""
    return sse(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "gpt-4o-mini-2024-07-18",
            **members,
        }
    )


def delta(text: str, finish_reason: str | None = None) -> bytes:
    """Return the event that carries generated *text*."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return chunk(choices=[choice])


FINISH = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
USAGE_EVENT = chunk(choices=[], usage=USAGE)
DONE = b"data: [DONE]\n\n"
ERROR = sse({"error": {"message": "no", "type": "server_error", "code": None}})

# === Anthropic's answers ==========================================================

START = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5-20251001",
            "content": [],
            "usage": {
                "input_tokens": 9,
                "cache_read_input_tokens": 1,
                "cache_creation_input_tokens": 0,
                "output_tokens": 1,
            },
        },
    },
    "message_start",
)
TEXT = sse(
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hello there!"},
    },
    "content_block_delta",
)
MESSAGE_DELTA = sse(
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 16},
    },
    "message_delta",
)
STOP = sse({"type": "message_stop"}, "message_stop")
OVERLOADED = sse(
    {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, "error"
)
