"""Which path an answer takes."""

from __future__ import annotations

from tokenweir.core.response_path import (
    AUTO,
    DEFAULT_RESPONSES,
    ResponsePath,
    Responses,
    route_name,
)


def test_by_route() -> None:
    """What a route says counts for it, what all say counts for the others."""
    told = Responses(ResponsePath.NATIVE, {"embeddings": ResponsePath.OBSERVE})

    assert told.path_of("embeddings") is ResponsePath.OBSERVE
    assert told.path_of("messages") is ResponsePath.NATIVE
    assert DEFAULT_RESPONSES.path_of("messages") is AUTO


def test_names_of_routes() -> None:
    """Each path has routes of its own; those in line have no further name."""
    assert route_name("openai", "slow", ResponsePath.INSPECT) == "openai/slow"
    assert route_name("openai", "slow", ResponsePath.NATIVE) == "openai/slow/native"
