"""What blocks is done elsewhere, and what fails is a reason to keep the policy."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.examples import policy
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.envoyconf import live_config
from tokenweir.envoyconf.envoy_admin import Verdict
from tokenweir.envoyconf.live import LiveEnvoy
from tokenweir.envoyconf.live_config import LiveConfig, following
from tokenweir.envoyconf.settings import EnvoySettings

POLICY = policy()
Act = Callable[[], Verdict | None]


class Envoy:
    """
    Does what a test wants.

    Attributes:
        act: What becomes of a policy.
        applied: The policies.
        tidied: Set each time that it was tidied up.
        tidy_error: What that raises.
    """

    def __init__(self) -> None:
        self.act: Act = lambda: Verdict.APPLIED
        self.applied: list[Policy] = []
        self.tidied = 0
        self.tidy_error: Exception | None = None

    def begin(self, policy: Policy) -> None:
        """Have it all."""
        self.apply(policy)

    def apply(self, policy: Policy) -> Verdict | None:
        """Have a policy."""
        self.applied.append(policy)
        return self.act()

    def tidy(self) -> bool:
        """Tidy up."""
        self.tidied += 1
        if self.tidy_error:
            raise self.tidy_error
        return True


class World:
    """An Envoy, and what was told."""

    def __init__(self) -> None:
        self.envoy = Envoy()
        self.told: list[Verdict] = []
        self.faults: list[str] = []
        self.config = LiveConfig(
            lambda: cast("LiveEnvoy", self.envoy),
            self.told.append,
            lambda where, error: self.faults.append(f"{where} {error}"),
        )


@pytest.fixture
def world() -> World:
    """Return a world in which nothing has happened."""
    return World()


@pytest.mark.parametrize("verdict", [*Verdict, None])
async def test_prepared(world: World, verdict: Verdict | None) -> None:
    """What became of a change is told; if there was none, nothing is."""
    world.envoy.act = lambda: verdict
    await world.config.prepare(POLICY)

    assert world.envoy.applied == [POLICY]
    assert world.told == ([] if verdict is None else [verdict])


async def test_begun(world: World) -> None:
    """The beginning is no change."""
    await world.config.begin(POLICY)

    assert (world.envoy.applied, world.told) == ([POLICY], [])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PolicyError(["envoy: no"]), "envoy: no"),
        (OSError(28, "No space", "/xds/a"), "envoy: can't be told: /xds/a: no space"),
        (TimeoutError(), "envoy: can't be told: it takes too long"),
    ],
)
async def test_not_prepared(world: World, error: Exception, text: str) -> None:
    """Whatever hinders it is a problem of the policy, and told as refused."""

    def fail() -> Verdict | None:
        raise error

    world.envoy.act = fail
    with pytest.raises(PolicyError) as raised:
        await world.config.prepare(POLICY)

    assert raised.value.problems == (text,)
    assert world.told == [Verdict.REFUSED]


async def test_tidied_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tidied up again and again, whatever becomes of it, until the end."""
    monkeypatch.setattr(live_config, "TIDY_SECONDS", 0.001)
    world.envoy.tidy_error = OSError("full")
    await world.config.stop()
    world.config.start()
    async with asyncio.timeout(20):
        while world.envoy.tidied < 3:  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)
    await world.config.stop()
    tidied = world.envoy.tidied
    await asyncio.sleep(0.01)

    assert world.envoy.tidied == tidied
    assert world.faults[:2] == ["envoy full"] * 2
    assert world.told == []


async def test_nobody_follows() -> None:
    """Without an Envoy that follows, there is nothing to be done."""
    told: list[Verdict] = []
    config = LiveConfig(following(None), told.append, lambda *_: None)
    await config.begin(POLICY)
    await config.prepare(POLICY)
    config.start()
    await config.stop()

    assert not config.follows
    assert told == []


async def test_somebody_follows(world: World, tmp_path: Path) -> None:
    """The Envoy of the settings is made when it is needed."""
    admin = str(tmp_path / "admin")
    settings = EnvoySettings(xds_dir=str(tmp_path / "xds"), admin_socket=admin)
    config = LiveConfig(following(settings), world.told.append, lambda *_: None)
    await config.prepare(POLICY)

    assert config.follows
    assert world.told == [Verdict.ABSENT]


async def test_one_at_a_time(world: World) -> None:
    """Two policies that come at once are brought one after the other."""
    other = replace(POLICY, digest="f" * 12)
    await asyncio.gather(world.config.prepare(POLICY), world.config.prepare(other))

    assert world.envoy.applied == [POLICY, other]
