"""An unmodified app with OpenAI's SDK, against a provider that nobody here wrote."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.e2e.refusal import ROUNDS, refusal
from tests.mock_provider import mock_provider
from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ASKED: list[ChatCompletionMessageParam] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "What is the weather in Tokyo?"},
]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a place",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
SLOW_KEY = "sk-tw-slow"


def limits(port: int) -> dict[str, Any]:
    """Return a policy: acme is free, globex has few tokens, initech few requests."""
    content = policy(port)
    content["tenants"]["globex"]["quotas"] = [
        {"tokens_per_minute": 60_000, "capacity": 1_000}
    ]
    content["tenants"]["initech"] = {
        "keys": [{"id": "i", "sha256": sha256(SLOW_KEY)}],
        "quotas": [{"requests_per_minute": 60, "capacity": 1}],
    }
    return content


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod() -> AsyncIterator[Pod]:
    """One pod for all of them."""
    with mock_provider() as port:
        async with Pod.start(limits(port)) as started:
            yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(pod: Pod) -> AsyncIterator[AsyncOpenAI]:
    """The SDK as an app makes it."""
    async with AsyncOpenAI(base_url=pod.url, api_key=KEY) as made:
        yield made


async def last_settled(pod: Pod, tenant: str = "acme") -> tuple[int, int]:
    """Return input and output tokens of the newest record, once nothing is held."""
    await pod.settled()
    usage = (await pod.ledger.usages(tenant))[-1]
    return usage.total_input_tokens, usage.total_output_tokens


async def test_answer(pod: Pod, client: AsyncOpenAI) -> None:
    """A plain answer is settled as reported, and our limits are in its headers."""
    raw = await client.chat.completions.with_raw_response.create(
        model="gpt-4o", messages=ASKED, max_completion_tokens=100
    )
    answer = raw.parse()

    assert answer.choices[0].message.content
    assert answer.usage is not None
    told = answer.usage.prompt_tokens, answer.usage.completion_tokens
    assert await last_settled(pod) == told


async def test_sync_client(pod: Pod) -> None:
    """The synchronous client works as well."""

    def call() -> openai.types.CompletionUsage | None:
        with OpenAI(base_url=pod.url, api_key=KEY) as made:
            return made.chat.completions.create(
                model="gpt-4o-mini", messages=ASKED, max_tokens=50
            ).usage

    usage = await asyncio.to_thread(call)

    assert usage is not None
    told = usage.prompt_tokens, usage.completion_tokens
    assert await last_settled(pod) == told


async def test_stream_of_an_app_that_did_not_ask_for_usage(
    pod: Pod, client: AsyncOpenAI
) -> None:
    """It sees no event without choices, and is settled as reported all the same."""
    stream = await client.chat.completions.create(
        model="gpt-4o", messages=ASKED, stream=True, max_tokens=100
    )
    events = [event async for event in stream]

    assert all(event.choices for event in events)
    text = "".join(event.choices[0].delta.content or "" for event in events)
    assert text
    assert events[-1].choices[0].finish_reason == "stop"
    await pod.settled()
    record = (await pod.ledger.records())[-1]
    assert record["source"] == "reported"
    assert int(record["output_tokens"]) > 0
    assert record["first_token_ms"] != ""


async def test_stream_of_an_app_that_asked_for_usage(
    pod: Pod, client: AsyncOpenAI
) -> None:
    """It gets the usage event, and the ledger has the same figures."""
    stream = await client.chat.completions.create(
        model="gpt-4o",
        messages=ASKED,
        stream=True,
        max_tokens=100,
        stream_options={"include_usage": True},
    )
    events = [event async for event in stream]
    usage = events[-1].usage

    assert events[-1].choices == []
    assert usage is not None
    told = usage.prompt_tokens, usage.completion_tokens
    assert await last_settled(pod) == told


async def test_tool_call(pod: Pod, client: AsyncOpenAI) -> None:
    """A tool is called, its result goes back, and both exchanges are settled."""
    first = await client.chat.completions.create(
        model="gpt-4o", messages=ASKED, tools=[WEATHER], max_tokens=100
    )
    assert first.choices[0].message.tool_calls
    call = first.choices[0].message.tool_calls[0]
    before = await last_settled(pod)
    assert first.usage is not None
    assert before == (first.usage.prompt_tokens, first.usage.completion_tokens)

    messages: list[Any] = [
        *ASKED,
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": '{"sky": "clear"}'},
    ]
    second = await client.chat.completions.create(
        model="gpt-4o", messages=messages, tools=[WEATHER], max_tokens=100
    )
    assert second.choices[0].message.content
    assert second.usage is not None
    told = second.usage.prompt_tokens, second.usage.completion_tokens
    assert await last_settled(pod) == told


async def test_models(client: AsyncOpenAI) -> None:
    """A path without a prompt passes."""
    names = [model.id async for model in client.models.list()]

    assert "gpt-4o" in names


async def test_refusal_says_which_limit(pod: Pod) -> None:
    """A refusal is the SDK's own RateLimitError, with the limit in its body."""
    async with AsyncOpenAI(base_url=pod.url, api_key=OTHER_KEY, max_retries=0) as poor:
        ask = poor.chat.completions.create
        error = await refusal(
            lambda: ask(model="gpt-4o", messages=ASKED, max_tokens=900)
        )

    assert isinstance(error, openai.RateLimitError)
    assert error.code == "rate_limit_exceeded"
    assert error.type == "tokens"
    assert isinstance(error.body, dict)
    told = error.body["tokenweir"]
    assert told["limit"] == "tokens_per_minute"
    assert told["partition"] == "tenant=globex"
    assert told["retryable"] is True
    wait_ms = int(error.response.headers["retry-after-ms"])
    assert told["retry_after_ms"] == wait_ms
    assert 0 < wait_ms <= 1_000
    assert error.response.headers["x-tokenweir-refusal"] == "quota_exhausted"


async def test_own_retries_obey_our_headers(pod: Pod) -> None:
    """An SDK that retries waits as told, and then succeeds at the first attempt."""
    async with AsyncOpenAI(base_url=pod.url, api_key=SLOW_KEY, max_retries=2) as slow:
        ask = slow.chat.completions.create
        seconds = 0.0
        for _ in range(ROUNDS):
            if refusals(pod):
                break  # else there was room again: the machine is slow
            began = time.monotonic()
            for _ in range(2):
                await ask(model="gpt-4o", messages=ASKED, max_tokens=10)
            seconds = time.monotonic() - began

    assert seconds > 0.5
    assert refusals(pod) == 1


def refusals(pod: Pod) -> int:
    """Return how often the tenant with few requests was refused."""
    lines = [line for line in pod.exchanges() if line["tenant"] == "initech"]
    return sum(line["decision"] == "refused" for line in lines)


async def test_more_than_the_bucket_can_hold(pod: Pod) -> None:
    """What no wait can satisfy is a BadRequestError, which the SDK does not retry."""
    async with AsyncOpenAI(base_url=pod.url, api_key=OTHER_KEY) as poor:
        with pytest.raises(openai.BadRequestError) as refused:
            await poor.chat.completions.create(
                model="gpt-4o", messages=ASKED, max_tokens=5_000
            )

    assert refused.value.code == "request_exceeds_limit"


async def test_unknown_key(pod: Pod) -> None:
    """An unknown key is an AuthenticationError."""
    async with AsyncOpenAI(base_url=pod.url, api_key="sk-nobody") as nobody:
        with pytest.raises(openai.AuthenticationError) as refused:
            await nobody.chat.completions.create(model="gpt-4o", messages=ASKED)

    assert refused.value.code == "invalid_api_key"
    assert "sk-nobody" not in refused.value.response.text
