"""A price file is read whole, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tokenweir.config.prices.overlay import load_overlay
from tokenweir.core.errors import PolicyError
from tokenweir.core.price import PriceList, Rate, Rates, TokenClass


def file(folder: Path, text: str) -> Path:
    """Return a price file with *text*."""
    path = folder / "prices.json"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> tuple[str, ...]:
    """Return what is wrong with *text*."""
    with pytest.raises(PolicyError) as caught:
        load_overlay(file(folder, text))
    return caught.value.problems


def test_prices_and_stand_ins(tmp_path: Path) -> None:
    """Names are kept in lower case, prices as they are written, to the last digit."""
    overlay = load_overlay(
        file(
            tmp_path,
            """{
                "sample_spec": {"input_cost_per_token": "explained here"},
                "GPT-4o": {"input_cost_per_token": 0.000002100001},
                "Our-Deployment": {"base_model": "azure/gpt-4o"},
                "dall-e": {"output_cost_per_image": 0.04},
                "odd": {"base_model": "", "input_cost_per_token": 1e-6}
            }""",
        )
    )

    assert overlay.base_models == {"our-deployment": "azure/gpt-4o"}
    assert sorted(overlay.prices) == ["gpt-4o", "odd"]
    price = overlay.prices["gpt-4o"]
    assert (price.model, price.source) == ("GPT-4o", "prices.json")
    assert price.lists == (PriceList(Rates({TokenClass.INPUT: Rate(2_100_001)})),)


def test_history(tmp_path: Path) -> None:
    """Entries of one model follow each other by date, in whatever order they stand."""
    text = json.dumps(
        {
            "m": [
                {"since": "2026-12-01", "input_cost_per_token": 3e-7},
                {
                    "since": "2026-01-01",
                    "input_cost_per_token": 4e-7,
                    "input_cost_per_token_flex": 2e-7,
                },
            ]
        }
    )
    price = load_overlay(file(tmp_path, text)).prices["m"]
    january_ms, december_ms = 1_767_225_600_000, 1_796_083_200_000

    found = [price.rates(ms) for ms in (0, january_ms, december_ms - 1, december_ms)]
    expected = [400_000, 400_000, 400_000, 300_000]
    assert found == [Rates({TokenClass.INPUT: Rate(n)}) for n in expected]
    assert price.tiers(january_ms) == ("default", "flex")
    assert price.tiers(december_ms) == ("default",)


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Each begins with the place; none repeats a value."""
    text = """{"a": {"input_cost_per_token": 3.0, "output_cost_per_token": "x"},
               "b": 5, "c": [{"since": "soon"}, 7],
               "d": {"base_model": "a"}, "D": {}}"""

    too_much = "must be from 0 to 0.01: USD for one token, not for a million"
    assert problems(tmp_path, text) == (
        f"prices.a.input_cost_per_token: {too_much}",
        "prices.a.output_cost_per_token: must be a number",
        "prices.b: must be an object of prices",
        "prices.c.0.since: must be a date such as 2026-12-01",
        "prices.c.1: must be an object of prices",
        "prices.D: is there twice: capitals make no difference",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": {"input_cost_per_token": NaN}}',
        '{"a": {}, "a": {}}',
        '{"a": {"input_cost_per_token": 1e-6, "input_cost_per_token": 2e-6}}',
        '{"a": {"input_cost_per_token": 1e99999999999999999999}}',
        "[" * 100_000,
    ],
)
def test_no_plain_json(tmp_path: Path, text: str) -> None:
    """Syntax, names that come twice, NaN and depth: the file is refused."""
    assert problems(tmp_path, text) == (
        "prices: must be JSON, with each name once and plain numbers",
    )


def test_no_object(tmp_path: Path) -> None:
    """A list of models is no table of them."""
    assert problems(tmp_path, "[]") == ("prices: must be an object of models",)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is told as such."""
    with pytest.raises(PolicyError, match="prices: can't be read: no such file"):
        load_overlay(tmp_path / "none.json")
