"""Entries convert nothing, ignore nothing, and change nothing."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tokenweir.config.entry import Entry


class Shelf(Entry):
    """An entry to try it with."""

    books: int
    label: str | None = None


@pytest.mark.parametrize("books", ["5", 5.0, True, None])
def test_nothing_is_converted(books: object) -> None:
    """What looks like a number is none."""
    with pytest.raises(ValidationError) as caught:
        Shelf.model_validate({"books": books})

    assert [error["loc"] for error in caught.value.errors()] == [("books",)]


def test_nothing_is_ignored() -> None:
    """A field that isn't there is an error of its own, beside the others."""
    with pytest.raises(ValidationError) as caught:
        Shelf.model_validate({"book": 5})

    assert {(error["loc"], error["type"]) for error in caught.value.errors()} == {
        (("books",), "missing"),
        (("book",), "extra_forbidden"),
    }


def test_nothing_is_changed() -> None:
    """An entry is what the file says, for as long as it lives."""
    shelf = Shelf.model_validate({"books": 5})

    with pytest.raises(ValidationError):
        shelf.books = 6
    assert shelf.books == 5


def test_errors_do_not_repeat_values() -> None:
    """One that is in the wrong place may be a secret."""
    with pytest.raises(ValidationError) as caught:
        Shelf.model_validate({"books": "canary", "canary_field": "canary2"})

    assert "canary'" not in str(caught.value)
    assert "canary2" not in str(caught.value)
