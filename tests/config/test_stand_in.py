"""A copy of a file in which something right stands in for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.config.policies import SMALL
from tokenweir.config.budget_fit import misfits
from tokenweir.config.problem import Path, Problem
from tokenweir.config.schema import PolicyFile
from tokenweir.config.stand_in import stand_in

QUOTA: Path = ("tenants", "acme", "quotas", 0)
BUDGETS = {"budget", "budget_usd", "budget_tokens"}


def small() -> Any:
    """Return the small policy's values."""
    return yaml.safe_load(SMALL)


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        (("providers", "openai"), {"base_url": 1, "dialect": 2, "zzz": 3}),
        (("providers", "openai"), {"credential": 1, "allow_plaintext": "yes"}),
        (("models", "gpt-4o-mini"), {"provider": 1, "max_output_tokens": 0}),
        (
            ("tenants", "acme", "keys", 0),
            {"id": 1, "sha256": 2, "models": 3, "expires_at": 4},
        ),
        (QUOTA, {"requests_per_minute": "x", "mode": 1, "partition": 2}),
        (("tenants", "acme", "keys", 0), {"routes": ["x"], "quotas": 5}),
        (QUOTA, {"rpm": 1}),
        (QUOTA, {"budget_usd": "x", "per": "year", "anchor": 1, "on_exceeded": 5}),
        (QUOTA, {"budget_tokens": "x", "time_zone": 1, "alerts": 1}),
        (QUOTA, {"budget": 1, "time_zone": 1}),
    ],
)
def test_each_field_has_a_stand_in(entry: Path, fields: dict[str, Any]) -> None:
    """With what stands in the schema has nothing to say, and the entry is still there."""
    content = small()
    place = content
    for part in entry:
        place = place[part]
    place.update(fields)
    if "rpm" in fields or not fields.keys().isdisjoint(BUDGETS):
        del place["requests_per_minute"]
    made = stand_in(content, [(*entry, name) for name in fields])

    file = PolicyFile.model_validate(made.content)
    assert len(file.providers) == len(file.models) == 2
    assert len(file.tenants["acme"].quotas) == 2
    assert made.entries == {entry}
    assert made.fields == {(*entry, name) for name in fields}


def test_a_stand_in_fits_the_rest() -> None:
    """What only budgets have is not wrong because the amount is, nor is an anchor."""
    content = small()
    quota = content["tenants"]["acme"]["quotas"][0]
    del quota["requests_per_minute"]
    quota |= {"budget": 5, "per": "weekly", "anchor": {"weekday": "sunday"}}
    made = stand_in(content, [(*QUOTA, "budget"), (*QUOTA, "per")])

    file = PolicyFile.model_validate(made.content)
    assert list(misfits(file.tenants["acme"].quotas[0])) == []


def test_fields_that_do_not_go_together() -> None:
    """A quota that is wrong as a whole gets another axis, and keeps the rest."""
    content = small()
    content["tenants"]["acme"]["quotas"][0] = {
        "concurrency": 1,
        "capacity": 2,
        "routes": [],
    }
    made = stand_in(content, [QUOTA])

    quotas = made.content["tenants"]["acme"]["quotas"]
    assert quotas[0] == {"tokens_per_minute": 1, "routes": []}


def test_an_entry_with_a_wrong_name_has_another() -> None:
    """It is still looked at, and what is found is told of the name in the file."""
    content = small()
    content["models"]["a b"] = {"provider": "nobody", "max_output_tokens": 0}
    made = stand_in(
        content, [("models", "a b"), ("models", "a b", "max_output_tokens")]
    )
    (name,) = made.content["models"].keys() - content["models"].keys()

    told = made.told([Problem(("models", name, "provider"), "is unknown")])
    assert PolicyFile.model_validate(made.content)
    assert list(told) == [Problem(("models", "a b", "provider"), "is unknown")]


def test_only_what_the_file_has_too_is_told() -> None:
    """Nothing is told of other entries, of stand-ins, and of quotas that are alike."""
    made = stand_in(small(), [(*QUOTA, "requests_per_minute")])
    of_others = [
        Problem(("models", "gpt-4o-mini", "provider"), ""),
        Problem((*QUOTA, "requests_per_minute"), ""),
        Problem((*QUOTA, "name"), ""),
        Problem((*QUOTA[:3], 1, "models"), ""),
    ]
    own = Problem((*QUOTA, "models", 0), "matches nothing")

    assert list(made.told([*of_others, own])) == [own]


@pytest.mark.parametrize(
    "wrong",
    [
        ("retries",),
        ("providers", "nobody", "dialect"),
        ("tenants", "acme", "quotas", 9, "mode"),
        ("tenants", "acme", "quotas", 9),
        ("models", "gpt-4o-mini", "provider", "deep", 0),
        ("timeouts", "slow"),
    ],
)
def test_what_is_not_there_is_no_trouble(wrong: Path) -> None:
    """A path that leads nowhere changes nothing, and the content stays as it is."""
    content = small()
    before = yaml.safe_dump(content)
    stand_in(content, [wrong])

    assert yaml.safe_dump(content) == before
