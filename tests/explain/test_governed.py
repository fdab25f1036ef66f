"""What governs is looked up as a sidecar does it, and nothing is kept or written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.config.issued import NOON, document, entry
from tests.config.policies import ENV, KEY_A, KEY_B, SMALL, edited, load
from tests.governance.documents import PUBLIC, STRANGER, draft, signed
from tests.ledger_view import Silent
from tests.servers import Server, start_valkey
from tokenweir.config.outside import look_up_prices
from tokenweir.core.identify import Caller, identify
from tokenweir.core.rejection import UnknownKey
from tokenweir.explain.governed import (
    Governed,
    UngovernedError,
    UntoldError,
    by_file,
    by_key_id,
    governed,
)
from tokenweir.explain.question import UnknownKeyIdError, question_of
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import KEYS, sign
from tokenweir.governance.source import PolicySource, SourceSettings
from tokenweir.ledger.link import Link

KEY_C, KEY_D = "c" * 64, "d" * 64


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A ledger for the module."""
    server = start_valkey(tmp_path_factory.mktemp("governed"))
    yield server
    server.stop()


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[Channel]:
    """Where to publish; nothing is, yet."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    async with Channel.open(server.url) as channel:
        yield channel


async def ask(server: Server, folder: Path | None = None, **more: Any) -> Governed:
    """Return what governs: with *folder*, by a policy file in it."""
    env = more.pop("env", ENV)
    settings = SourceSettings(
        folder and folder / "policy.yaml",
        **{"public_keys": [PUBLIC], "last_good": None, **more},
    )
    link = Link(server.url, Silent(), deadline_seconds=30)
    try:
        policy = load(folder) if folder else None
        return await governed(settings, env, link, policy)
    finally:
        await link.close()


def test_a_file(tmp_path: Path) -> None:
    """Alone it says all, and no key was issued."""
    policy = load(tmp_path)
    found = by_file(policy)

    assert found.policy is policy
    assert found.described == {"source": "file", "digest": policy.digest}
    assert not found.follows_keys
    assert not found.is_issued(*policy.keys.values())
    assert found.why_ignored(key_id="acme-ci", digest=KEY_A) == ""


async def test_what_is_published(server: Server, channel: Channel) -> None:
    """The newest policy, with the keys that were issued; nothing in the ledger changes."""
    await channel.publish(signed(1, edited("600}", "5}")), after=0)
    await channel.publish(signed(2, SMALL, comment="more"), after=1)
    issued = entry(id="issued", sha256=KEY_B, models=["gpt-4o-mini"])
    revoked = entry(id="gone", sha256=KEY_C, revoked_at=NOON)
    await channel.publish(signed(5, document(issued, revoked), name=KEYS), after=0)
    with redis.Redis.from_url(server.url) as client:
        before = {key: client.dump(key) for key in client.scan_iter()}
        found = await ask(server)
        assert {key: client.dump(key) for key in client.scan_iter()} == before

    shown = found.described
    assert (shown["source"], shown["version"], shown["comment"]) == (
        "ledger",
        2,
        "more",
    )
    assert shown["keys"]["version"] == 5  # type: ignore[index]
    assert found.follows_keys
    assert set(found.policy.keys) == {KEY_A, KEY_B, KEY_C}
    assert {key.id for key in found.issued} == {"issued", "gone"}
    assert found.is_issued(found.policy.keys[KEY_B])
    assert not found.is_issued(found.policy.keys[KEY_A])
    assert [each.id for each in found.entries] == ["issued", "gone"]
    assert (found.refused, found.ignored) == ((), ())


async def test_a_file_with_issued_keys(
    server: Server, channel: Channel, tmp_path: Path
) -> None:
    """The file's policy, whatever else is published; which keys do not count, and why."""
    await channel.publish(signed(1, edited("600}", "5}")), after=0)
    keys = document(
        entry(id="acme-ci", sha256=KEY_B),
        entry(id="strange", tenant="globex", sha256=KEY_C),
        entry(id="issued", sha256=KEY_D),
    )
    await channel.publish(signed(1, keys, name=KEYS), after=0)
    found = await ask(server, tmp_path)

    assert found.described["source"] == "file"
    assert found.policy.digest == load(tmp_path).digest
    assert set(found.policy.keys) == {KEY_A, KEY_D}
    line = "issued key strange: the policy has no tenant globex, so it is ignored"
    assert found.why_ignored(key_id="strange") == line
    assert found.why_ignored(digest=KEY_C) == line
    assert found.why_ignored(key_id="strang") == ""
    assert found.why_ignored(key_id="issued", digest=KEY_D) == ""
    assert "a key of this id" in found.why_ignored(key_id="acme-ci")
    assert len(found.ignored) == 2


async def test_by_key_id(server: Server, channel: Channel, tmp_path: Path) -> None:
    """A key that counts is known; one that sidecars ignore is not, as for its app."""
    strange = entry(id="strange", tenant="globex", sha256=KEY_C)
    keys = document(strange, entry(id="issued", sha256=KEY_D))
    await channel.publish(signed(1, keys, name=KEYS), after=0)
    found = await ask(server, tmp_path)
    question = question_of(found.policy, b"")

    named = by_key_id(question, found, "issued")
    who = identify(named.policy, named.head.headers)
    assert isinstance(who, Caller)
    assert found.is_issued(who.key)
    named = by_key_id(question, found, "strange")
    assert isinstance(identify(named.policy, named.head.headers), UnknownKey)
    with pytest.raises(UnknownKeyIdError, match="acme-ci, issued"):
        by_key_id(question, found, "nobody")


async def test_what_is_forged(server: Server, channel: Channel) -> None:
    """It is not used, and that is told; the one before is, as in a sidecar's start."""
    await channel.publish(signed(1, SMALL), after=0)
    forged = sign(draft(2, edited("600}", "9}")), STRANGER)
    await channel.publish(forged, after=1)
    issued = sign(
        draft(1, document(entry(id="mine", sha256=KEY_B)), name=KEYS), STRANGER
    )
    await channel.publish(issued, after=0)
    found = await ask(server)

    assert found.described["version"] == 1
    assert set(found.policy.keys) == {KEY_A}
    assert [line.partition(" is not signed by")[0] for line in found.refused] == [
        "policy 2:",
        "keys 1:",
    ]


async def test_nothing_good(server: Server, channel: Channel) -> None:
    """Nothing governs, and it is told what is missing or wrong."""
    with pytest.raises(UngovernedError, match="none is published"):
        await ask(server)
    await channel.publish(sign(draft(1, SMALL), STRANGER), after=0)
    with pytest.raises(UngovernedError, match="policy 1: is not signed by the holder"):
        await ask(server)
    await channel.publish(signed(2, "version: 1\n"), after=1)
    with pytest.raises(UngovernedError, match="policy 2: providers: "):
        await ask(server)


async def test_secrets_that_are_not_at_hand(server: Server, channel: Channel) -> None:
    """A policy whose secrets are elsewhere is no policy here, unless that is all right."""
    await channel.publish(signed(1, SMALL), after=0)
    with pytest.raises(UngovernedError, match="OPENAI_API_KEY is not set"):
        await ask(server, env={})
    found = await ask(server, env={}, look=look_up_prices)

    assert found.policy.providers["openai"].credential
    assert found.described["version"] == 1


async def test_a_ledger_that_does_not_tell(server: Server) -> None:
    """Silence is told, and so is a user that may not read."""
    nowhere = f"{server.url}.none"
    link = Link(nowhere, Silent())
    settings = SourceSettings(None, [PUBLIC], last_good=None)
    with pytest.raises(UntoldError, match="no answer: ConnectionError"):
        await governed(settings, ENV, link, None)
    await link.close()

    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "+ping")
    link = Link(server.url.replace("unix://", "unix://blind:pw@"), Silent())
    with pytest.raises(UntoldError, match="NoPermissionError"):
        await governed(settings, ENV, link, None)
    await link.close()


async def test_a_fault_of_ours(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no answer, and told by its type alone."""

    async def broken(source: PolicySource, policy: object) -> None:
        del policy
        source.in_force.fault("governance", RuntimeError("CANARY"))

    monkeypatch.setattr(PolicySource, "look", broken)
    with pytest.raises(UntoldError, match="broke: governance: RuntimeError") as caught:
        await ask(server)
    assert "CANARY" not in str(caught.value)
