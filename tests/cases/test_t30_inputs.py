"""T30: prompts that are token ids, lists, or lists of lists, are counted exactly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cases.apis import Told
from tests.cases.openai_apis import COMPLETIONS, EMBEDDINGS
from tests.cases.stage import Stage
from tests.scripted_upstream import Hold, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# The input, and its tokens.
INPUTS: dict[str, tuple[Any, int]] = {
    "lists of ids": ([[1, 2, 3], [4, 5]], 5),
    "ids": ([9906, 1917], 2),
    "texts": (["a", "b"], 2),
    "nothing": ([], 1),
    "mixed": (["a", [1]], 2),
    "2,049 texts": (["a"] * 2_049, 2_049),
    "a negative id": ([-1, 5], 2),
}


@pytest.mark.parametrize("name", INPUTS)
async def test_t30_embeddings(stage: Stage, name: str) -> None:
    """
    Ids count one each, and what is wrong with them is the provider's to say.

    kubernetes-sigs/gateway-api-inference-extension#2856, tensorzero/tensorzero#4334
    """
    value, tokens = INPUTS[name]
    gate = asyncio.Event()
    stage.upstream.play(Hold(gate), reply(EMBEDDINGS.reply("AAAA", Told(8, 0))))
    call = await stage.begin(EMBEDDINGS, EMBEDDINGS.request(input=value))
    reserved = await stage.reserved(call.request_id)
    gate.set()
    answer = await call.reply()
    settled = await stage.settled(call.request_id)

    assert reserved == (tokens, 0)
    assert answer.status == 200
    assert settled.sides == (8, 0)
    assert settled.source == "reported"


@pytest.mark.parametrize("name", INPUTS)
async def test_t30_completions(stage: Stage, name: str) -> None:
    """
    Each of several prompts is answered as often as it says, and reserved so.

    envoyproxy/ai-gateway#1404
    """
    value, tokens = INPUTS[name]
    answers = {"lists of ids": 2, "texts": 2, "mixed": 2, "2,049 texts": 2_049}
    body = COMPLETIONS.request(stream=False, prompt=value, max_tokens=10, best_of=3)

    held = await stage.reserves(COMPLETIONS, body)

    assert held == (tokens, 30 * answers.get(name, 1))


async def test_t30_the_providers_no(stage: Stage) -> None:
    """
    Embeddings that the provider refuses cost nothing. envoyproxy/ai-gateway#1404
    """
    error = b'{"error": {"message": "Bad.", "type": "invalid_request_error"}}'
    answer, settled = await stage.ask(
        EMBEDDINGS,
        [reply(error, status="400 Bad Request")],
        EMBEDDINGS.request(input=[]),
    )

    assert (answer.status, answer.body) == (400, error)
    assert settled.sides == (0, 0)
