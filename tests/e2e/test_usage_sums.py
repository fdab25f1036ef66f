"""What a pod has let through and refused is in the ledger's sums, told by whom."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cases.apis import OPENAI, Told
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import KEY, until
from tests.scripted_upstream import reply
from tokenweir.core.partition import user_code
from tokenweir.core.record import hour_of
from tokenweir.core.tally import Tallied
from tokenweir.ledger.matched import quota_matches, tallied
from tokenweir.ledger.usage import GroupBy, usage

pytestmark = pytest.mark.e2e

QUOTAS = (
    {"tokens_per_minute": 60, "capacity": 2_000},
    {"name": "trial", "requests_per_minute": 1, "mode": "shadow"},
)
Sums = dict[tuple[str, ...], dict[str, int]]


async def call(scene: Scene, *, key: str | None = KEY, **members: Any) -> int:
    """Make one call of at most 500 tokens of output; return its status."""
    body = OPENAI.request(**{"stream": False, "max_tokens": 500, **members})
    return (await scene.call(body, key=key)).status


async def sums_by(scene: Scene, *by: GroupBy) -> Sums:
    """Return the sums of this hour and the one before."""
    hour = hour_of(time.time_ns() // 1_000_000)
    return await usage(scene.pod.ledger.store, hour - 1, hour, by)


async def told(scene: Scene, tenant: str | None = None) -> Tallied:
    """Return what was counted in this hour and the one before."""
    hour = hour_of(time.time_ns() // 1_000_000)
    return await tallied(scene.pod.ledger.store, hour - 1, hour, tenant=tenant)


async def test_refusals_and_users_are_summed() -> None:
    """
    By limit or by reason, by model and by end user; also what is refused last of all.

    Models that clients invent are one, and strangers are no tenant.
    """
    async with Scene.open(quotas=QUOTAS, adapt=tenants(lone=[])) as scene:
        scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 700))))
        for members in ({"user": "ann"}, {"user": "bob"}, {}):
            assert await call(scene, **members) == 200
        assert await call(scene) == 429
        assert [await call(scene, model=name) for name in ("x", "y")] == [403, 403]
        assert await call(scene, key="sk-of-nobody") == 401
        await scene.pod.settled()

        async def is_written() -> bool:
            return (await told(scene)).refusals == 3

        await until(is_written)
        refused = await told(scene, "acme")
        assert refused.refused_by == {"acme.tokens_per_minute": 1}
        assert refused.refused_for == {"model_not_allowed": 2}
        assert refused.shadowed == {"acme.trial": 3}
        assert refused.matched == {"acme.tokens_per_minute": 4, "acme.trial": 4}
        by_model = await sums_by(scene, GroupBy.MODEL, GroupBy.PROVIDER)
        assert by_model[("other", "")] == {"refused:model_not_allowed": 2}
        of = await sums_by(scene, GroupBy.USER)
        ann, bob = user_code("acme", "ann"), user_code("acme", "bob")
        assert {user: sums["output_tokens"] for (user,), sums in of.items()} == {
            ann: 700,
            bob: 700,
            "-": 700,
        }

        assert await call(scene, key=key_of("lone"), model="z") == 403
        scene.pod.processors[0].terminate()
        await until(lambda: _is_refused(scene, "lone"))
        hour = hour_of(time.time_ns() // 1_000_000)
        matches = await quota_matches(scene.pod.ledger.store, hour - 1, hour)
        assert matches == {"acme.tokens_per_minute": 4, "acme.trial": 4}


async def _is_refused(scene: Scene, tenant: str) -> bool:
    return (await told(scene, tenant)).refused_for == {"model_not_allowed": 1}
