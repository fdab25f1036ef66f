"""OpenAI's SDK on the other APIs, against a provider that nobody here wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.e2e.refusal import refusal
from tests.mock_provider import mock_provider
from tests.pod import KEY, OTHER_KEY, Pod, policy

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod() -> AsyncIterator[Pod]:
    """One pod for all of them; globex has few tokens."""
    with mock_provider() as port:
        content = policy(port)
        content["tenants"]["globex"]["quotas"] = [
            {"tokens_per_minute": 1_000, "capacity": 1_000}
        ]
        async with Pod.start(content) as started:
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


async def test_response(pod: Pod, client: AsyncOpenAI) -> None:
    """A response is settled as reported."""
    answer = await client.responses.create(
        model="gpt-4o", input="What is the weather in Tokyo?", max_output_tokens=100
    )

    assert answer.output_text
    assert answer.usage is not None
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert await last_settled(pod) == used


async def test_streamed_response(pod: Pod, client: AsyncOpenAI) -> None:
    """A streamed response comes whole, and is settled as its last event reports."""
    stream = await client.responses.create(
        model="gpt-4o", input="What is the weather in Tokyo?", stream=True
    )
    events = [event async for event in stream]

    assert events[-1].type == "response.completed"
    usage = events[-1].response.usage
    assert usage is not None
    assert await last_settled(pod) == (usage.input_tokens, usage.output_tokens)


async def test_embeddings(pod: Pod, client: AsyncOpenAI) -> None:
    """Embeddings are settled as reported: nothing comes out."""
    answer = await client.embeddings.create(
        model="gpt-4o", input=["The weather in Tokyo", "and in Kyoto"]
    )

    assert len(answer.data) == 2
    assert await last_settled(pod) == (answer.usage.prompt_tokens, 0)


async def test_over_the_limit(pod: Pod) -> None:
    """An app over its limit is told so as OpenAI would, and nobody is asked."""
    async with AsyncOpenAI(
        base_url=pod.url, api_key=OTHER_KEY, max_retries=0
    ) as hurried:

        async def ask() -> None:
            await hurried.responses.create(
                model="gpt-4o", input="Hi", max_output_tokens=900
            )

        refused = await refusal(ask)

    assert isinstance(refused, openai.RateLimitError)
    assert refused.code == "rate_limit_exceeded"
    assert isinstance(refused.body, dict)
    assert refused.body["tokenweir"]["limit"] == "tokens_per_minute"


async def test_work_in_the_background(client: AsyncOpenAI) -> None:
    """What would be generated unseen is refused, by the member's name."""
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="gpt-4o", input="Hi", background=True)

    assert caught.value.param == "background"
