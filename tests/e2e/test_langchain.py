"""Unmodified apps with LangChain, on OpenAI's API and on Anthropic's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx
import openai
import pytest
import pytest_asyncio
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr

from tests.cases.apis import encoded
from tests.e2e.refusal import ROUNDS, refusal
from tests.mock_provider import aimock
from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256
from tests.scripted_upstream import ScriptedUpstream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

STORY = "Once upon a time there was a weir, and it held."
SLOW_KEYS = {"openai": "sk-tw-s1", "anthropic": "sk-tw-s2"}
both = pytest.mark.parametrize("package", ["openai", "anthropic"])


@tool
def weather(city: str) -> str:
    """Tell the weather of a place."""
    return f"It is clear in {city}."


def limits(port: int, played_port: int) -> dict[str, Any]:
    """Return a policy: acme is free, globex has few tokens, others few requests."""
    content = policy(port)
    content["providers"]["played"] = content["providers"]["openai"] | {
        "base_url": f"http://127.0.0.1:{played_port}"
    }
    content["models"]["text-embedding-3-small"] = {"provider": "played"}
    content["tenants"]["globex"]["quotas"] = [
        {"tokens_per_minute": 60_000, "capacity": 1_000}
    ]
    for name, key in SLOW_KEYS.items():
        content["tenants"][name] = {
            "keys": [{"id": name, "sha256": sha256(key)}],
            "quotas": [{"requests_per_minute": 60, "capacity": 1}],
        }
    return content


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played() -> AsyncIterator[ScriptedUpstream]:
    """A provider that plays scripts."""
    async with ScriptedUpstream() as upstream:
        yield upstream


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(played: ScriptedUpstream) -> AsyncIterator[Pod]:
    """One pod for all of them."""
    with aimock() as port:
        async with Pod.start(limits(port, played.port)) as started:
            yield started


@dataclass
class Models:
    """Makes models as apps do, and closes what LangChain leaves open."""

    pod: Pod
    made: list[BaseChatModel] = field(default_factory=list)

    def __call__(
        self, package: str, key: str = KEY, cap: int = 100, retries: int = 0
    ) -> BaseChatModel:
        """Return a model of *package*."""
        more: dict[str, Any] = {"api_key": SecretStr(key), "max_retries": retries}
        if package == "openai":
            more |= {"base_url": self.pod.url, "max_completion_tokens": cap}
            # At a base URL that is not OpenAI's it does not ask by itself.
            more["stream_usage"] = True
            made: BaseChatModel = ChatOpenAI(model="gpt-4o", **more)
        else:
            more |= {"base_url": self.pod.url.removesuffix("/v1"), "max_tokens": cap}
            made = ChatAnthropic(model_name="claude-sonnet-5", **more)
        self.made.append(made)
        return made

    async def close(self) -> None:
        """Close all connections."""
        for model in self.made:
            if isinstance(model, ChatOpenAI):
                model.root_client.close()
                await model.root_async_client.close()
            elif isinstance(model, ChatAnthropic):
                model._client.close()
                await model._async_client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(pod: Pod) -> AsyncIterator[Models]:
    """Make models for the pod."""
    made = Models(pod)
    yield made
    await made.close()


async def settled(pod: Pod) -> list[tuple[int, int]]:
    """Return both sides of each record, once nothing is held."""
    await pod.settled()
    usages = await pod.ledger.usages()
    return [(used.total_input_tokens, used.total_output_tokens) for used in usages]


def told(answer: Any) -> tuple[int, int]:
    """Return both sides as LangChain tells them."""
    usage = answer.usage_metadata
    return usage["input_tokens"], usage["output_tokens"]


@both
async def test_invoke(pod: Pod, models: Models, package: str) -> None:
    """`ainvoke` gets its answer, which is settled as LangChain reads its report."""
    answer = await models(package).ainvoke("Tell a story.")

    assert answer.text == STORY
    assert (await settled(pod))[-1] == told(answer) == (21, 16)


@both
async def test_invoke_without_a_loop(pod: Pod, models: Models, package: str) -> None:
    """`invoke` does the same from a thread."""
    answer = await asyncio.to_thread(models(package).invoke, "Tell a story.")

    assert answer.text == STORY
    assert (await settled(pod))[-1] == (21, 16)


@both
async def test_stream(pod: Pod, models: Models, package: str) -> None:
    """A stream comes in pieces, and its usage is what the ledger has."""
    whole: AIMessageChunk | None = None
    pieces = 0
    async for piece in models(package).astream("Tell a story."):
        assert isinstance(piece, AIMessageChunk)
        whole = piece if whole is None else whole + piece
        pieces += 1

    assert whole is not None
    assert pieces > 2
    assert whole.text == STORY
    assert (await settled(pod))[-1] == (21, 16)
    # Of Anthropic's input LangChain reads what the mock leaves out of its last event.
    assert told(whole) == ((21, 16) if package == "openai" else (0, 16))


@both
async def test_batch(pod: Pod, models: Models, package: str) -> None:
    """Several calls at once are settled one by one."""
    before = len(await settled(pod))
    answers = await models(package).abatch(["Tell a story."] * 4)

    assert [answer.text for answer in answers] == [STORY] * 4
    assert (await settled(pod))[before:] == [(21, 16)] * 4


@both
async def test_a_tool_and_its_result(pod: Pod, models: Models, package: str) -> None:
    """A bound tool is called, its result goes back, and both exchanges are settled."""
    model = models(package).bind_tools([weather])
    asked = HumanMessage("What is the weather?")
    first = await model.ainvoke([asked])
    [call] = first.tool_calls
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    second = await model.ainvoke([asked, first, result])

    assert call["args"] == {"city": "Tokyo"}
    assert second.text == "It is clear in Tokyo."
    assert (await settled(pod))[-2:] == [told(first), told(second)]


async def test_embeddings(pod: Pod, played: ScriptedUpstream) -> None:
    """Embeddings are settled as reported: nothing comes out."""
    vectors = [{"embedding": [0.5], "index": 0}, {"embedding": [0.7], "index": 1}]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    played.play(reply(encoded({"data": vectors, "usage": usage})))
    async with httpx.AsyncClient() as client:
        model = OpenAIEmbeddings(
            model="text-embedding-3-small",
            base_url=pod.url,
            api_key=SecretStr(KEY),
            check_embedding_ctx_length=False,
            http_async_client=client,
        )
        found = await model.aembed_documents(["The weather in Tokyo", "and in Kyoto"])

    assert found == [[0.5], [0.7]]
    assert (await settled(pod))[-1] == (9, 0)


@both
async def test_a_refusal_says_which_limit(
    pod: Pod, models: Models, package: str
) -> None:
    """A refusal is the SDK's own RateLimitError, with the limit in its body."""
    model = models(package, OTHER_KEY, cap=900)
    error = await refusal(lambda: model.ainvoke("Hi"))

    assert isinstance(error, openai.RateLimitError | anthropic.RateLimitError)
    assert error.response.headers["x-tokenweir-refusal"] == "quota_exhausted"
    body = error.response.json()["error"]["tokenweir"]
    assert body["limit"] == "tokens_per_minute"
    assert int(error.response.headers["retry-after-ms"]) == body["retry_after_ms"]


@both
async def test_own_retries_obey_our_headers(
    pod: Pod, models: Models, package: str
) -> None:
    """A model that may retry once waits as told, and then succeeds."""
    model = models(package, SLOW_KEYS[package], retries=1)
    for _ in range(ROUNDS):
        before = refusals(pod, package)
        assert (await model.ainvoke("Tell a story.")).text == STORY
        if refusals(pod, package) > before:
            return
    raise AssertionError("there was always room: nothing was tried")


def refusals(pod: Pod, tenant: str) -> int:
    """Return how often *tenant* was refused."""
    lines = [line for line in pod.exchanges() if line["tenant"] == tenant]
    return sum(line["decision"] == "refused" for line in lines)
