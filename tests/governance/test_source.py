"""A processor has its policy from a file or the ledger, and tells which."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.config.issued import document, entry
from tests.config.policies import ENV, KEY_B, SMALL, edited, write
from tests.governance.documents import PUBLIC, signed
from tests.governance.told import Told
from tests.pod import until
from tests.servers import Server
from tokenweir.config.load import load_policy
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import KEYS
from tokenweir.governance.source import PolicySource, SourceSettings
from tokenweir.ledger.link import Link

DEADLINE_S = 20.0


@pytest.fixture
def told() -> Told:
    """What operators are told."""
    return Told()


@pytest.fixture
async def link(running: Server, client: redis.Redis, told: Told) -> AsyncIterator[Link]:
    """A way to the empty ledger."""
    link = Link(running.url, told, deadline_seconds=30)
    yield link
    await link.close()


def source(
    link: Link, told: Told, folder: Path, path: Path | None = None, **more: Any
) -> PolicySource:
    """Return a source that keeps things in *folder*."""
    settings = SourceSettings(
        path, **{"public_keys": [PUBLIC], **more}, last_good=folder
    )
    return PolicySource(settings, ENV, link, told.use, told)


async def test_a_file_alone(link: Link, told: Told, tmp_path: Path) -> None:
    """Without a governance key nothing that is published counts."""
    path = write(tmp_path, SMALL)
    found = source(link, told, tmp_path / "good", path, public_keys=())
    await found.first(load_policy(path, ENV))
    found.reload()
    await found.stop()

    assert found.described()["source"] == "file"
    assert len(told.loaded) == 1
    assert not (tmp_path / "good").exists()


async def test_a_file_with_published_keys(
    link: Link, told: Told, tmp_path: Path, channel: Channel
) -> None:
    """With one, published keys count beside the file's, and no published policy does."""
    issued = document(entry(id="issued", sha256=KEY_B))
    await channel.publish(signed(3, issued, name=KEYS), after=0)
    await channel.publish(signed(1, SMALL), after=0)
    path = write(tmp_path, SMALL)
    found = source(link, told, tmp_path / "good", path)
    await found.first(load_policy(path, ENV))

    assert found.in_force.policy is not None
    assert len(found.in_force.policy.keys) == 2
    assert told.loaded[-1][1].keys_version == 3
    path.write_text(edited("60000", "70000"))
    found.reload()
    await until(lambda: told.policies[-1].digest != told.loaded[0][0])
    assert len(told.policies[-1].keys) == 2
    await found.stop()


async def test_the_ledger_alone(
    link: Link, told: Told, tmp_path: Path, channel: Channel
) -> None:
    """Who has no file waits, says for what, and goes on once it is there."""
    found = source(link, told, tmp_path / "good")
    assert "has not been asked yet" in found.awaited()
    waiting = asyncio.create_task(found.first(None))
    await until(lambda: "none is published" in found.awaited())
    assert found.described()["awaited"] == found.awaited()
    await channel.publish(signed(1, "tenants: {}"), after=0)
    await until(lambda: "policy 1: " in found.awaited())
    assert "awaited" in found.described()

    await channel.publish(signed(2, SMALL), after=1)

    async with asyncio.timeout(DEADLINE_S):
        await waiting
    shown = found.described()
    assert (shown["source"], shown["version"], shown["ledger"]) == ("ledger", 2, "ok")
    assert shown["refused"] == {}
    await found.stop()


def test_signatures_cost_nothing_where_none_are_verified() -> None:
    """A processor without a governance key does not import the library."""
    code = (
        "import sys, tokenweir.app\n"
        "from tokenweir.governance.source import SourceSettings\n"
        "sys.exit(any('ed25519' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_look(link: Link, told: Told, channel: Channel) -> None:
    """It is looked once, nothing is kept, and nobody follows from then on."""
    await channel.publish(signed(1, SMALL), after=0)
    await channel.publish(signed(2, "tenants: {}"), after=1)
    tasks = asyncio.all_tasks()
    settings = SourceSettings(None, [PUBLIC], last_good=None)
    found = PolicySource(settings, ENV, link, told.use, told)
    assert found.silence == "has not been asked yet"
    await found.look(None)

    assert asyncio.all_tasks() == tasks
    assert found.silence is None
    assert found.in_force.origin.version == 1
    assert found.in_force.base is found.in_force.policy
    assert found.in_force.keys is None
    [line] = found.refused
    assert line.startswith("policy 2: ")


async def test_a_look_at_a_file(link: Link, told: Told, tmp_path: Path) -> None:
    """Where nothing that is published counts, nobody is asked."""
    policy = load_policy(write(tmp_path, SMALL), ENV)
    settings = SourceSettings(tmp_path / "policy.yaml", last_good=None)
    found = PolicySource(settings, ENV, link, told.use, told)
    await found.look(policy)

    assert found.in_force.policy is policy
    assert (found.silence, found.refused) == (None, ())
