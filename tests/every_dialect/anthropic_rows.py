"""Anthropic's APIs."""

from __future__ import annotations

from tests.cases.apis import ANTHROPIC as MESSAGES
from tests.cases.apis import TOLD, WORDS, encoded, story
from tests.every_dialect.openai_rows import HALF, SIDES
from tests.every_dialect.row import EVENTS, Row
from tests.every_dialect.speaker import ANTHROPIC

BATCH = {"requests": [{"custom_id": "a", "params": {"model": MESSAGES.model}}]}
CREATED = {"id": "msgbatch_1", "type": "message_batch", "request_counts": {}}

ANTHROPIC_ROWS = (
    Row(
        "messages",
        ANTHROPIC,
        MESSAGES.path,
        MESSAGES.request(stream=False),
        (MESSAGES.reply("".join(WORDS)),),
        SIDES,
    ),
    Row(
        "messages stream",
        ANTHROPIC,
        MESSAGES.path,
        MESSAGES.request(),
        tuple(story(MESSAGES)),
        SIDES,
        streamed=True,
        passed=len(MESSAGES.opening()) + HALF,
        texts=WORDS[:HALF],
        seen_input=TOLD.input,
        answered=EVENTS,
    ),
    Row(
        "count_tokens",
        ANTHROPIC,
        f"{MESSAGES.path}/count_tokens?beta=true",
        MESSAGES.request(stream=False),
        (encoded({"input_tokens": 11}),),
        (0, 0),
        costs_tokens=False,
    ),
    Row(
        "batches",
        ANTHROPIC,
        f"{MESSAGES.path}/batches",
        encoded(BATCH),
        (encoded(CREATED),),
        (0, 0),
        costs_tokens=False,
        is_read=False,
    ),
)
