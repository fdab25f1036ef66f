"""What a run consists of."""

from __future__ import annotations

from bench.gateway.loads import BY_NAME
from bench.gateway.rounds import LEAST_SECONDS, OVERHEAD_SECONDS, plan
from bench.gateway.stand import Stand
from bench.gateway.variants import Kind, Variant

ALONE = Stand(Variant(Kind.ALONE, is_full=True), 1, {})
OTHER = Stand(Variant(Kind.TOKENWEIR, "inspect", "off", "grpcio"), 2, {})


def test_each_load_meets_all_that_have_it_in_turn() -> None:
    """So that what the machine does else meets them at about the same time."""
    pairs = plan([ALONE, OTHER], 60.0, 3).pairs()
    main = [(load.name, stand) for load, stand in pairs if load.is_main]

    assert main == [
        ("json-16", ALONE),
        ("json-16", OTHER),
        ("sse-16-paced", ALONE),
        ("sse-16-paced", OTHER),
    ]
    assert len(pairs) == len(BY_NAME) + 2


def test_cells_share_what_time_there_is() -> None:
    """Less what each of them takes beside."""
    loads = [BY_NAME["json-16"]]
    chosen = plan([ALONE, OTHER], 60.0, 3, loads)
    beside = OVERHEAD_SECONDS[loads[0].shape]

    assert 3 * 2 * (chosen.seconds + beside) == 60.0


def test_cells_are_never_too_short() -> None:
    """A run that began late takes longer instead."""
    assert plan([ALONE], -5.0, 3).seconds == LEAST_SECONDS
