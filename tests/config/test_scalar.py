"""Names are what fits into a path, a label, and a key of the ledger."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from tokenweir.config import scalar
from tokenweir.core.dialects import by_route
from tokenweir.core.policy import PARTITION_KEYS, OnLedgerFailure

GOOD = [
    (scalar.Name, "a"),
    (scalar.Name, "A-1_b.c"),
    (scalar.Name, "9" * 63),
    (scalar.QuotaName, "burst-2_x"),
    (scalar.ModelName, "meta-llama/Llama-3.1:8b@q4_0"),
    (scalar.ModelName, "m" * 256),
    (scalar.ModelFamily, "gpt-*"),
    (scalar.ModelFamily, "*"),
    (scalar.ModelFamily, "m" * 255 + "*"),
    (scalar.Sha256, "0aF" + "1" * 61),
    (scalar.AbsolutePath, "/etc/ssl/my ca.pem"),
]

BAD = [
    (scalar.Name, ""),
    (scalar.Name, ".a"),
    (scalar.Name, "a" * 64),
    (scalar.Name, "a b"),
    (scalar.Name, "a/b"),
    (scalar.Name, "a\n"),
    (scalar.Name, "ä"),
    (scalar.Name, "{a}"),
    (scalar.QuotaName, "a.b"),
    (scalar.ModelName, "m*"),
    (scalar.ModelName, "m" * 257),
    (scalar.ModelName, "/m"),
    (scalar.ModelFamily, "a*b"),
    (scalar.ModelFamily, "**"),
    (scalar.ModelFamily, ""),
    (scalar.ModelFamily, "m" * 256 + "*"),
    (scalar.Sha256, "0" * 63),
    (scalar.Sha256, "0" * 65),
    (scalar.Sha256, "g" * 64),
    (scalar.AbsolutePath, "ca.pem"),
    (scalar.AbsolutePath, "/"),
    (scalar.AbsolutePath, "/a\x00"),
]


def test_routes_with_tokens() -> None:
    """They are those whose bodies a dialect reads; moderations are free."""
    for route in get_args(scalar.RouteName):
        if route in scalar.TOKEN_ROUTES | {"moderations"}:
            assert by_route(route).route == route
        else:
            with pytest.raises(KeyError):
                by_route(route)


@pytest.mark.parametrize(("kind", "text"), GOOD)
def test_good(kind: Any, text: str) -> None:
    """It is taken as it stands."""
    assert TypeAdapter(kind).validate_python(text) == text


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_bad(kind: Any, text: str) -> None:
    """It is refused."""
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(text)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (scalar.PartitionKey, list(PARTITION_KEYS)),
        (scalar.LedgerFailure, [word.value for word in OnLedgerFailure]),
    ],
)
def test_words_are_those_of_the_core(kind: Any, words: list[str]) -> None:
    """What the core knows can be said, and nothing else."""
    assert TypeAdapter(kind).json_schema()["enum"] == words
