"""S02: no member of a body chooses who pays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis
from tests.cases.connection import Answer
from tests.cases.priced import overlay
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import KEY, OTHER_KEY
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# In nano-USD; see priced.py.
COSTS = {
    OPENAI.name: TOLD.input * 4_000 + TOLD.output * 20_000,
    ANTHROPIC.name: TOLD.input * 3_000 + TOLD.output * 15_000,
}
VICTIM = "globex"
# Limits of each tenant, of each key and of each end user within a tenant.
QUOTAS: list[dict[str, Any]] = [
    {"requests_per_minute": 1, "capacity": 40},
    {"requests_per_minute": 1, "capacity": 2, "partition": ["tenant", "user"]},
    {"budget_usd": 4, "per": "month"},
    {"budget_usd": 2, "per": "month", "partition": ["key"]},
    {"budget_usd": 1, "per": "month", "partition": ["user"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod with two tenants, who have the same limits."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        content["tenants"][VICTIM]["quotas"] = QUOTAS
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(quotas=QUOTAS, adapt=adapt) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger."""
    await opened.clear()
    opened.upstream.choose(
        lambda asked: [
            reply((OPENAI if "chat" in asked.target else ANTHROPIC).reply("Hi.", TOLD))
        ]
    )
    return opened


def named(api: Api, user: str) -> bytes:
    """Return a request for the end *user*."""
    members: dict[str, Any] = {"user": user}
    if api is ANTHROPIC:
        members = {"metadata": {"user_id": user}}
    return api.request(stream=False, **members)


async def spent(scene: Scene, tenant: str) -> dict[str, int]:
    """Return what is spent of each budget of the *tenant*, by whose it is."""
    await scene.pod.settled()
    found = (await scene.pod.ledger.snapshot(tenant)).spendings.items()
    assert not any(level.reserved for _, level in found)
    return {key.split("|")[2]: level.spent for (key, _), level in found}


async def used(scene: Scene, tenant: str) -> dict[str, int]:
    """Return what was taken of each of the *tenant's* buckets, by name."""
    await scene.pod.settled()
    records = await scene.pod.ledger.records(tenant)
    taken: dict[str, int] = {}
    for record in records:
        taken[record["user"]] = taken.get(record["user"], 0) + 1
    return taken


CLAIMS: dict[str, Mapping[str, Any]] = {
    "metadata of a proxy": {
        "metadata": {
            "user_api_key_team_id": VICTIM,
            "user_api_key_user_id": VICTIM,
            "user_api_key": OTHER_KEY,
            "team_id": VICTIM,
            "tags": [VICTIM],
        }
    },
    "a tenant": {"tenant": VICTIM, "tenant_id": VICTIM, "team": VICTIM},
    "a tenant of ours": {"tokenweir": {"tenant": VICTIM, "key": "g"}},
    "a key": {"api_key": OTHER_KEY, "key": OTHER_KEY, "authorization": OTHER_KEY},
    "headers": {"extra_headers": {"authorization": f"Bearer {OTHER_KEY}"}},
    "a body in the body": {"extra_body": {"user": VICTIM, "api_key": OTHER_KEY}},
    "an organization": {"organization": VICTIM, "project": VICTIM},
    "another provider": {"base_url": "http://127.0.0.1:1", "provider": "anthropic"},
    "an end user's other names": {
        "safety_identifier": VICTIM,
        "prompt_cache_key": VICTIM,
        "end_user": VICTIM,
        "customer": VICTIM,
    },
}


@both_apis
@pytest.mark.parametrize("name", CLAIMS)
async def test_s02_spend_lands_on_the_key(scene: Scene, api: Api, name: str) -> None:
    """
    Whatever the body claims, the key's tenant pays, and the provider gets the claim
    as it was written.

    BerriAI/litellm#36121: metadata of the body moved spend to another team.
    """
    body = api.request(stream=False, **CLAIMS[name])

    answer = await scene.call(body, path=api.path)

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)
    assert not await scene.pod.ledger.records(VICTIM)
    assert scene.upstream.requests[-1].body == body
    mine = await spent(scene, "acme")
    assert set(mine.values()) == {COSTS[api.name]}
    assert {"tenant=acme", "tenant=acme,key=ci"} < set(mine)
    assert await spent(scene, VICTIM) == {}


@both_apis
async def test_s02_an_end_user_pays_within_the_tenant(scene: Scene, api: Api) -> None:
    """
    An end user who bears another tenant's name, or writes a partition's, is just an
    end user of the key's tenant.

    BerriAI/litellm#11083
    """
    users = [VICTIM, "tenant=globex", "x,tenant=globex", "globex\x1fg", "{tw:000}", "-"]
    for user in users:
        answer = await scene.call(named(api, user), path=api.path)
        assert answer.status == 200

    await scene.ledger_shows(*[CHARGED] * len(users))
    assert await scene.pod.ledger.records(VICTIM) == []
    assert len(await used(scene, "acme")) == len(users)
    mine = await spent(scene, "acme")
    assert mine.pop("tenant=acme") == len(users) * COSTS[api.name]
    assert mine.pop("tenant=acme,key=ci") == len(users) * COSTS[api.name]
    assert list(mine.values()) == [COSTS[api.name]] * len(users)
    assert await spent(scene, VICTIM) == {}


async def call(scene: Scene, api: Api, key: str, user: str) -> Answer:
    """Return the answer to a call of the end *user* with *key*."""
    return await scene.call(named(api, user), path=api.path, key=key)


@both_apis
async def test_s02_end_users_take_turns(scene: Scene, api: Api) -> None:
    """
    Each end user has a limit of his own, on one key and on two, and what one of them
    used up is nobody else's.

    BerriAI/litellm#29184: the identity of a key's first end user was kept for all.
    """
    statuses = {
        (key, user): [(await call(scene, api, key, user)).status for _ in range(3)]
        for user in ("alice", "bob", "")
        for key in (KEY, OTHER_KEY)
    }

    assert set(map(tuple, statuses.values())) == {(200, 200, 429)}
    for tenant in ("acme", VICTIM):
        await scene.ledger_shows(*[CHARGED] * 6, tenant=tenant)
        counts = await used(scene, tenant)
        assert sorted(counts.values()) == [2, 2, 2]
        theirs = sorted((await spent(scene, tenant)).values())
        assert theirs == [2 * COSTS[api.name]] * 3 + [6 * COSTS[api.name]] * 2
        assert counts[""] == 2


@both_apis
async def test_s02_rotating_end_users_does_not_help(scene: Scene, api: Api) -> None:
    """
    Who makes up a new end user for each call still has the tenant's limit.

    BerriAI/litellm#11083
    """
    answers = [await call(scene, api, KEY, f"user-{n}") for n in range(42)]

    assert [answer.status for answer in answers[:40]] == [200] * 40
    for answer in answers[40:]:
        error = expect(answer, api, 429, "quota_exhausted")
        assert error["tokenweir"]["partition"] == "tenant=acme"
    await scene.ledger_shows(*[CHARGED] * 40)
    assert (await spent(scene, "acme"))["tenant=acme"] == 40 * COSTS[api.name]
