"""An exchange is decided by the newest policy that its Envoy can carry out."""

from dataclasses import replace

import pytest

from tests.examples import policy
from tokenweir.core.policy import Policy
from tokenweir.extproc.snapshots import MAX_SNAPSHOTS, STAY_SECONDS, Snapshots

FIRST = policy()


def moved(port: int, digest: str = "moved") -> Policy:
    """Return the policy with all providers on another port."""
    providers = {
        name: replace(each, port=port) for name, each in FIRST.providers.items()
    }
    return replace(FIRST, providers=providers, digest=digest)


def told(*policies: Policy) -> str:
    """Return what an Envoy says that was rendered from all of these."""
    return ",".join(digest for each in policies for digest in each.rendering.values())


class World:
    """Snapshots, and a clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.snapshots = Snapshots(lambda: self.now_s)
        self.snapshots.use(FIRST)


@pytest.fixture
def world() -> World:
    """Return a world with one policy in it."""
    return World()


def test_one_policy(world: World) -> None:
    """With one policy it decides, whatever Envoy says."""
    for text in ("", "x", told(FIRST), told(moved(1))):
        assert world.snapshots.fit(text) is FIRST


def test_the_newest_that_envoy_knows(world: World) -> None:
    """As long as Envoy does not know the newest, the one before it decides."""
    second = moved(1)
    world.snapshots.use(second)

    assert world.snapshots.fit(told(FIRST)) is FIRST
    assert world.snapshots.fit(told(second)) is second
    assert world.snapshots.fit(told(second, FIRST)) is second
    assert world.snapshots.fit("") is second


def test_who_knows_none(world: World) -> None:
    """An Envoy that knows neither is told what is wrong by the newest."""
    second = moved(1)
    world.snapshots.use(second)

    assert world.snapshots.fit(told(moved(2))) is second


def test_not_for_long(world: World) -> None:
    """An earlier policy decides as long as a request's head may take, and no longer."""
    second = moved(1)
    world.snapshots.use(second)
    world.now_s += STAY_SECONDS
    assert world.snapshots.fit(told(FIRST)) is FIRST
    world.now_s += 1

    assert world.snapshots.fit(told(FIRST)) is second


def test_what_envoy_need_not_know(world: World) -> None:
    """A change that is none of Envoy's replaces the policy before it at once."""
    stricter = replace(FIRST, keys={}, digest="stricter")
    world.snapshots.use(stricter)

    assert world.snapshots.fit(told(FIRST)) is stricter
    world.snapshots.use(moved(1))
    assert world.snapshots.fit(told(FIRST)) is stricter


def test_bounded(world: World) -> None:
    """Of many policies in a row the newest few are kept, and of texts too."""
    policies = [moved(port, str(port)) for port in range(1, 60)]
    for each in policies:
        world.snapshots.use(each)
        world.snapshots.fit(told(each))

    assert world.snapshots.fit(told(policies[-MAX_SNAPSHOTS])).digest == "52"
    assert world.snapshots.fit(told(policies[-MAX_SNAPSHOTS - 1])).digest == "59"
