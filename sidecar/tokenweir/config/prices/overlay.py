"""
A file of prices: negotiated ones, those of new models, of one's own machines.

It has the form of litellm's price table, so that a copy of that can be used as it is:

    {"gpt-4o": {"input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06},
     "our-deployment": {"base_model": "azure/gpt-4o"},
     "llama-70b": [{"since": "2026-01-01", "input_cost_per_token": 4e-07, …},
                   {"since": "2026-12-01", "input_cost_per_token": 3e-07, …}]}

An entry takes the place of all that is known of a model from elsewhere: nothing is
mixed from two sources. Numbers are read as decimals, as they are written.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NoReturn

from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.config.prices.entry import BASE_MODEL, read_entry
from tokenweir.config.problem import Path, Problem, listed
from tokenweir.core.errors import PolicyError
from tokenweir.core.price import ModelPrice, PriceList

# litellm's table has 3.5 MB.
MAX_OVERLAY_BYTES = 32 * 1024 * 1024

# An entry of litellm's table that explains the others.
_EXPLANATION = "sample_spec"
_OUTERMOST = "prices"


@dataclass(frozen=True, slots=True)
class Overlay:
    """
    What a file says, by the names of models in lower case.

    Attributes:
        prices: Entries with a price of tokens.
        base_models: Names that stand for another model.
    """

    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    base_models: Mapping[str, str] = field(default_factory=dict)


def load_overlay(path: pathlib.Path, files: Files | None = None) -> Overlay:
    """
    Read the file *path*.

    Raises:
        PolicyError: With every problem, one a line.
    """
    try:
        content = (files or Files()).read(path, MAX_OVERLAY_BYTES)
        document = _parse(content)
    except UnreadableFileError as error:
        raise PolicyError([f"{_OUTERMOST}: {error}"]) from None
    except (ValueError, ArithmeticError, RecursionError):
        raise PolicyError([f"{_OUTERMOST}: {_WRONG_JSON}"]) from None
    return read_overlay(document, f"{path.name}")


def read_overlay(document: object, source: str) -> Overlay:
    """
    Return what *document* says; its numbers are `Decimal`. *source* is its name.

    Raises:
        PolicyError: With every problem, one a line.
    """
    if not isinstance(document, dict):
        raise PolicyError([f"{_OUTERMOST}: must be an object of models"])
    prices: dict[str, ModelPrice] = {}
    base_models: dict[str, str] = {}
    problems: list[Problem] = []
    for name, content in document.items():
        if name == _EXPLANATION:
            continue
        if name.lower() in prices or name.lower() in base_models:
            text = "is there twice: capitals make no difference"
            problems.append(Problem((_OUTERMOST, name), text))
        base = content.get(BASE_MODEL) if isinstance(content, dict) else None
        if isinstance(base, str) and base:
            base_models[name.lower()] = base
            continue
        lists = _lists(name, content, problems)
        if lists:
            prices[name.lower()] = ModelPrice(name, source, tuple(lists))
    if problems:
        raise PolicyError(listed(problems))
    return Overlay(prices, base_models)


def _lists(name: str, content: object, problems: list[Problem]) -> list[PriceList]:
    """Return the price lists of an entry, or of several that follow each other."""
    whole: Path = (_OUTERMOST, name)
    parts = (
        [((*whole, place), part) for place, part in enumerate(content)]
        if isinstance(content, list)
        else [(whole, content)]
    )
    lists: list[PriceList] = []
    for path, part in parts:
        if not isinstance(part, dict):
            problems.append(Problem(path, "must be an object of prices"))
            continue
        entry = read_entry(part)
        lists += entry.lists
        problems += [Problem((*path, place), text) for place, text in entry.problems]
    return _replacing_each_other(lists)


def _replacing_each_other(lists: list[PriceList]) -> list[PriceList]:
    """Return *lists* by date; from the next date on, a tier has what is said then."""
    dates = sorted({prices.since_ms for prices in lists})
    following = dict(itertools.pairwise(dates))
    return [
        replace(prices, until_ms=following.get(prices.since_ms))
        for prices in sorted(lists, key=lambda prices: prices.since_ms)
    ]


_WRONG_JSON = "must be JSON, with each name once and plain numbers"


def _parse(content: bytes) -> object:
    """
    Return the JSON in *content*.

    Raises:
        ValueError, ArithmeticError, RecursionError: It is not plain.
    """
    document: object = json.loads(
        content,
        parse_float=Decimal,
        parse_int=Decimal,
        parse_constant=_refuse,
        object_pairs_hook=_each_once,
    )
    return document


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name twice")
    return members
