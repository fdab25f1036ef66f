"""The status annotation says what was done, and is never trusted to be ours."""

from __future__ import annotations

import json

import pytest

from tokenweir import __version__
from tokenweir.inject.names import STATUS_ANNOTATION
from tokenweir.inject.status import Status, status_of


def annotated(text: object) -> dict[str, object]:
    """Return a pod with *text* as its status."""
    return {"metadata": {"annotations": {STATUS_ANNOTATION: text}}}


def test_it_is_read_as_it_was_written() -> None:
    """Text and back is the same; what is empty is left out."""
    status = Status(
        mode="native",
        containers=("a", "b"),
        volumes=("v",),
        variables={"app": ("X", "Y")},
        kept={"app": ("Z",)},
    )

    assert status_of(annotated(status.text())) == status
    assert json.loads(Status(skipped="windows").text()) == {
        "skipped": "windows",
        "version": __version__,
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "3", None, "[" * 100_000])
def test_what_is_none(text: object) -> None:
    """Anything else says nothing."""
    assert status_of(annotated(text)) is None


@pytest.mark.parametrize("pod", [{}, {"metadata": None}, {"metadata": {"labels": {}}}])
def test_without_one(pod: dict[str, object]) -> None:
    """A pod that has none says nothing."""
    assert status_of(pod) is None


def test_what_was_edited() -> None:
    """Members of another shape are empty, the others count."""
    said = {"mode": 3, "containers": "x", "variables": {"app": ["X", 1]}, "kept": []}

    assert status_of(annotated(json.dumps(said))) == Status(
        version="", variables={"app": ("X",)}
    )
