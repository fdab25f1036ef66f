"""Each policy is looked at for quotas without effect, and what was found is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.config.policies import KEY_A
from tests.recorder import Recorder
from tokenweir.config import effect_check
from tokenweir.config.compile import compile_policy
from tokenweir.config.effect_check import EffectCheck
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Policy

RPM = {"requests_per_minute": 1}
PATIENCE_SECONDS = 30.0


def policy(*quotas: dict[str, Any], digest: str = "d", **key: Any) -> Policy:
    """Return a policy whose tenant has *quotas*, and a key with the members of *key*."""
    keys = [{"id": "k", "sha256": KEY_A, **key}]
    content = {
        "version": 1,
        "providers": {"o": {"base_url": "https://a", "dialect": "openai"}},
        "models": {"gpt": {"provider": "o"}},
        "tenants": {"t": {"keys": keys, "quotas": list(quotas)}},
    }
    return compile_policy(PolicyFile.model_validate(content), digest, {})


async def told(recorder: Recorder, count: int) -> None:
    """Return once *count* policies were told of."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(recorder.ineffective) < count:  # noqa: ASYNC110, it has no event
            await asyncio.sleep(0.001)


@contextmanager
def checking(now_ms: int = 0) -> Iterator[tuple[EffectCheck, Recorder]]:
    """Yield a check at *now_ms* and what it tells."""
    recorder = Recorder()
    yield EffectCheck(recorder, lambda: now_ms), recorder
    assert recorder.faults == []


async def test_each_policy_is_looked_at() -> None:
    """What is found is told with the policy's digest; also that nothing is."""
    with checking() as (check, recorder):
        check.use_policy(policy(RPM, {**RPM, "name": "more"}, digest="one"))
        await told(recorder, 1)
        check.use_policy(policy(RPM, digest="two"))
        await told(recorder, 2)
        await check.stop()

    assert recorder.ineffective == [("one", {"t.more": "outdone"}), ("two", {})]


async def test_a_policy_that_comes_meanwhile() -> None:
    """Only the newest is told: the others are not in force any more."""
    with checking() as (check, recorder):
        for digest in ("one", "two", "three"):
            check.use_policy(policy(RPM, digest=digest))
        await told(recorder, 1)
        await check.stop()

    assert recorder.ineffective == [("three", {})]


async def test_a_policy_that_comes_while_another_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was found of the first is not told: it is not in force any more."""
    look, looked = effect_check._found, asyncio.Event()
    loop, release = asyncio.get_running_loop(), asyncio.Event()

    def slow(made: Policy, now_ms: int) -> object:
        if made.digest == "one":
            loop.call_soon_threadsafe(looked.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return look(made, now_ms)

    monkeypatch.setattr(effect_check, "_found", slow)
    monkeypatch.setattr(effect_check, "PAUSES", 0)
    with checking() as (check, recorder):
        check.use_policy(policy(RPM, digest="one"))
        await looked.wait()
        check.use_policy(policy(RPM, digest="two"))
        release.set()
        await told(recorder, 1)
        await check.stop()

    assert recorder.ineffective == [("two", {})]


async def test_keys_that_have_ended() -> None:
    """Who can't call any more is nobody that a quota limits."""
    made = policy(RPM, expires_at="1970-01-01T00:00:01Z")
    for now_ms, found in ((999, {}), (1_000, {"t.requests_per_minute": "no_keys"})):
        with checking(now_ms) as (check, recorder):
            check.use_policy(made)
            await told(recorder, 1)
            await check.stop()

        assert recorder.ineffective == [("d", found)]


async def test_a_fault_is_told_and_the_next_policy_looked_at() -> None:
    """Whatever is wrong with one, the next is seen."""
    recorder = Recorder()
    check = EffectCheck(recorder, lambda: 0)
    broken = replace(policy(RPM), single_tenant="nobody")
    check.use_policy(broken)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not recorder.faults:  # noqa: ASYNC110, it has no event
            await asyncio.sleep(0.001)
    check.use_policy(policy(RPM))
    await told(recorder, 1)
    await check.stop()

    assert [where for where, _ in recorder.faults] == ["effect_check"]
    assert recorder.ineffective == [("d", {})]


async def test_stop() -> None:
    """It may be called before anything was looked at, and then ends it."""
    with checking() as (check, recorder):
        await check.stop()
        check.use_policy(policy(RPM))
        await check.stop()
        await check.stop()

    assert recorder.ineffective == []
