"""Servers that speak OpenAI's API in their own way, as vLLM does."""

from __future__ import annotations

from dataclasses import replace

from tests.cases.apis import OPENAI as CHAT
from tests.cases.apis import TOLD, WORDS, Told
from tests.cases.openai_apis import COMPLETIONS
from tests.every_dialect import openai_rows as openai
from tests.every_dialect.openai_rows import HALF, SIDES
from tests.every_dialect.row import EVENTS, Row
from tests.every_dialect.speaker import VLLM

MODEL = "qwen3-8b"
CONTINUOUS = {"include_usage": True, "continuous_usage_stats": True}


def _thought(word: str, generated: int) -> bytes:
    """Return the event of a thought, which reports what there is so far."""
    usage = CHAT.usage(Told(TOLD.input, generated))
    delta = {"reasoning_content": word}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return CHAT.chunk(choices=[choice], usage=usage)


_THOUGHTS = tuple(
    _thought(word, min(number, TOLD.output)) for number, word in enumerate(WORDS, 1)
)


def _local(row: Row) -> Row:
    body = row.request.replace(b'"gpt-4o"', f'"{MODEL}"'.encode())
    return replace(row, speaker=VLLM, name=f"vllm {row.name}", request=body)


VLLM_ROWS = (
    _local(openai.CHAT_TOLD),
    _local(openai.CHAT_UNASKED),
    _local(openai.told(COMPLETIONS, "completions")),
    Row(
        "vllm continuous usage",
        VLLM,
        CHAT.path,
        CHAT.request(model=MODEL, stream_options=CONTINUOUS),
        (*_THOUGHTS, *CHAT.finish(), CHAT.report(), CHAT.end()),
        SIDES,
        streamed=True,
        passed=HALF,
        texts=WORDS[:HALF],
        seen_input=TOLD.input,
        seen_output=HALF,
        answered=EVENTS,
    ),
)
