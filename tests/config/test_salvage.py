"""What is wrong is left out as narrowly as the schema allows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.config.policies import SMALL
from tokenweir.config.problem import Path
from tokenweir.config.salvage import LeftOut, salvage
from tokenweir.config.schema import PolicyFile


def small() -> Any:
    """Return the small policy's values."""
    return yaml.safe_load(SMALL)


@pytest.mark.parametrize(
    ("wrong", "gone"),
    [
        (("retries",), ("retries",)),
        (("providers",), ("providers",)),
        (("providers", "openai"), ("providers", "openai")),
        (("providers", "openai", "base_url"), ("providers", "openai")),
        (("models", "claude-*", "provider"), ("models", "claude-*")),
        (("timeouts", "slow", "total"), ("timeouts", "slow")),
        (("route_timeouts", "chat"), ("route_timeouts", "chat")),
        (("default_providers", "x"), ("default_providers", "x")),
        (("tenants", "acme"), ("tenants", "acme")),
        (("tenants", "acme", "models", 0), ("tenants", "acme", "models")),
        (("tenants", "acme", "keys"), ("tenants", "acme", "keys")),
        (("tenants", "acme", "keys", 0, "id"), ("tenants", "acme", "keys", 0)),
        (
            ("tenants", "acme", "quotas", 1, "models", 0),
            ("tenants", "acme", "quotas", 1),
        ),
        (
            ("tenants", "acme", "keys", 0, "quotas", 1, "mode"),
            ("tenants", "acme", "keys", 0, "quotas", 1),
        ),
        (("tenants", "acme", "keys", 0, "quotas"), ("tenants", "acme", "keys", 0)),
        (("quotas", 0, "mode"), ("quotas", 0)),
        (("caps", 1, "models", 0), ("caps", 1)),
        (("quotas",), ("quotas",)),
    ],
)
def test_what_goes(wrong: Path, gone: Path) -> None:
    """The entry, item or section around goes; what is left is a file again."""
    rest, left_out = salvage(small(), [wrong])

    assert left_out.paths == {gone}
    assert PolicyFile.model_validate(rest)


def test_items_keep_their_places() -> None:
    """A path in the rest leads back to where the item stands in the file."""
    content = small()
    content["tenants"]["acme"]["quotas"] = [{"concurrency": n} for n in range(1, 6)]
    place = ("tenants", "acme", "quotas")
    rest, left_out = salvage(content, [(*place, 0, "x"), (*place, 3)])

    assert [q["concurrency"] for q in rest["tenants"]["acme"]["quotas"]] == [2, 3, 5]
    assert [left_out.original((*place, n, "models", 1)) for n in range(3)] == [
        (*place, 1, "models", 1),
        (*place, 2, "models", 1),
        (*place, 4, "models", 1),
    ]
    assert left_out.original(("tenants", "acme", "keys", 0)) == (
        "tenants",
        "acme",
        "keys",
        0,
    )


def test_what_must_be_there_is() -> None:
    """A file without anything is filled up, and what was absent counts as gone."""
    rest, left_out = salvage({}, [])

    assert rest == {"version": 1, "providers": {}, "models": {}, "tenants": {}}
    assert left_out.section("models")
    assert not left_out.section("quotas")


def test_names_that_are_gone() -> None:
    """A reference to an entry that is wrong can be told from one to nothing."""
    _, left_out = salvage(small(), [("models", "claude-*"), ("tenants", "acme", "x")])

    assert left_out.names("models") == {"claude-*"}
    assert left_out.names("tenants") == set()
    assert LeftOut().names("models") == set()


def test_what_is_inside() -> None:
    """A place can be asked if it is still whole."""
    left_out = LeftOut(frozenset({("tenants", "acme", "quotas", 1), ("quotas",)}))

    assert left_out.inside(("tenants", "acme", "quotas"))
    assert left_out.inside(("tenants", "acme"))
    assert left_out.inside(("quotas",))
    assert not left_out.inside(("tenants", "acme", "keys"))
    assert not left_out.inside(("tenants", "other", "quotas"))


def test_the_content_stays_as_it_is() -> None:
    """A value that stands in two places may go from one of them."""
    content = small()
    shared = [{"concurrency": 1}, {"concurrency": 2}]
    content["tenants"]["acme"]["quotas"] = content["quotas"] = shared
    rest, _ = salvage(content, [("quotas", 0)])

    assert rest["quotas"] == [{"concurrency": 2}]
    assert rest["tenants"]["acme"]["quotas"] == shared
    assert len(shared) == 2
