"""What docs/apis.md says of each path is what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.examples import policy
from tokenweir.core.admission import Plan, plan_unread
from tokenweir.core.dialects import COUNTING_FORMS, METERED_FORMS, METERED_PATHS
from tokenweir.core.dialects.path_form import MODEL
from tokenweir.core.events import Headers, RequestHead
from tokenweir.core.identify import (
    HEALTH_PATHS,
    TOKEN_FREE_PATHS,
    Caller,
    Door,
    entry_of,
)
from tokenweir.core.policy import EVERY_PATH, ApiKey, Policy
from tokenweir.core.rejection import PathNotMetered

PAGE = Path(__file__).parent.parent.parent / "docs" / "apis.md"
# | `POST /v1/responses` | tokens | `responses` | in the background: refused |
_ROW = re.compile(r"\| `([A-Z]+) (/[^`]*)` \| (\w+) \| (?:`(\w+)` )?\|")
DOORS = {
    "tokens": {Door.METERED},
    "requests": {Door.TOKEN_FREE},
    "read": {Door.BODILESS},
    "unknown": {Door.UNKNOWN, Door.UNLISTED},
    "never": {Door.LOOKALIKE},
    # Without its headers it is a path that nobody knows: tests/e2e/test_upgrades.py.
    "upgrade": {Door.UNLISTED},
}
VERSION: Headers = (("anthropic-version", "2023-06-01"),)


@dataclass(frozen=True)
class Listed:
    """A row of the page: *door* and *route* as it says them."""

    api: str
    method: str
    path: str
    door: str
    route: str

    @property
    def head(self) -> RequestHead:
        """A request for it, from a caller of that API."""
        headers = VERSION if self.api == "Anthropic" else ()
        path = re.sub(r"\{\w+\}", "x1", self.path)
        return RequestHead(self.method, path, headers)


def listed() -> list[Listed]:
    """Return the page's rows."""
    found, api = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            api = line.removeprefix("## ")
        row = _ROW.match(line)
        if row is not None:
            found.append(Listed(api, row[1], row[2], row[3], row[4] or ""))
    return found


LISTED = listed()
rows = pytest.mark.parametrize(
    "row", LISTED, ids=lambda row: f"{row.api} {row.method} {row.path}"
)


def every(policy: Policy, paths: tuple[str, ...]) -> Policy:
    """Return *policy* with *paths* as what all its providers let pass."""
    providers = {
        name: replace(each, opaque_paths=paths)
        for name, each in policy.providers.items()
    }
    return replace(policy, providers=providers)


@rows
def test_a_path(row: Listed) -> None:
    """It comes to the door that the page says, by the route that it says."""
    entry = entry_of(row.head)

    assert entry.door in DOORS[row.door]
    if row.route:
        assert entry.route == row.route


@rows
def test_what_is_unknown(row: Listed) -> None:
    """It is refused, and where a policy lets it pass, it is no more than a request."""
    if row.door not in ("unknown", "never"):
        return
    entry, found = entry_of(row.head), policy()
    caller = Caller(found.tenants["acme"], ApiKey("-", "acme"))
    refused = plan_unread(every(found, ()), caller, entry)
    passed = plan_unread(every(found, (EVERY_PATH,)), caller, entry)

    assert refused == PathNotMetered(entry.path)
    assert isinstance(passed, Plan) is (row.door == "unknown")


def test_the_page_is_whole() -> None:
    """Whatever is read by a dialect is on the page."""
    forms = (form.text for form in (*METERED_FORMS, *COUNTING_FORMS))
    known = {*METERED_PATHS, *TOKEN_FREE_PATHS, *forms}
    told = {row.path for row in LISTED if row.door in ("tokens", "requests")}

    assert told == known
    assert all(MODEL in path for path in known - {*METERED_PATHS, *TOKEN_FREE_PATHS})
    assert {row.path for row in LISTED if row.route == "other"} == HEALTH_PATHS


def test_each_path_once() -> None:
    """No two rows of an API contradict each other."""
    places = [
        (row.api, row.method, row.path) for row in LISTED if row.door != "upgrade"
    ]

    assert len(places) == len(set(places))
    assert len(LISTED) > 150
