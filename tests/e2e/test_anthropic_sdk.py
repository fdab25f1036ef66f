"""An unmodified app with Anthropic's SDK, against a provider that nobody here wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam, ToolParam

from tests.e2e.refusal import refusal
from tests.mock_provider import mock_provider
from tests.pod import KEY, OTHER_KEY, Pod, policy

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MODEL = "claude-sonnet-5"
ASKED: list[MessageParam] = [{"role": "user", "content": "What is the weather?"}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Weather of a place",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def behind_a_prefix(port: int) -> dict[str, Any]:
    """Return a policy whose provider has a path prefix; globex has few tokens."""
    content = policy(port)
    content["providers"]["anthropic"]["base_url"] += "/anthropic"
    content["tenants"]["globex"]["quotas"] = [
        {"output_tokens_per_minute": 6_000, "capacity": 100}
    ]
    return content


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod() -> AsyncIterator[Pod]:
    """One pod for all of them."""
    with mock_provider() as port:
        async with Pod.start(behind_a_prefix(port)) as started:
            yield started


def address(pod: Pod) -> str:
    """Return what Anthropic's SDK takes as its base URL."""
    return pod.url.removesuffix("/v1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(pod: Pod) -> AsyncIterator[AsyncAnthropic]:
    """The SDK as an app makes it."""
    async with AsyncAnthropic(base_url=address(pod), api_key=KEY) as made:
        yield made


async def last_settled(pod: Pod) -> tuple[int, int]:
    """Return input and output tokens of the newest record, once nothing is held."""
    await pod.settled()
    usage = (await pod.ledger.usages())[-1]
    return usage.total_input_tokens, usage.total_output_tokens


async def test_answer(pod: Pod, client: AsyncAnthropic) -> None:
    """A plain answer is settled as reported."""
    answer = await client.messages.create(
        model=MODEL, max_tokens=100, system="Be brief.", messages=ASKED
    )

    assert answer.content
    told = answer.usage.input_tokens, answer.usage.output_tokens
    assert await last_settled(pod) == told


async def test_sync_client(pod: Pod) -> None:
    """The synchronous client works as well."""

    def call() -> anthropic.types.Usage:
        with Anthropic(base_url=address(pod), api_key=KEY) as made:
            return made.messages.create(
                model=MODEL, max_tokens=100, messages=ASKED
            ).usage

    usage = await asyncio.to_thread(call)

    assert await last_settled(pod) == (usage.input_tokens, usage.output_tokens)


async def test_stream(pod: Pod, client: AsyncAnthropic) -> None:
    """A stream arrives whole and is settled as reported."""
    async with client.messages.stream(
        model=MODEL, max_tokens=100, messages=ASKED
    ) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()

    assert text
    told = final.usage.input_tokens, final.usage.output_tokens
    assert await last_settled(pod) == told
    assert (await pod.ledger.records())[-1]["source"] == "reported"


async def test_tool_call(pod: Pod, client: AsyncAnthropic) -> None:
    """A tool is called in a stream, its result goes back, and both are settled."""
    async with client.messages.stream(
        model=MODEL, max_tokens=100, messages=ASKED, tools=[WEATHER]
    ) as stream:
        first = await stream.get_final_message()
    call = next(block for block in first.content if block.type == "tool_use")
    told = first.usage.input_tokens, first.usage.output_tokens
    assert await last_settled(pod) == told

    called: Any = {
        "role": "assistant",
        "content": [block.model_dump() for block in first.content],
    }
    answered: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "clear"}
    result: list[MessageParam] = [
        *ASKED,
        called,
        {"role": "user", "content": [answered]},
    ]
    second = await client.messages.create(
        model=MODEL, max_tokens=100, messages=result, tools=[WEATHER]
    )
    told = second.usage.input_tokens, second.usage.output_tokens
    assert await last_settled(pod) == told


async def test_refusal_says_which_limit(pod: Pod) -> None:
    """A refusal is the SDK's own RateLimitError, in Anthropic's shape."""
    async with AsyncAnthropic(
        base_url=address(pod), api_key=OTHER_KEY, max_retries=0
    ) as poor:
        ask = poor.messages.create
        error = await refusal(lambda: ask(model=MODEL, max_tokens=100, messages=ASKED))

    assert isinstance(error, anthropic.RateLimitError)
    body = error.body

    assert isinstance(body, dict)
    assert body["type"] == "error"
    assert body["error"]["type"] == "rate_limit_error"
    assert body["error"]["tokenweir"]["limit"] == "output_tokens_per_minute"
    assert int(error.response.headers["retry-after"]) >= 1


async def test_own_retries_obey_our_headers(pod: Pod) -> None:
    """An SDK that retries waits as told, and succeeds."""
    async with AsyncAnthropic(base_url=address(pod), api_key=OTHER_KEY) as poor:
        for _ in range(3):
            answer = await poor.messages.create(
                model=MODEL, max_tokens=80, messages=ASKED
            )
            assert answer.content


async def test_unknown_key(pod: Pod) -> None:
    """An unknown key is an AuthenticationError, in Anthropic's shape."""
    async with AsyncAnthropic(base_url=address(pod), api_key="nobody") as unknown:
        with pytest.raises(anthropic.AuthenticationError) as refused:
            await unknown.messages.create(model=MODEL, max_tokens=10, messages=ASKED)

    assert isinstance(refused.value.body, dict)
    assert refused.value.body["error"]["type"] == "authentication_error"


async def test_model_of_another_api(client: AsyncAnthropic) -> None:
    """A model whose provider speaks another API is told so."""
    with pytest.raises(anthropic.BadRequestError) as refused:
        await client.messages.create(model="gpt-4o", max_tokens=10, messages=ASKED)

    assert "openai" in refused.value.message
