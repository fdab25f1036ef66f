"""A document is put in force if it can be used here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.issued import document, entry
from tests.config.policies import ENV, KEY_B, SMALL, edited
from tests.governance.documents import signed
from tests.governance.told import Told
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy, Secret
from tokenweir.governance.envelope import KEYS, Envelope
from tokenweir.governance.in_force import InForce
from tokenweir.governance.takers import KeysTaker, PolicyTaker


@pytest.fixture
def told() -> Told:
    """What operators are told."""
    return Told()


@pytest.fixture
def in_force(told: Told) -> InForce:
    """Nothing yet."""
    return InForce(told.use, told)


async def test_a_policy(in_force: InForce, told: Told) -> None:
    """It is in force with this pod's secrets, and told with who published it."""
    await PolicyTaker(in_force, ENV).take(signed(7, SMALL), "ledger")

    (policy,) = told.policies
    assert policy.providers["openai"].credential == Secret(ENV["OPENAI_API_KEY"])
    ((digest, origin),) = told.loaded
    assert digest == policy.digest
    assert (origin.source, origin.version, origin.by) == ("ledger", 7, "ann")


async def test_what_can_not_be_prepared(in_force: InForce, told: Told) -> None:
    """What must be done before a policy is in force is done first, or nothing changes."""

    async def prepare(policy: Policy) -> None:
        assert told.policies == []
        raise PolicyError([f"envoy: not with {len(policy.providers)} providers"])

    taker = PolicyTaker(in_force, ENV, prepare=prepare)
    with pytest.raises(PolicyError, match="envoy: not with 2"):
        await taker.take(signed(7, SMALL), "ledger")

    assert told.policies == []
    assert told.loaded == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "empty"),
        ("tenants: {", "line"),
        (SMALL, "OPENAI_API_KEY is not set"),
    ],
)
async def test_a_policy_that_can_not_be_used(
    in_force: InForce, told: Told, content: str, text: str
) -> None:
    """What is no policy, or not one for this pod, changes nothing."""
    taker = PolicyTaker(in_force, {})

    with pytest.raises(PolicyError, match=text):
        await taker.take(signed(7, content), "ledger")
    assert told.policies == []
    assert not await taker.outdated(7)


async def test_files_of_a_policy_are_followed(
    in_force: InForce, tmp_path: Path
) -> None:
    """A secret that is rotated counts, once it was seen twice as it is."""
    secret = tmp_path / "secret"
    secret.write_text("old")
    content = edited("env:OPENAI_API_KEY", f"file:{secret}")
    taker = PolicyTaker(in_force, {})
    await taker.take(signed(7, content), "ledger")
    assert not await taker.outdated(7)
    assert not await taker.outdated(6)

    secret.write_text("new")

    assert [await taker.outdated(7) for _ in range(3)] == [False, True, True]
    await taker.take(signed(7, content), "ledger")
    assert not await taker.outdated(7)
    assert in_force.policy is not None
    assert in_force.policy.providers["openai"].credential == Secret("new")


async def test_a_missing_file_may_come(in_force: InForce, tmp_path: Path) -> None:
    """A version that lacks a file is worth another try once the file is there."""
    secret = tmp_path / "secret"
    content = edited("env:OPENAI_API_KEY", f"file:{secret}")
    taker = PolicyTaker(in_force, {})
    with pytest.raises(PolicyError, match="can't be read"):
        await taker.take(signed(8, content), "ledger")

    secret.write_text("here")

    assert [await taker.outdated(8) for _ in range(2)] == [False, True]
    await taker.take(signed(8, content), "ledger")


def keys(version: int = 3) -> Envelope:
    """Return an issued key, published."""
    issued = document(entry(id="issued", sha256=KEY_B))
    return signed(version, issued, name=KEYS)


async def test_keys(in_force: InForce, told: Told) -> None:
    """They wait for a policy, and are told with it."""
    taker = KeysTaker(in_force)
    await taker.take(keys(), "ledger")
    assert told.loaded == []

    await PolicyTaker(in_force, ENV).take(signed(7, SMALL), "ledger")
    await taker.take(keys(4), "ledger")

    assert len(told.policies[-1].keys) == 2
    assert [origin.keys_version for _, origin in told.loaded] == [3, 4]
    assert not await taker.outdated(4)


async def test_keys_that_can_not_be_used(in_force: InForce, told: Told) -> None:
    """What is no list of keys changes nothing."""
    with pytest.raises(PolicyError):
        await KeysTaker(in_force).take(signed(3, "{}", name=KEYS), "ledger")
    assert told.policies == []
