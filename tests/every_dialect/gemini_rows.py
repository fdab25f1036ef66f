"""Google's Gemini API."""

from __future__ import annotations

from typing import Any

from tests.cases.apis import TOLD, WORDS, data, encoded
from tests.every_dialect.openai_rows import HALF, SIDES
from tests.every_dialect.row import EVENTS, Row
from tests.every_dialect.speaker import GOOGLE

MODEL = "gemini-2.5-flash"
ASKED = encoded({"contents": [{"role": "user", "parts": [{"text": "A story."}]}]})
EMBED = {"content": {"parts": [{"text": "A weir."}]}}
# Thoughts are no part of the candidates' tokens.
USAGE = {
    "promptTokenCount": TOLD.input,
    "candidatesTokenCount": TOLD.output - 2,
    "thoughtsTokenCount": 2,
    "totalTokenCount": TOLD.input + TOLD.output,
}


def piece(text: str, *, last: bool = False) -> dict[str, Any]:
    """Return a piece of an answer; the *last* one reports all."""
    content = {"role": "model", "parts": [{"text": text}]}
    candidate: dict[str, Any] = {"content": content, "index": 0}
    told: dict[str, Any] = {"promptTokenCount": TOLD.input}
    if last:
        candidate["finishReason"] = "STOP"
        told = USAGE
    return {"candidates": [candidate], "usageMetadata": told, "modelVersion": MODEL}


PIECES = [piece(word, last=word is WORDS[-1]) for word in WORDS]
_ARRAY = [
    (b"[" if not number else b",\r\n") + encoded(each)
    for number, each in enumerate(PIECES)
]


def _path(method: str) -> str:
    return f"/v1beta/models/{MODEL}:{method}"


GEMINI_ROWS = (
    Row(
        "gemini",
        GOOGLE,
        _path("generateContent"),
        ASKED,
        (encoded(piece("".join(WORDS), last=True)),),
        SIDES,
    ),
    Row(
        "gemini stream",
        GOOGLE,
        _path("streamGenerateContent?alt=sse"),
        ASKED,
        tuple(map(data, PIECES)),
        SIDES,
        streamed=True,
        passed=HALF,
        texts=WORDS[:HALF],
        seen_input=TOLD.input,
        answered=EVENTS,
    ),
    Row(
        "gemini array",
        GOOGLE,
        _path("streamGenerateContent"),
        ASKED,
        (*_ARRAY, b"]"),
        SIDES,
        streamed=True,
        passed=HALF,
        texts=WORDS[:HALF],
        seen_input=TOLD.input,
    ),
    Row(
        "gemini embedContent",
        GOOGLE,
        _path("embedContent"),
        encoded(EMBED),
        (encoded({"embedding": {"values": [0.1]}}),),
        None,
        generates=False,
    ),
    Row(
        "gemini batchEmbedContents",
        GOOGLE,
        _path("batchEmbedContents"),
        encoded({"requests": [EMBED | {"model": f"models/{MODEL}"}]}),
        (encoded({"embeddings": [{"values": [0.1]}]}),),
        None,
        generates=False,
    ),
    Row(
        "gemini countTokens",
        GOOGLE,
        _path("countTokens"),
        ASKED,
        (encoded({"totalTokens": 11}),),
        (0, 0),
        costs_tokens=False,
    ),
)
