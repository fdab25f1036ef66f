"""A policy and issued keys come separately, and are in force together."""

from __future__ import annotations

import pytest

from tests.config.issued import document, entry
from tests.config.policies import ENV, KEY_B, SMALL, edited
from tests.governance.documents import NOON_MS
from tests.governance.told import Told
from tokenweir.config.issued_keys import parse_issued_keys
from tokenweir.config.load import parse_policy
from tokenweir.governance.in_force import InForce, IssuedKeys, moment
from tokenweir.telemetry.hooks import FROM_FILE, Origin

POLICY = parse_policy(SMALL.encode(), ENV)
OTHER = parse_policy(edited("60000", "70000").encode(), ENV)
PUBLISHED = Origin("ledger", 7, "ann", NOON_MS, "why not")


def issued(version: int = 3, tenant: str = "acme") -> IssuedKeys:
    """Return one issued key."""
    entries = parse_issued_keys(
        document(entry(id="issued", sha256=KEY_B, tenant=tenant))
    )
    return IssuedKeys(entries, version, "bob", NOON_MS)


@pytest.fixture
def told() -> Told:
    """What operators are told."""
    return Told()


@pytest.fixture
def in_force(told: Told) -> InForce:
    """Nothing yet."""
    return InForce(told.use, told)


def test_nothing_yet(in_force: InForce, told: Told) -> None:
    """Keys alone are no policy."""
    in_force.take_keys(issued())

    assert told.policies == []
    assert in_force.described() == {"source": None}


def test_a_file_alone(in_force: InForce, told: Told) -> None:
    """Without issued keys a file's policy is in force as it is."""
    in_force.take_policy(POLICY)
    in_force.policy_loaded(POLICY.digest)

    assert told.policies == [POLICY]
    assert told.loaded == [(POLICY.digest, FROM_FILE)]
    assert in_force.described() == {"source": "file", "digest": POLICY.digest}


@pytest.mark.parametrize("keys_first", [True, False])
def test_both(in_force: InForce, told: Told, keys_first: bool) -> None:
    """Whatever comes first, both count in the end, and both are told."""
    if keys_first:
        in_force.take_keys(issued())
        in_force.take_policy(POLICY, PUBLISHED)
    else:
        in_force.take_policy(POLICY, PUBLISHED)
        in_force.take_keys(issued())

    assert in_force.policy is told.policies[-1]
    assert {key.id for key in told.policies[-1].keys.values()} == {"acme-ci", "issued"}
    assert in_force.origin.keys_version == 3
    assert in_force.described() == {
        "source": "ledger",
        "digest": POLICY.digest,
        "version": 7,
        "by": "ann",
        "published_at": "2026-11-30T12:00:00Z",
        "comment": "why not",
        "keys": {
            "version": 3,
            "by": "bob",
            "published_at": "2026-11-30T12:00:00Z",
            "count": 1,
            "ignored": [],
        },
    }


def test_keys_stay_when_the_policy_changes(in_force: InForce, told: Told) -> None:
    """Each change of one is put together with the newest of the other."""
    in_force.take_policy(POLICY)
    in_force.take_keys(issued())
    in_force.take_policy(OTHER)
    in_force.take_keys(IssuedKeys((), 4, "bob", NOON_MS))

    ids = [{key.id for key in policy.keys.values()} for policy in told.policies]
    assert ids == [{"acme-ci"}, *[{"acme-ci", "issued"}] * 2, {"acme-ci"}]
    assert in_force.origin.keys_version == 4


def test_keys_that_do_not_count_are_shown(in_force: InForce) -> None:
    """A key of a tenant that the policy does not have stops nobody."""
    in_force.take_policy(POLICY)
    in_force.take_keys(issued(tenant="gone"))

    assert in_force.policy == POLICY
    assert "no tenant gone" in str(in_force.described()["keys"])


def test_what_a_watcher_tells_is_passed_on(in_force: InForce, told: Told) -> None:
    """A file that can't be used, and faults, are told as they are."""
    in_force.policy_refused(("tenants: missing",))
    in_force.fault("policy_watcher", ValueError())

    assert told.refused == ["tenants: missing"]
    assert [where for where, _ in told.faults] == ["policy_watcher"]


def test_moments() -> None:
    """A publisher's clock may be anywhere."""
    assert moment(0) == "1970-01-01T00:00:00Z"
    assert moment(2**53 - 1) == str(2**53 - 1)
