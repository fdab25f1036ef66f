"""T31: no text is free because it is hard to count, and none holds up the others."""

from __future__ import annotations

import asyncio
from statistics import median
from typing import Any

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, Api, both_apis
from tests.cases.app import Leave, ask, ask_all, request
from tests.cases.meanwhile import alone, beside, bound_seconds
from tests.cases.stage import STREAM_HEAD, Stage
from tests.pod import policy, until
from tests.scripted_upstream import End, chunk, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MEGABYTE = 1_000_000
LONG = {
    "carets": "^" * MEGABYTE,
    "spaces and a letter": " " * MEGABYTE + "x",
    "spaces": " " * MEGABYTE,
    "letters": "a" * MEGABYTE,
    "capitals": "A" * MEGABYTE,
    "line ends": "\n" * MEGABYTE,
    "tabs": "\t" * MEGABYTE,
    "digits": "7" * MEGABYTE,
    "apostrophes": "'" * MEGABYTE,
    "controls": "\x01" * (MEGABYTE // 2),
    "pictographs": "\U0001f600" * (MEGABYTE // 4),
    "families": "\U0001f469\u200d" * (MEGABYTE // 7),
    "accents": "e\u0301" * (MEGABYTE // 3),
    "accents alone": "\u0301" * (MEGABYTE // 2),
    "han": "\u6c34" * (MEGABYTE // 3),
    "private": "\ue000" * (MEGABYTE // 3),
    "specials": "<|endoftext|>" * (MEGABYTE // 13),
    "alternating": "a^" * (MEGABYTE // 2),
    "contractions": "'s'll've" * (MEGABYTE // 8),
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * (MEGABYTE // 35),
}


def saying(api: Api, text: str) -> bytes:
    """Return a request that says *text*."""
    messages = [{"role": "user", "content": text}]
    return api.request(stream=False, messages=messages)


@pytest.mark.parametrize("name", LONG)
async def test_t31_long_runs(stage: Stage, name: str) -> None:
    """
    A megabyte of any one thing is admitted, and reserves a token for eight bytes.

    openai/tiktoken#195, openai/tiktoken#245, PostHog/posthog#45116
    """
    text = LONG[name]

    input_tokens, _ = await stage.reserves(OPENAI, saying(OPENAI, text))

    assert input_tokens >= len(text.encode()) // 8


@pytest.mark.parametrize("name", ["carets", "spaces and a letter", "han", "specials"])
async def test_t31_long_runs_for_other_tokenizers(stage: Stage, name: str) -> None:
    """
    The same holds for models that are counted by ratio. openai/tiktoken#195
    """
    text = LONG[name]

    input_tokens, _ = await stage.reserves(ANTHROPIC, saying(ANTHROPIC, text))

    assert input_tokens >= len(text.encode()) // 8


SPECIAL = ["<|endoftext|>", "<|im_start|>system", "<|endofprompt|>", "[INST]", "</s>"]


@both_apis
@pytest.mark.parametrize("text", SPECIAL)
async def test_t31_special_tokens_are_text(stage: Stage, api: Api, text: str) -> None:
    """
    What an app says is text, also where it looks like a tokenizer's own mark.

    openai/tiktoken#590, RooCodeInc/Roo-Code#7539
    """
    plain, _ = await stage.reserves(api, saying(api, "x"))

    marked, _ = await stage.reserves(api, saying(api, text))

    assert plain + 2 <= marked <= plain + 30


PLACES: dict[str, dict[str, Any]] = {
    "system": {"messages": [{"role": "system", "content": LONG["carets"]}]},
    "name": {"messages": [{"role": "user", "content": "x", "name": LONG["carets"]}]},
    "role": {"messages": [{"role": LONG["carets"], "content": "x"}]},
    "tool": {
        "tools": [
            {
                "type": "function",
                "function": {"name": "x", "description": LONG["carets"]},
            }
        ]
    },
    "schema": {
        "tools": [
            {
                "type": "function",
                "function": {"name": "x", "parameters": {"enum": [LONG["carets"]]}},
            }
        ]
    },
    "tool choice": {"tool_choice": {"type": "function", "name": LONG["carets"]}},
    "short pieces": {
        "messages": [{"role": "user", "content": "^" * 1_000} for _ in range(1_000)]
    },
}


@pytest.mark.parametrize("place", PLACES)
async def test_t31_wherever_it_stands(stage: Stage, place: str) -> None:
    """
    A long run counts in whichever part of the request. PostHog/posthog#45116
    """
    body = OPENAI.request(stream=False, **PLACES[place])

    input_tokens, _ = await stage.reserves(OPENAI, body)

    assert input_tokens >= MEGABYTE // 8


@pytest.mark.parametrize("name", ["letters", "carets", "spaces and a letter"])
async def test_t31_others_do_not_wait(stage: Stage, name: str) -> None:
    """
    While sixteen such texts are counted, small requests are answered within 200 ms.

    openai/tiktoken#195, PostHog/posthog#45116
    """
    stage.upstream.play(reply(OPENAI.reply("Done.")))
    large = [request(OPENAI.path, saying(OPENAI, LONG[name])) for _ in range(16)]
    await stage.watch()

    async def ask_small() -> None:
        small = request(OPENAI.path, saying(OPENAI, "x"))
        assert (await ask(stage.pod.port, small)).status == 200

    control = await alone(ask_small)
    crowd = asyncio.create_task(ask_all(stage.pod.port, large))
    waits = await beside(crowd, ask_small)
    await until(stage.pod.ledger.nothing_held)

    assert {answer.status for answer in await crowd} == {200}
    # 200 ms, where the same requests take no time worth speaking of when alone.
    assert median(waits) < bound_seconds(control, 0.2), (control, waits)


# Bytes that a token of it has at most: runs of blanks are cheap indeed.
GENERATED = {"letters": 8, "carets": 16, "spaces and a letter": 200, "han": 8}


@both_apis
@pytest.mark.parametrize("name", GENERATED)
async def test_t31_generated_texts(stage: Stage, api: Api, name: str) -> None:
    """
    What passed of an answer that was cut is counted, however odd it is.

    openai/tiktoken#195
    """
    text = LONG[name]
    step = len(text) // 100
    words = [text[at : at + step] for at in range(0, len(text), step)]
    stage.upstream.play(
        STREAM_HEAD, *(chunk(api.delta(word)) for word in words), End.STALL
    )

    call = await stage.begin(api, api.request(max_tokens=MEGABYTE))
    await call.until_length(sum(len(api.delta(word)) for word in words))
    call.leave(Leave.CLOSE)
    settled = await stage.settled(call.request_id)

    most = policy(0)["models"][api.model]["max_output_tokens"]
    least = min(most, len(text.encode()) // GENERATED[name])
    assert settled.usage.total_output_tokens >= least
    assert settled.outcome == "cut"
