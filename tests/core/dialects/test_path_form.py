"""Paths that name a model."""

from __future__ import annotations

import pytest

from tokenweir.core.dialects.path_form import PathForm, forgiven

FORM = PathForm("/a.b/{model}:run/x")
CODED = PathForm("/m/{model}/run", coded=True)


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
    ("path", "model"),
    [
        ("/m/us.a-1_b/run", "us.a-1_b"),
        ("/m/a-v1:0/run", "a-v1:0"),
        ("/m/a-v1%3A0/run", "a-v1:0"),
        ("/m/arn%3aaws%3Ab%2Fus.a@1/run", "arn:aws:b/us.a@1"),
        ("/m/%61/run", "a"),
        ("/m/a/b/run", None),
        ("/m/a%252Fb/run", None),
        ("/m/a%2F..%2Fb/run", None),
        ("/m/a%2F.%2Fb/run", None),
        ("/m/a%2F%2Fb/run", None),
        ("/m/a%2F/run", None),
        ("/m/%2Fa/run", None),
        ("/m/%2E%2E/run", None),
        ("/m/a%5Cb/run", None),
        ("/m/a%00/run", None),
        ("/m/a%0A/run", None),
        ("/m/a%C3%A9/run", None),
        ("/m/a%20b/run", None),
        ("/m/a%3Fb/run", None),
        ("/m/a%2/run", None),
        ("/m/a%zz/run", None),
        ("/m//run", None),
        ("/m/a/run/", None),
    ],
)
def test_coded_names(path: str, model: str | None) -> None:
    """A name may be percent-encoded, but what it stands for reads in one way only."""
    assert CODED.model_in(path) == model
    if model is not None:
        assert CODED.model_in(CODED.with_model(path, model)) == model


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
    assert FORM.is_like(forgiven(path)) is alike


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
