"""The apps and the provider, without anything in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.gateway.cell import ask
from bench.gateway.children import python, spawn
from bench.gateway.client import Seen, Task, bodies
from bench.gateway.settled import until
from bench.gateway.upstream import held_by, release


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A provider's port."""
    with ExitStack() as stack:
        log: Path = tmp_path_factory.mktemp("upstream") / "log"
        provider = spawn(python("bench.gateway.upstream"), log, stack)
        yield int(provider.wait_for(""))


def test_json_in_a_closed_loop(port: int) -> None:
    """Every request is answered whole, and its time is known."""
    seen = ask(Task(port, streams=False, connections=3, seconds=30.0, most=50))

    assert (seen.requests, seen.broken) == (50, 0)
    assert seen.statuses == {"200": 50}
    assert 0 < seen.latency_ms["p50"] <= seen.latency_ms["p99"]
    assert seen.gap_ms == {}


def test_json_in_an_open_loop(port: int) -> None:
    """As many requests as were due, however many connections there are."""
    seen = ask(Task(port, streams=False, connections=2, seconds=0.5, per_second=100.0))

    assert (seen.requests, seen.broken) == (50, 0)
    assert seen.seconds >= 0.4


def test_streams(port: int) -> None:
    """All chunks arrive, at their pace, and the finish."""
    task = Task(
        port, streams=True, connections=2, seconds=30.0, pace=5, chunks=10, most=4
    )
    seen = ask(task)

    assert (seen.requests, seen.broken) == (4, 0)
    assert seen.chunks == 4 * 11  # the finish is an event as well
    assert seen.latency_ms["p50"] >= 50
    assert seen.first_ms["p50"] < seen.latency_ms["p50"]
    assert seen.gap_ms["p99"] > 0


def test_held_streams_wait_to_be_released(port: int) -> None:
    """The provider tells how many there are; nothing ends before."""
    task = Task(port, True, 3, 30.0, pace="hold", chunks=3, most=3)
    found: list[Seen] = []
    asking = threading.Thread(target=lambda: found.append(ask(task)))
    asking.start()

    assert until(lambda: held_by(port) == 3)
    assert found == []
    assert release(port) == 3
    asking.join(timeout=60)
    assert found[0].requests == 3
    assert held_by(port) == 0


def test_nobody_there_is_an_error_not_a_result(port: int) -> None:
    """So that no figures are made of it."""
    with pytest.raises(Exception, match="non-zero exit status"):
        ask(Task(1, streams=False, connections=1, seconds=0.1))
    assert port != 1


def test_requests_take_keys_and_prompts_in_turn() -> None:
    """Each key once, then again from the first."""
    made = bodies(Task(1, False, 1, 1.0, keys=20, prompt_bytes=100))

    assert len(made) == 20
    assert b"Bearer sk-bench-19\r\n" in made[19]
    assert json.loads(made[0].partition(b"\r\n\r\n")[2])["messages"][0]["content"]
