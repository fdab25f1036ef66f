"""The page on accuracy tells what was measured."""

from __future__ import annotations

import pytest

from bench.accuracy.report import CLAIMED, FAMILIES, PAGE, kept, tables
from bench.page import table_in
from tokenweir.core.model_family import FAMILIES as KNOWN

EXACT = ("o200k_base", "cl100k_base")


@pytest.mark.parametrize("name", ["claimed", "others", "recorded", "prompts"])
def test_the_page_has_the_tables_of_the_result(name: str) -> None:
    """A result that was measured anew and not written into the page shows."""
    assert table_in(PAGE, name) == tables(kept())[name]


def test_every_family_is_told() -> None:
    """None that has figures of its own is left out."""
    assert set(FAMILIES) == set(kept()["text"]) == set(KNOWN) - {"default"}


@pytest.mark.parametrize("language", CLAIMED)
def test_estimates_are_as_good_as_they_are_claimed_to_be(language: str) -> None:
    """What has its own vocabulary is exact; a median is within 7 %, 95 of 100 in 17."""
    for family in FAMILIES:
        found = kept()["text"][family][language]

        assert found["samples"] >= 40
        if family in EXACT:
            assert found["p95"] == found["bias"] == 0
        assert found["median"] <= 7
        assert found["p95"] <= 17
        assert abs(found["bias"]) <= 6
