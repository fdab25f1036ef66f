"""Paths that name a model."""

from __future__ import annotations

import pytest

from tokenweir.core.dialects.path_form import PathForm

FORM = PathForm("/a.b/{model}:run/x")


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/a.b/m:run/x", "m"),
        ("/a.b/gpt-4.1_mini:run/x", "gpt-4.1_mini"),
        ("/a.b/M..1:run/x", "M..1"),
        ("/aXb/m:run/x", None),
        ("/a.b/:run/x", None),
        ("/a.b/.m:run/x", None),
        ("/a.b/..:run/x", None),
        ("/a.b/m/n:run/x", None),
        ("/a.b/m%2Fn:run/x", None),
        ("/a.b/m:run/x/", None),
        ("/a.b/m:run/x\n", None),
        ("/a.b/m:stop/x", None),
        ("/z/a.b/m:run/x", None),
        ("", None),
    ],
)
def test_model_in(path: str, model: str | None) -> None:
    """A model is found in its place only, and by a plain name only."""
    assert FORM.model_in(path) == model


@pytest.mark.parametrize(
    ("path", "alike"),
    [
        ("/a.b/m:run/x", True),
        ("/A.B/m:RUN/x/", True),
        ("/a.b/m%3Arun%2fx", True),
        ("/a.b/m:run/x/..", True),
        ("/a.b/m:stop/x", False),
        ("/b/m:run/x", False),
    ],
)
def test_is_like(path: str, alike: bool) -> None:
    """What a forgiving server could take for a form is told from what none could."""
    assert FORM.is_like(path) is alike


@pytest.mark.parametrize(
    ("path", "model", "new"),
    [
        ("/a.b/m:run/x", "n", "/a.b/n:run/x"),
        ("/a.b/m:run/x?k=/a.b/m", "n", "/a.b/n:run/x?k=/a.b/m"),
        ("/a.b/m:run/x?", "n", "/a.b/n:run/x?"),
        ("/a.b/m:run/x", "org/n:1?k", "/a.b/org%2Fn%3A1%3Fk:run/x"),
    ],
)
def test_with_model(path: str, model: str, new: str) -> None:
    """Only the model changes, and no name can be more than one."""
    assert FORM.with_model(path, model) == new
