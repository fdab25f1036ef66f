"""
The same exchanges against npm's aimock, and beside it against llmock.

What is settled is what each of them reports, and what each of them got is what the app
sent, but for its key.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.mock_provider import aimock, mock_provider
from tests.pod import CREDENTIAL, KEY, Pod, policy

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

Sides = tuple[int, int]
MOCKS = ["aimock", "llmock"]
QUESTION = "Tell a story of a weir."


def of_openai(usage: Mapping[str, Any]) -> Sides:
    """Read the usage of chat completions."""
    return usage["prompt_tokens"], usage["completion_tokens"]


def of_newer_apis(usage: Mapping[str, Any]) -> Sides:
    """Read the usage of responses and of messages."""
    return usage["input_tokens"], usage["output_tokens"]


def of_google(usage: Mapping[str, Any]) -> Sides:
    """Read the usage of Gemini's API."""
    return usage["promptTokenCount"], usage["candidatesTokenCount"]


@dataclass(frozen=True)
class Exchange:
    """
    Attributes:
        name: Of the API.
        model: Which is asked.
        path: Of the API.
        body: What is sent but for the model.
        stream: Another path for streams; None: `body` says so.
        sides_of: Reads a usage object.
    """

    name: str
    model: str
    path: str
    body: Mapping[str, Any]
    sides_of: Callable[[Mapping[str, Any]], Sides]
    stream: str | None = None


_MESSAGES = [{"role": "user", "content": QUESTION}]
EXCHANGES = [
    Exchange(
        "chat",
        "gpt-4o",
        "/v1/chat/completions",
        {"messages": _MESSAGES, "max_tokens": 100},
        of_openai,
    ),
    Exchange(
        "responses",
        "gpt-4.1",
        "/v1/responses",
        {"input": QUESTION, "max_output_tokens": 100},
        of_newer_apis,
    ),
    Exchange(
        "messages",
        "claude-sonnet-5",
        "/v1/messages",
        {"messages": _MESSAGES, "max_tokens": 100},
        of_newer_apis,
    ),
    Exchange(
        "gemini",
        "gemini-2.5-flash",
        "/v1beta/models/{model}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
        of_google,
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
    ),
]


def two_mocks(ai_port: int, ll_port: int) -> dict[str, Any]:
    """Return a policy whose models are at aimock, and at llmock as ``llmock/…``."""
    content = policy(ai_port)
    providers, models = content["providers"], content["models"]
    providers["google"] = providers["openai"] | {"dialect": "gemini"}
    models["gpt-4.1"] = {"provider": "openai"}
    models["gemini-2.5-flash"] = {"provider": "google"}
    prefixes = {"openai": "", "anthropic": "/anthropic", "google": "/gemini"}
    for name, prefix in prefixes.items():
        base = f"http://127.0.0.1:{ll_port}{prefix}"
        providers[f"ll-{name}"] = providers[name] | {"base_url": base}
    for model, entry in list(models.items()):
        there = {"provider": f"ll-{entry['provider']}", "upstream_model": model}
        models[f"llmock-{model}"] = entry | there
    return content


@dataclass(frozen=True)
class Stage:
    """
    Attributes:
        pod: In front of both.
        app: Calls `pod`.
        journal: Of aimock: calls it by itself.
    """

    pod: Pod
    app: httpx.AsyncClient
    journal: httpx.AsyncClient

    async def settled(self) -> Sides:
        """Return both sides of the newest record, once nothing is held."""
        await self.pod.settled()
        usage = (await self.pod.ledger.usages())[-1]
        return usage.total_input_tokens, usage.total_output_tokens

    async def ask(
        self, exchange: Exchange, mock: str, *, stream: bool = False
    ) -> httpx.Response:
        """Ask *mock*'s model; return the whole answer."""
        model = exchange.model if mock == "aimock" else f"llmock-{exchange.model}"
        body = {"model": model, **exchange.body}
        path = exchange.path
        if exchange.stream is not None:
            del body["model"]
            path = exchange.stream if stream else path
        elif stream:
            body["stream"] = True
        answer = await self.app.post(path.format(model=model), json=body)
        assert answer.status_code == 200, answer.text
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """One pod in front of both mocks."""
    headers = {"authorization": f"Bearer {KEY}"}
    with aimock() as ai_port, mock_provider() as ll_port:
        async with (
            Pod.start(two_mocks(ai_port, ll_port)) as pod,
            httpx.AsyncClient(
                base_url=pod.url.removesuffix("/v1"), headers=headers, timeout=60
            ) as app,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{ai_port}") as journal,
        ):
            yield Stage(pod, app, journal)


def reports(text: str) -> list[Mapping[str, Any]]:
    """Return the usage objects in a stream, wherever they stand."""
    found = []
    for line in text.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            places = (event, event.get("response"), event.get("message"))
            found += [
                place.get("usage") or place.get("usageMetadata")
                for place in places
                if isinstance(place, dict)
            ]
    return [usage for usage in found if usage]


both_mocks = pytest.mark.parametrize("mock", MOCKS)
every_api = pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.name)


@both_mocks
@every_api
async def test_an_answer(stage: Stage, exchange: Exchange, mock: str) -> None:
    """What is settled is what the answer reports."""
    answer = (await stage.ask(exchange, mock)).json()

    usage = answer.get("usage") or answer["usageMetadata"]
    assert await stage.settled() == exchange.sides_of(usage)


@both_mocks
@every_api
async def test_a_stream(stage: Stage, exchange: Exchange, mock: str) -> None:
    """What is settled is what the last report of the stream says, field by field."""
    answer = await stage.ask(exchange, mock, stream=True)

    assert answer.headers["content-type"].startswith("text/event-stream")
    told: dict[str, Any] = {}
    for usage in reports(answer.text):
        told |= usage
    settled = await stage.settled()
    if exchange.name == "chat":  # the app did not ask, so it does not see it
        assert told == {}
        assert min(settled) > 0
    else:
        assert settled == exchange.sides_of(told)
    assert (await stage.pod.ledger.records())[-1]["source"] == "reported"


@every_api
async def test_what_aimock_got(stage: Stage, exchange: Exchange) -> None:
    """It got what the app sent; who pays is none of its business."""
    await stage.journal.post("/__aimock/reset/journal")
    await stage.ask(exchange, "aimock")

    [entry] = (await stage.journal.get("/__aimock/journal")).json()
    assert entry["path"] == exchange.path.format(model=exchange.model)
    assert KEY not in json.dumps(entry)
    assert CREDENTIAL not in json.dumps(entry["body"])
    if exchange.name == "chat":
        assert entry["body"]["messages"] == exchange.body["messages"]


async def test_a_refusal_of_the_mocks(stage: Stage) -> None:
    """A provider's own 429 passes as it is, with its time to wait, and costs nothing."""
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "overload"}],
        "max_tokens": 9,
    }
    answer = await stage.app.post("/v1/chat/completions", json=body)

    assert answer.status_code == 429
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert answer.headers["retry-after"] == "1"
    assert "x-tokenweir-refusal" not in answer.headers
    assert await stage.settled() == (0, 0)


async def test_reasoning(stage: Stage) -> None:
    """Reasoning that a stream shows is in no choice's content, and is no free text."""
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "think"}],
        "max_tokens": 100,
        "stream": True,
    }
    answer = await stage.app.post("/v1/chat/completions", json=body)

    assert '"reasoning_content"' in answer.text
    assert (await stage.settled())[1] > 0
