"""What Envoy was rendered from is compared with the policy, and told once."""

from dataclasses import replace

import pytest

from tests.examples import policy
from tests.recorder import Recorder
from tokenweir.core.policy import Policy
from tokenweir.extproc.rendering import Rendering

FIRST = policy()
SECOND = replace(FIRST, retries=7)
TOLD = ",".join(FIRST.rendering.values())
TOLD_SECOND = ",".join(SECOND.rendering.values())


class World:
    """A policy, and an Envoy that may run another."""

    def __init__(self) -> None:
        self.policy = FIRST
        self.recorder = Recorder()
        self.rendering = Rendering(lambda: self.policy, self.recorder)

    def load(self, policy: Policy) -> None:
        """Have another policy."""
        self.policy = policy
        self.rendering.policy_changed()


@pytest.fixture
def world() -> World:
    """Return a world in which Envoy has said nothing yet."""
    return World()


def test_nothing_is_known(world: World) -> None:
    """Before Envoy has called, and if it does not say, nothing is claimed."""
    assert world.rendering.hear("") is None
    world.load(SECOND)

    assert world.rendering.stale is None
    assert world.recorder.stale == []


def test_up_to_date(world: World) -> None:
    """An Envoy that was rendered from the policy in use is told of once."""
    for _ in range(3):
        assert world.rendering.hear(TOLD) == frozenset(FIRST.rendering.values())

    assert world.rendering.stale == ()
    assert world.recorder.stale == [()]


def test_a_reload(world: World) -> None:
    """A reload that Envoy does not follow is told at once, and so is its end."""
    stale = []
    world.rendering.hear(TOLD)
    world.load(SECOND)
    stale.append(world.rendering.stale)
    world.rendering.hear(TOLD_SECOND)
    stale.append(world.rendering.stale)

    assert stale == [("retries",), ()]
    assert world.recorder.stale == [(), ("retries",), ()]


def test_an_envoy_that_follows(world: World) -> None:
    """One that was told of the policy before it is in force is asked anew."""
    world.rendering = Rendering(lambda: world.policy, world.recorder, follows=True)
    world.rendering.hear(TOLD)
    world.load(SECOND)
    before = list(world.recorder.stale)
    world.rendering.hear(TOLD_SECOND)

    assert before == [()]
    assert world.recorder.stale == [(), ()]
    assert world.rendering.stale == ()


def test_two_envoys(world: World) -> None:
    """Two that call by turns are told of once each, until the policy changes."""
    for told in (TOLD, TOLD_SECOND) * 3:
        world.rendering.hear(told)
    assert world.recorder.stale == [(), ("retries",)]
    world.load(SECOND)
    world.rendering.hear(TOLD)

    assert world.recorder.stale == [(), ("retries",), (), ("retries",)]
    assert world.rendering.stale == ("retries",)
