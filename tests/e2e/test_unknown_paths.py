"""Which provider gets what no dialect reads, as the policy says."""

from __future__ import annotations

import copy
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cases.apis import ANTHROPIC, OPENAI
from tests.cases.connection import MESSAGES
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FREE = (0, 0)
QUOTAS = [{"requests_per_minute": 1, "capacity": 100}, {"tokens_per_minute": 1}]
VERSION = [("anthropic-version", "2023-06-01")]
COUNT_TOKENS = f"{MESSAGES}/count_tokens"
Content = dict[str, Any]


def three_providers(content: Content) -> None:
    """Have a path for each provider, by which the upstream knows who is meant."""
    providers = content["providers"]
    providers["own"] = copy.deepcopy(providers["openai"])
    for name, entry in providers.items():
        entry["base_url"] += f"/{name}"
    content["models"]["own"] = {"provider": "own"}
    content["models"]["claude-alias"] = {
        "provider": "anthropic",
        "upstream_model": "claude-haiku-4-5",
    }
    keys = content["tenants"]["globex"]["keys"]
    keys[0]["models"] = ["gpt-4o", "claude-alias"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod of three providers."""
    async with Scene.open(quotas=QUOTAS, adapt=three_providers) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> AsyncIterator[Scene]:
    """Give a test the pod with an empty ledger, and its first policy afterwards."""
    first = opened.pod.policy_path.read_text()
    await opened.clear()
    opened.upstream.play(reply(b'{"a": 1}'))
    yield opened
    await put(opened, yaml.safe_load(first))


async def put(scene: Scene, content: Content) -> None:
    """Put *content* in force."""
    [processor] = scene.pod.processors
    before = processor.count("policy_loaded")
    scene.pod.policy_path.write_text(yaml.safe_dump(content))
    processor.process.send_signal(signal.SIGHUP)
    await until(lambda: processor.count("policy_loaded") > before)


async def let_pass(scene: Scene, **unknown_paths: object) -> Content:
    """Have only these providers, with that in ``unknown_paths``; return the policy."""
    content: Content = yaml.safe_load(scene.pod.policy_path.read_text())
    providers = content["providers"]
    for name in list(providers):
        if name not in unknown_paths:
            del providers[name]
        elif unknown_paths[name] is not None:
            providers[name]["unknown_paths"] = unknown_paths[name]
    models = content["models"].items()
    content["models"] = {
        name: entry for name, entry in models if entry["provider"] in providers
    }
    content["tenants"].pop("globex", None)
    await put(scene, content)
    return content


async def goes_to(scene: Scene, method: str, path: str, **more: Any) -> str:
    """Return the provider that got the request, or "" if it was refused."""
    before = len(scene.upstream.requests)
    body = b'{"model": "x"}' if method in ("POST", "PUT") else b""
    answer = await scene.call(body, method=method, path=path, **more)
    received = scene.upstream.requests[before:]
    if answer.status == 200:
        [asked] = received
        name, _, rest = asked.target[1:].partition("/")
        assert (asked.method, f"/{rest}", asked.body) == (method, path, body)
        assert CREDENTIAL in f"{asked.header('x-api-key')} {asked.all('authorization')}"
        return name
    of_messages = more or path.startswith(MESSAGES)
    expect(answer, ANTHROPIC if of_messages else OPENAI, 403, "path_not_metered")
    assert received == []
    return ""


async def test_nothing_passes_by_default(scene: Scene) -> None:
    """What no dialect reads reaches nobody, unless a policy says so."""
    for method in ("POST", "PUT", "GET", "DELETE"):
        for more in ({}, {"headers": VERSION}):
            assert await goes_to(scene, method, "/v1/files/f", **more) == ""

    await scene.ledger_shows()


async def test_each_provider_is_asked(scene: Scene) -> None:
    """
    What one provider lets pass goes to it, the default of its API or not, and costs a
    request; a caller of another API does not get there.
    """
    await let_pass(
        scene,
        openai=None,
        own=["POST /v1/vector_stores", "GET /v1/files/*"],
        anthropic="opaque",
    )

    assert await goes_to(scene, "POST", "/v1/vector_stores") == "own"
    assert await goes_to(scene, "GET", "/v1/files/f") == "own"
    assert await goes_to(scene, "GET", "/v1/models") == "openai"
    assert await goes_to(scene, "DELETE", "/v1/files/f") == ""
    assert await goes_to(scene, "GET", "/v1/organization/admin_api_keys") == ""
    assert await goes_to(scene, "POST", "/v1/vector_stores/") == ""
    assert await goes_to(scene, "POST", f"{MESSAGES}/batches") == "anthropic"
    assert await goes_to(scene, "DELETE", "/v1/f", headers=VERSION) == "anthropic"
    await scene.ledger_shows(*[FREE] * 5)
    records = await scene.pod.ledger.records()
    assert [each["route"] for each in records] == [
        "opaque", "other", "models", "opaque", "other",
    ]  # fmt: skip


async def test_two_providers_of_two_apis(scene: Scene) -> None:
    """The default provider is not asked for what only the other API's has."""
    await let_pass(scene, openai="refuse", anthropic="opaque")

    assert await goes_to(scene, "POST", "/v1/files", headers=VERSION) == "anthropic"
    assert await goes_to(scene, "POST", "/v1/files") == ""
    await scene.ledger_shows(FREE)


@pytest.mark.parametrize("headers", [[], VERSION])
async def test_one_provider(scene: Scene, headers: list[tuple[str, str]]) -> None:
    """A policy of Anthropic alone: whoever calls can only mean it."""
    await let_pass(scene, anthropic=["POST /v1/files"])
    more = {"headers": headers} if headers else {}

    assert await goes_to(scene, "POST", "/v1/files", **more) == "anthropic"
    assert await goes_to(scene, "GET", "/v1/models", **more) == "anthropic"
    assert await goes_to(scene, "PUT", "/v1/files", **more) == ""
    await let_pass(scene, anthropic="opaque")
    assert await goes_to(scene, "PUT", "/v1/files", **more) == "anthropic"
    await scene.ledger_shows(FREE, FREE, FREE)


async def test_a_quota_for_what_passes(scene: Scene) -> None:
    """What passes is limited by requests: it is no way around those."""
    content = await let_pass(scene, openai=["POST /v1/vector_stores"])
    quotas = [{"requests_per_minute": 1, "capacity": 2, "routes": ["opaque"]}]
    content["tenants"]["acme"]["quotas"] = quotas
    await put(scene, content)

    answers = [await scene.call(b"{}", path="/v1/vector_stores") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    await scene.ledger_shows(FREE, FREE)


# === counting tokens ==============================================================


async def test_counting_goes_where_the_model_is(scene: Scene) -> None:
    """A count goes to the model's provider, by the provider's name for it."""
    body = ANTHROPIC.request(stream=False, model="claude-alias")
    answer = await scene.call(body, path=COUNT_TOKENS)

    assert answer.status == 200
    [asked] = scene.upstream.requests
    assert asked.target == f"/anthropic{COUNT_TOKENS}"
    assert asked.body == body.replace(b"claude-alias", b"claude-haiku-4-5")
    await scene.ledger_shows(FREE)
    [record] = await scene.pod.ledger.records()
    assert (record["route"], record["model"]) == ("count_tokens", "claude-alias")


@pytest.mark.parametrize(
    ("model", "key", "status", "refusal"),
    [
        ("claude-9", "sk-tw-acme", 403, "model_not_allowed"),
        ("claude-sonnet-5", "sk-tw-globex", 403, "model_not_allowed"),
        ("gpt-4o", "sk-tw-globex", 400, "malformed_request"),
        ("", "sk-tw-acme", 400, "malformed_request"),
    ],
)
async def test_counting_follows_the_rules_of_models(
    scene: Scene, model: str, key: str, status: int, refusal: str
) -> None:
    """Who may not call a model may not have its tokens counted either."""
    body = ANTHROPIC.request(stream=False, model=model)
    answer = await scene.call(body, path=COUNT_TOKENS, key=key)

    expect(answer, ANTHROPIC, status, refusal)
    assert not scene.upstream.requests
    await scene.ledger_shows()
    await scene.ledger_shows(tenant="globex")
