"""An unmodified app with Google's SDK, against a provider that nobody here wrote."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from google import genai
from google.genai import errors, types

from tests.cases.apis import encoded
from tests.e2e.refusal import ROUNDS, refusal
from tests.mock_provider import aimock
from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256
from tests.scripted_upstream import ScriptedUpstream, reply

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    # The SDK's own way with aiohttp; a reason of the mock's that Google does not have.
    pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid:UserWarning"),
]

MODEL = "gemini-2.5-flash"
STORY = "Once upon a time there was a weir, and it held."
SLOW_KEY = "sk-tw-slow"
REPORTED = (21, 16)


def at_google(port: int, played_port: int) -> dict[str, Any]:
    """Return a policy: acme is free, globex has few tokens, initech few requests."""
    content = policy(port)
    google = {
        "base_url": f"http://127.0.0.1:{port}",
        "dialect": "gemini",
        "credential": "env:OPENAI_API_KEY",
    }
    content["providers"]["google"] = google
    content["providers"]["played"] = google | {
        "base_url": f"http://127.0.0.1:{played_port}"
    }
    content["models"] |= {
        MODEL: {"provider": "google", "max_output_tokens": 8192},
        "played": {"provider": "played"},
    }
    content["tenants"]["globex"]["quotas"] = [
        {"tokens_per_minute": 60_000, "capacity": 1_000}
    ]
    content["tenants"]["initech"] = {
        "keys": [{"id": "i", "sha256": sha256(SLOW_KEY)}],
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
        async with Pod.start(at_google(port, played.port)) as started:
            yield started


def client_of(pod: Pod, key: str = KEY, attempts: int = 1) -> genai.Client:
    """Return the SDK as an app makes it."""
    retries = types.HttpRetryOptions(attempts=attempts, initial_delay=1.0, jitter=0.1)
    options = types.HttpOptions(
        base_url=pod.url.removesuffix("/v1"),
        api_version="v1beta",  # what the mock has
        retry_options=retries,
        timeout=60_000,
    )
    return genai.Client(api_key=key, http_options=options)


def config(cap: int = 100) -> types.GenerateContentConfig:
    """Return what is asked beside the text."""
    return types.GenerateContentConfig(max_output_tokens=cap)


async def last_settled(pod: Pod) -> tuple[int, int]:
    """Return input and output tokens of the newest record, once nothing is held."""
    await pod.settled()
    usage = (await pod.ledger.usages())[-1]
    return usage.total_input_tokens, usage.total_output_tokens


async def test_answer(pod: Pod) -> None:
    """An answer is settled as the SDK reads its report."""
    async with client_of(pod).aio as client:
        answer = await client.models.generate_content(
            model=MODEL, contents="Tell a story.", config=config()
        )

    usage = answer.usage_metadata
    assert answer.text == STORY
    assert usage is not None
    told = usage.prompt_token_count, usage.candidates_token_count
    assert await last_settled(pod) == told == REPORTED


async def test_stream(pod: Pod) -> None:
    """A stream comes whole, piece by piece, and is settled as its end reports."""
    async with client_of(pod).aio as client:
        stream = await client.models.generate_content_stream(
            model=MODEL, contents="Tell a story.", config=config()
        )
        pieces = [piece.text or "" async for piece in stream]

    assert len(pieces) > 1
    assert "".join(pieces) == STORY
    assert await last_settled(pod) == REPORTED


async def test_tool_call(pod: Pod) -> None:
    """A function is called, and the exchange is settled."""
    weather = types.FunctionDeclaration(
        name="weather",
        description="Weather of a place",
        parameters=types.Schema(
            type=types.Type.OBJECT,
            properties={"city": types.Schema(type=types.Type.STRING)},
        ),
    )
    asked = types.GenerateContentConfig(
        max_output_tokens=100, tools=[types.Tool(function_declarations=[weather])]
    )
    async with client_of(pod).aio as client:
        answer = await client.models.generate_content(
            model=MODEL, contents="What is the weather?", config=asked
        )

    [call] = answer.function_calls or []
    assert (call.name, call.args) == ("weather", {"city": "Tokyo"})
    await pod.settled()


async def test_count_tokens(pod: Pod, played: ScriptedUpstream) -> None:
    """Counting goes where the model does, and costs no tokens."""
    played.play(reply(encoded({"totalTokens": 17})))
    async with client_of(pod).aio as client:
        counted = await client.models.count_tokens(
            model="played", contents="Tell a story."
        )

    assert counted.total_tokens == 17
    assert await last_settled(pod) == (0, 0)


async def test_refusal_says_which_limit(pod: Pod) -> None:
    """A refusal is the SDK's own ClientError, with the limit in its body."""
    async with client_of(pod, OTHER_KEY).aio as poor:
        ask = poor.models.generate_content
        error = await refusal(
            lambda: ask(model=MODEL, contents="Hi", config=config(900))
        )

    assert isinstance(error, errors.ClientError)
    assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED")
    assert "tokens-per-minute" in (error.message or "")


async def test_own_retries(pod: Pod) -> None:
    """An SDK that retries by itself succeeds, though it does not know our headers."""
    async with client_of(pod, SLOW_KEY, attempts=5).aio as slow:
        for _ in range(ROUNDS):
            if refusals(pod):
                break  # else there was room again: the machine is slow
            began = time.monotonic()
            for _ in range(2):
                answer = await slow.models.generate_content(
                    model=MODEL, contents="Hi", config=config(10)
                )
                assert answer.text == STORY
    assert refusals(pod) >= 1
    assert time.monotonic() - began > 0.5


def refusals(pod: Pod) -> int:
    """Return how often the tenant with few requests was refused."""
    lines = [line for line in pod.exchanges() if line["tenant"] == "initech"]
    return sum(line["decision"] == "refused" for line in lines)


async def test_unknown_key(pod: Pod) -> None:
    """An unknown key is told so as Google would, and not repeated."""
    async with client_of(pod, "sk-nobody").aio as nobody:
        with pytest.raises(errors.ClientError) as caught:
            await nobody.models.generate_content(model=MODEL, contents="Hi")

    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")
    assert "sk-nobody" not in str(caught.value)
