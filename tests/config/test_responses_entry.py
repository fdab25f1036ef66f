"""Who reads answers, as policies say it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tokenweir.config.responses_entry import ResponsesEntry


def test_nothing_said() -> None:
    """Then it is whatever is cheapest, on every route."""
    entry = ResponsesEntry()

    assert (entry.path, entry.routes) == ("auto", {})


def test_by_route() -> None:
    """A route may have a path of its own."""
    entry = ResponsesEntry.model_validate(
        {"path": "native", "routes": {"embeddings": "inspect"}}
    )

    assert (entry.path, entry.routes) == ("native", {"embeddings": "inspect"})


@pytest.mark.parametrize(
    "told", [{"path": "lua"}, {"routes": {"nowhere": "native"}}, {"paths": "auto"}]
)
def test_what_is_none(told: dict[str, object]) -> None:
    """Paths, routes and members that there are not are refused."""
    with pytest.raises(ValidationError):
        ResponsesEntry.model_validate(told)
