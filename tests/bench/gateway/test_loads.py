"""The loads."""

from __future__ import annotations

from bench.gateway.loads import BY_NAME, LOADS, Shape, prompt


def test_loads_have_names_of_their_own() -> None:
    """1, 16 and 64 connections, of both shapes, paced and not."""
    assert len(BY_NAME) == len(LOADS) == 11
    assert {load.connections for load in LOADS} == {1, 16, 64}
    assert all(load.chunk_ms for load in LOADS if load.shape is Shape.SSE)


def test_prompts_have_their_size_and_differ() -> None:
    """The same number gives the same text, so that runs can be compared."""
    assert len(prompt(1, 4_096)) == 4_096
    assert prompt(1) == prompt(1)
    assert prompt(1) != prompt(2)
