"""pydantic's errors become problems that say what to do."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError, core_schema

from tokenweir.config import scalar
from tokenweir.config.schema import PolicyFile
from tokenweir.config.schema_problem import problems_of

CONTENT: dict[str, Any] = {"version": 1, "providers": {}, "models": {}, "tenants": {}}


def told(**fields: object) -> list[str]:
    """Return the problems of a file with *fields*."""
    with pytest.raises(ValidationError) as caught:
        PolicyFile.model_validate({**CONTENT, **fields})
    return [str(problem) for problem in problems_of(caught.value)]


def test_what_is_inside_of_a_budget_has_its_own_fields() -> None:
    """A slip in there is compared with what can be there."""
    exceeded = {"downgrade_to": "a", "hard_limit": 5, "weekday": "monday"}
    quota = {"budget_usd": 5, "anchor": {"dya": 5}, "on_exceeded": exceeded}

    assert told(quotas=[quota]) == [
        "quotas.0.anchor.dya: is unknown; did you mean `day`?",
        ("quotas.0.on_exceeded.hard_limit: is unknown; did you mean `hard_limit_usd`?"),
        (
            "quotas.0.on_exceeded.weekday: is unknown; known here: downgrade_to, "
            "throttle_percent, hard_limit_usd, hard_limit_tokens"
        ),
    ]


def test_a_budget_is_only_known_in_a_quota() -> None:
    """Elsewhere its name is a slip like any other."""
    assert told(budget_usd=5)[0].startswith("budget_usd: is unknown; known here: ")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rpm", "requests_per_minute"),
        ("tpm", "tokens_per_minute"),
        ("burst", "capacity"),
        ("output_tokens", "output_tokens_per_minute"),
        ("moed", "mode"),
    ],
)
def test_hints(name: str, hint: str) -> None:
    """Other words for the same thing and slips of the finger lead to the field."""
    line = told(quotas=[{"concurrency": 1, name: 5}])

    assert line == [f"quotas.0.{name}: is unknown; did you mean `{hint}`?"]


def test_a_wrong_key_is_told_at_its_own_path() -> None:
    """A name that can't be is no error of what it stands for."""
    assert [line.partition(": ")[0] for line in told(tenants={"a b": {}})] == [
        "tenants.a b"
    ]


def test_every_pattern_has_words() -> None:
    """No regular expression is shown to anybody."""
    patterns = [
        value for name, value in vars(scalar).items() if name.endswith("_PATTERN")
    ]
    lines = {
        *told(
            providers={
                "/": {
                    "base_url": "https://a",
                    "dialect": "openai",
                    "ca_file": "",
                    "version_path": "v4",
                }
            },
            models={
                "a*b": {"provider": "a", "upstream_model": "*"},
                "b": {
                    "provider": "a",
                    "tokenize": {"url": "http://a", "header": "a b"},
                },
            },
            tenants={"a": {"keys": [{"id": "a", "sha256": ""}]}},
            quotas=[{"concurrency": 1, "name": "."}],
        )
    }

    assert len({line.partition(": ")[2] for line in lines}) == len(patterns)
    assert not re.search(r"[\\^$\[]", "".join(lines))


def test_a_kind_of_error_that_is_new() -> None:
    """If pydantic ever finds something else, its own words are told."""
    error = ValidationError.from_exception_data(
        "PolicyFile",
        [
            {
                "type": PydanticCustomError("new", "Is wrong {here}"),
                "loc": ("a",),
                "input": 5,
            }
        ],
    )

    assert [str(problem) for problem in problems_of(error)] == ["a: Is wrong {here}"]
    assert "new" not in get_args(core_schema.ErrorType)
