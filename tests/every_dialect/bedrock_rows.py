"""Amazon Bedrock: answers and frames of events."""

from __future__ import annotations

import base64
from typing import Any

from tests import frames
from tests.cases.apis import ANTHROPIC as MESSAGES
from tests.cases.apis import TOLD, WORDS, encoded
from tests.every_dialect.openai_rows import HALF, SIDES
from tests.every_dialect.row import Row
from tests.every_dialect.speaker import BEDROCK

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
FRAMES = ("content-type", "application/vnd.amazon.eventstream")
USAGE = {
    "inputTokens": TOLD.input,
    "outputTokens": TOLD.output,
    "totalTokens": TOLD.input + TOLD.output,
}
ASKED = encoded({"messages": [{"role": "user", "content": [{"text": "A story."}]}]})
ASKED_OF_CLAUDE = encoded(
    {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "A story."}],
    }
)
ANSWER: dict[str, Any] = {
    "output": {"message": {"role": "assistant", "content": [{"text": "".join(WORDS)}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 5},
}


def _path(operation: str) -> str:
    return f"/model/{MODEL.replace(':', '%3A')}/{operation}"


def _said(text: str) -> bytes:
    return frames.event(
        "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}
    )


def _wrapped(event: bytes) -> bytes:
    """Return one of Anthropic's *event*s as a frame."""
    _, _, told = event.partition(b"data: ")
    return frames.event("chunk", {"bytes": base64.b64encode(told.strip()).decode()})


BEDROCK_ROWS = (
    Row("converse", BEDROCK, _path("converse"), ASKED, (encoded(ANSWER),), SIDES),
    Row(
        "converse stream",
        BEDROCK,
        _path("converse-stream"),
        ASKED,
        (
            frames.event("messageStart", {"role": "assistant"}),
            *map(_said, WORDS),
            frames.event("contentBlockStop", {"contentBlockIndex": 0}),
            frames.event("messageStop", {"stopReason": "end_turn"}),
            frames.event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}}),
        ),
        SIDES,
        streamed=True,
        passed=1 + HALF,
        texts=WORDS[:HALF],
        answered=FRAMES,
    ),
    Row(
        "invoke",
        BEDROCK,
        _path("invoke"),
        ASKED_OF_CLAUDE,
        (MESSAGES.reply("".join(WORDS)),),
        SIDES,
    ),
    Row(
        "invoke stream",
        BEDROCK,
        _path("invoke-with-response-stream"),
        ASKED_OF_CLAUDE,
        (
            *map(_wrapped, MESSAGES.opening()),
            *(_wrapped(MESSAGES.delta(word)) for word in WORDS),
            *map(_wrapped, MESSAGES.finish()),
            _wrapped(MESSAGES.report()),
            _wrapped(MESSAGES.end()),
        ),
        SIDES,
        streamed=True,
        passed=len(MESSAGES.opening()) + HALF,
        texts=WORDS[:HALF],
        seen_input=TOLD.input,
        answered=FRAMES,
    ),
    Row(
        "bedrock count-tokens",
        BEDROCK,
        _path("count-tokens"),
        encoded({"input": {"converse": {"messages": []}}}),
        (encoded({"inputTokens": 11}),),
        (0, 0),
        costs_tokens=False,
    ),
)
