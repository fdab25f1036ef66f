"""Unmodified apps on Node: `openai`, `@anthropic-ai/sdk` and Vercel's `ai`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import encoded
from tests.e2e.refusal import AT_ONCE, ROUNDS
from tests.mock_provider import aimock
from tests.node_process import NodeError, NodeProcess
from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256, until
from tests.scripted_upstream import ScriptedUpstream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

STORY = "Once upon a time there was a weir, and it held."
LONG = "Tell a long story."
# One request, and the next a second later: each kit has its own.
SMALL_KEY = "sk-tw-small"
SLOW_KEYS = {"openai": "sk-tw-s1", "anthropic": "sk-tw-s2", "vercel": "sk-tw-s3"}
# What each kit calls its plain question, and the SDK's name for a refusal.
PLAIN = {"openai": "chat", "anthropic": "message", "vercel": "generate"}
REFUSED = {
    "openai": "RateLimitError",
    "anthropic": "RateLimitError",
    "vercel": "AI_APICallError",
}
KITS = list(PLAIN)
VECTORS = {"openai": 2, "vercel": 1}
VERCEL_APIS = ["chat", "responses", "messages"]


@dataclass(frozen=True)
class Stage:
    """
    Attributes:
        node: Where SDKs run; they call `pod`.
        provider: The provider of the models ``…-played``, which plays scripts.
    """

    node: NodeProcess
    pod: Pod
    provider: ScriptedUpstream

    async def settled(self, tenant: str = "acme") -> list[tuple[int, int]]:
        """Return both sides of each record, once nothing is held."""
        await until(lambda: self.pod.ledger.nothing_held(tenant))
        usages = await self.pod.ledger.usages(tenant)
        return [(used.total_input_tokens, used.total_output_tokens) for used in usages]

    async def refusal(self, kit: str, **options: Any) -> dict[str, Any]:
        """Return what an app catches that calls, several times at once."""
        for _ in range(ROUNDS):
            try:
                await self.node.run(kit, PLAIN[kit], atOnce=AT_ONCE, **options)
            except NodeError as error:
                return error.told
        raise AssertionError("nobody was refused")


def limits(mock_port: int, played_port: int) -> dict[str, Any]:
    """Return a policy: acme is free, globex has few tokens, others few requests."""
    content = policy(mock_port)
    for name in ("openai", "anthropic"):
        played = content["providers"][name]
        content["providers"][f"{name}-played"] = played | {
            "base_url": f"http://127.0.0.1:{played_port}"
        }
    content["models"] |= {
        "gpt-4.1": {"provider": "openai"},
        "text-embedding-3-small": {"provider": "openai-played"},
        "gpt-played": {"provider": "openai-played"},
        "claude-played": {"provider": "anthropic-played"},
    }
    few = [{"tokens_per_minute": 60_000, "capacity": 1_000}]
    content["tenants"]["globex"]["quotas"] = few
    content["tenants"]["small"] = {
        "keys": [{"id": "small", "sha256": sha256(SMALL_KEY)}],
        "quotas": few,
    }
    for kit, key in SLOW_KEYS.items():
        content["tenants"][kit] = {
            "keys": [{"id": kit, "sha256": sha256(key)}],
            "quotas": [{"requests_per_minute": 60, "capacity": 1}],
        }
    return content


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """One pod and one Node for all of them."""
    with aimock() as port:
        async with (
            ScriptedUpstream() as provider,
            Pod.start(limits(port, provider.port)) as pod,
            NodeProcess.start(base=pod.url.removesuffix("/v1"), key=KEY) as node,
        ):
            yield Stage(node, pod, provider)


def sides(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return both sides of *usage*, in whatever words an SDK has for them."""
    told = [usage.get(name) for name in ("prompt_tokens", "input_tokens")]
    given = [usage.get(name) for name in ("completion_tokens", "output_tokens")]
    told.append(usage.get("inputTokens") or usage.get("tokens"))
    given.append(usage.get("outputTokens"))
    return (
        next((int(figure) for figure in told if figure is not None), 0),
        next((int(figure) for figure in given if figure is not None), 0),
    )


@pytest.mark.parametrize(
    ("kit", "task"),
    [
        ("openai", "chat"),
        ("openai", "respond"),
        ("openai", "respondInStream"),
        ("anthropic", "message"),
        ("anthropic", "stream"),
    ],
)
async def test_answers(stage: Stage, kit: str, task: str) -> None:
    """An answer comes whole, and is settled as the SDK reads its report."""
    told = await stage.node.run(kit, task)

    assert told["text"] == STORY
    assert (await stage.settled())[-1] == sides(told["usage"]) == (21, 16)


@pytest.mark.parametrize("api", VERCEL_APIS)
@pytest.mark.parametrize("task", ["generate", "stream"])
async def test_answers_to_vercels_ai(stage: Stage, api: str, task: str) -> None:
    """`generateText` and `streamText` work on each API, and agree with the ledger."""
    told = await stage.node.run("vercel", task, api=api)

    assert told["text"] == STORY
    assert (await stage.settled())[-1] == sides(told["usage"]) == (21, 16)


async def test_stream_of_an_app_that_asked_for_usage(stage: Stage) -> None:
    """It gets the usage event, and the ledger has the same figures."""
    told = await stage.node.run("openai", "stream", usage=True)

    assert (told["text"], told["withoutChoices"]) == (STORY, 1)
    assert (await stage.settled())[-1] == sides(told["usage"]) == (21, 16)


async def test_stream_of_an_app_that_did_not_ask(stage: Stage) -> None:
    """It sees no event without choices, and is settled as reported all the same."""
    told = await stage.node.run("openai", "stream")

    assert (told["text"], told["withoutChoices"], told["usage"]) == (STORY, 0, None)
    assert (await stage.settled())[-1] == (21, 16)
    assert (await stage.pod.ledger.records())[-1]["source"] == "reported"


@pytest.mark.parametrize("kit", ["openai", "vercel"])
async def test_embeddings(stage: Stage, kit: str) -> None:
    """Embeddings are settled as reported: nothing comes out."""
    vectors = [{"embedding": [0.5], "index": at} for at in range(VECTORS[kit])]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    stage.provider.play(reply(encoded({"data": vectors, "usage": usage})))
    told = await stage.node.run(kit, "embed")

    assert told["vectors"] == VECTORS[kit]
    assert (await stage.settled())[-1] == sides(told["usage"]) == (9, 0)


async def test_models(stage: Stage) -> None:
    """A path without a prompt passes."""
    assert "gpt-4o" in await stage.node.run("openai", "models")


@pytest.mark.parametrize("kit", ["openai", "anthropic"])
async def test_a_tool_and_its_result(stage: Stage, kit: str) -> None:
    """A tool is called, its result goes back, and both exchanges are settled."""
    told = await stage.node.run(kit, "tools")

    assert (told["city"], told["text"]) == ("Tokyo", "It is clear in Tokyo.")
    assert (await stage.settled())[-2:] == [sides(each) for each in told["usages"]]


@pytest.mark.parametrize("api", VERCEL_APIS)
async def test_a_tool_of_vercels_ai(stage: Stage, api: str) -> None:
    """Its loop over tools runs to the end, and every step of it is settled."""
    told = await stage.node.run("vercel", "tools", api=api)

    assert (told["asks"], told["text"]) == (["Tokyo"], "It is clear in Tokyo.")
    assert (await stage.settled())[-2:] == [sides(each) for each in told["usages"]]


@pytest.mark.parametrize("kit", KITS)
async def test_a_refusal_says_which_limit(stage: Stage, kit: str) -> None:
    """A refusal is the SDK's own error, which tells the limit and the time to wait."""
    told = await stage.refusal(kit, key=OTHER_KEY, cap=900, api="chat")

    assert (told["name"], told["status"]) == (REFUSED[kit], 429)
    assert told["refusal"] == "quota_exhausted"
    limit = told["body"].get("error", told["body"])["tokenweir"]
    assert (limit["limit"], limit["retryable"]) == ("tokens_per_minute", True)
    assert int(told["retryAfterMs"]) == limit["retry_after_ms"]
    assert int(told["retryAfter"]) >= 1
    assert told["retryable"] in {None, True}


@pytest.mark.parametrize("kit", KITS)
async def test_own_retries_obey_our_headers(stage: Stage, kit: str) -> None:
    """An SDK that retries waits as told, and then succeeds at the first attempt."""
    key = SLOW_KEYS[kit]
    for _ in range(ROUNDS):
        before = refusals(stage.pod, kit)
        told = await stage.node.run(kit, PLAIN[kit], key=key, retries=1, api="chat")
        assert told["text"] == STORY
        if refusals(stage.pod, kit) > before:
            return
    raise AssertionError("there was always room: nothing was tried")


def refusals(pod: Pod, tenant: str) -> int:
    """Return how often *tenant* was refused."""
    lines = [line for line in pod.exchanges() if line["tenant"] == tenant]
    return sum(line["decision"] == "refused" for line in lines)


@pytest.mark.parametrize("kit", KITS)
async def test_more_than_the_bucket_can_hold(stage: Stage, kit: str) -> None:
    """What no wait can satisfy is told once: the SDK does not retry it."""
    before = refusals(stage.pod, "small")
    with pytest.raises(NodeError) as caught:
        await stage.node.run(
            kit, PLAIN[kit], key=SMALL_KEY, cap=5_000, retries=2, api="chat"
        )

    assert caught.value.told["status"] == 400
    await until(lambda: refusals(stage.pod, "small") > before)
    assert refusals(stage.pod, "small") == before + 1


@pytest.mark.parametrize("kit", KITS)
async def test_unknown_key(stage: Stage, kit: str) -> None:
    """An unknown key is told so, and not repeated."""
    with pytest.raises(NodeError) as caught:
        await stage.node.run(kit, PLAIN[kit], key="sk-nobody", retries=2, api="chat")

    assert caught.value.told["status"] == 401
    assert "sk-nobody" not in str(caught.value.told)


@pytest.mark.parametrize("kit", KITS)
async def test_an_app_that_leaves(stage: Stage, kit: str) -> None:
    """Who leaves in mid-stream owes the input and what was generated so far."""
    records = len(await stage.settled())
    told = await stage.node.run(kit, "abort", text=LONG, cap=1_000, api="chat")
    assert len(told["text"]) >= 16

    await until(lambda: has_more(stage, records))
    used, generated = (await stage.settled())[-1]
    record = (await stage.pod.ledger.records())[-1]
    assert record["outcome"] == "cut"
    assert used > 0
    assert 0 < generated < 100  # of some 110


async def has_more(stage: Stage, records: int) -> bool:
    """Tell if there are more than *records*."""
    return len(await stage.pod.ledger.records()) > records


async def test_count_tokens(stage: Stage) -> None:
    """Counting tokens goes where the model does, and costs none."""
    records = await stage.settled()
    stage.provider.play(reply(encoded({"input_tokens": 17})))
    told = await stage.node.run("anthropic", "count", model="claude-played")

    assert told == {"input_tokens": 17}
    assert await stage.settled() == [*records, (0, 0)]


@pytest.mark.parametrize(
    ("kit", "model"), [("openai", "gpt-played"), ("anthropic", "claude-played")]
)
async def test_a_providers_own_refusal(stage: Stage, kit: str, model: str) -> None:
    """A provider's own 429 reaches the SDK as it is, and costs no tokens."""
    error = {"message": "Too many.", "type": "rate_limit_error", "code": None}
    body = encoded({"type": "error", "error": error})
    headers = (("content-type", "application/json"), ("retry-after", "7"))
    stage.provider.play(reply(body, "429 Too Many Requests", headers))
    with pytest.raises(NodeError) as caught:
        await stage.node.run(kit, PLAIN[kit], model=model)

    told = caught.value.told
    assert (told["name"], told["status"]) == ("RateLimitError", 429)
    assert (told["retryAfter"], told["refusal"]) == ("7", None)
    assert (await stage.settled())[-1] == (0, 0)
