"""The simulation of refused callers, and the page that tells its figures."""

from __future__ import annotations

from pathlib import Path

from bench.page import table_in
from bench.staggered_return import SCENES, STRATEGIES, Scene, simulate, table

PAGE = Path(__file__).parents[2] / "docs" / "staggered-return.md"
QUICK = (SCENES[0], SCENES[3], SCENES[4], SCENES[6])


def test_the_page_tells_what_is_simulated() -> None:
    """Its table has a row for each scene and strategy, with today's figures."""
    told = table_in(PAGE, "simulation").splitlines()

    assert len(told) == 2 + len(SCENES) * len(STRATEGIES)
    assert set(table(QUICK).splitlines()) <= set(told)


def test_the_wave_is_gone_and_nobody_is_served_later() -> None:
    """With the ledger's cursor few attempts are in vain, in the same time overall."""
    without, _, _, cursor = (simulate(SCENES[0], told) for told in STRATEGIES)

    assert cursor.peak <= 2 < without.peak
    assert cursor.refused < 1.5 < without.refused
    assert cursor.last_ms <= without.last_ms + 1_000
    assert cursor.in_order > without.in_order


def test_who_is_alone_does_not_wait_longer() -> None:
    """The cursor adds nothing where one caller is refused."""
    scene: Scene = SCENES[6]

    assert simulate(scene, STRATEGIES[3]) == simulate(scene, STRATEGIES[0])
