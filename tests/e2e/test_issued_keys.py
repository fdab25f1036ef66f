"""What `tokenweir keys` publishes holds in every sidecar, within seconds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import sha256, until
from tests.scripted_upstream import LAST_CHUNK, Hold, Step, chunk, reply
from tokenweir.cli.main import main
from tokenweir.governance.envelope import decoded
from tokenweir.governance.key_desk import newest_at
from tokenweir.governance.key_files import public_text, write_private_key

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# What is promised is 2 s; a machine that does other things as well may take longer.
PATIENCE_SECONDS = 30.0
_SECRET = re.compile(r"sk-tw-[A-Za-z0-9_-]{43}")


@dataclass
class Fleet:
    """
    A pod that follows what is published, and somebody who publishes.

    Attributes:
        scene: The pod.
        signing_key: File of the private key.
        secrets: All that were made.
    """

    scene: Scene
    signing_key: Path
    secrets: list[str] = field(default_factory=list)

    async def keys(self, *arguments: str) -> str:
        """Run ``tokenweir keys``; return what it printed."""
        url = self.scene.pod.server.url
        signer = ("--signing-key", f"file:{self.signing_key}")
        command = ["keys", *arguments, "--ledger", url, *signer]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert await asyncio.to_thread(main, command) == 0
        self.secrets += _SECRET.findall(out.getvalue())
        return out.getvalue()

    async def issue(self, key_id: str, *scopes: str) -> str:
        """Return the secret of a new key of tenant acme."""
        await self.keys("new", "--id", key_id, "--tenant", "acme", *scopes)
        return self.secrets[-1]

    async def ask(self, key: str, api: Api = OPENAI, **members: Any) -> Answer:
        """Return the answer to a call with *key*."""
        body = api.request(stream=False, **members)
        return await self.scene.call(body, key=key, path=api.path)

    async def until_told(self, key: str, refusal: str | None) -> Answer:
        """Return the first answer to *key* with *refusal* (None: with none)."""
        began, answers = time.monotonic(), []

        async def is_told() -> bool:
            answers.append(await self.ask(key))
            return answers[-1].refusal == refusal

        await until(is_told, PATIENCE_SECONDS)
        took = time.monotonic() - began
        print(f"{refusal or 'works'} after {took:.2f} s")  # noqa: T201 - with -s
        return answers[-1]


def signing_key(folder: Path) -> Iterator[Path]:
    """Write a signing key, and the public one beside it."""
    private = Ed25519PrivateKey.generate()
    write_private_key(folder / "key.pem", private)
    (folder / "key.pub").write_text(public_text(private.public_key()))
    yield folder / "key.pem"


def adapt(content: dict[str, Any]) -> None:
    """Let tenant acme work without a ledger."""
    content["tenants"]["acme"]["on_ledger_failure"] = "open"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet() -> AsyncIterator[Fleet]:
    """Give the module a pod that follows published keys."""
    with tempfile.TemporaryDirectory() as folder:
        (private,) = signing_key(Path(folder))
        public = f"file:{private.with_suffix('.pub')}"
        arguments = ["--ledger-timeout-ms", "500", "--governance-key", public]
        options = {"arguments": arguments}
        async with Scene.relayed(options=options, adapt=adapt) as scene:
            scene.upstream.choose(
                lambda asked: [
                    reply(
                        (OPENAI if "chat" in asked.target else ANTHROPIC).reply("Hi.")
                    )
                ]
            )
            yield Fleet(scene, private)


async def test_a_key_works_until_it_is_revoked(fleet: Fleet) -> None:
    """It is known, and refused, within seconds; an open stream comes to its end."""
    key = await fleet.issue("short-lived")
    assert (await fleet.until_told(key, None)).status == 200

    gate = asyncio.Event()
    first, *others = story(OPENAI)
    script: list[Step] = [
        STREAM_HEAD,
        chunk(first),
        Hold(gate),
        *map(chunk, others),
        LAST_CHUNK,
    ]
    fleet.scene.upstream.play_next(*script)
    async with Connection.open(fleet.scene.pod.port) as app:
        await app.send(request(OPENAI.request(), key=key))
        await app.head()
        await app.chunk()
        await fleet.keys("revoke", "short-lived")
        answer = await fleet.until_told(key, "revoked_key")
        gate.set()
        rest = await app.rest()

    error = expect(answer, OPENAI, 401, "revoked_key")
    assert error["code"] == "invalid_api_key"
    assert "was revoked at" in error["message"]
    assert OPENAI.end() in rest
    await fleet.scene.pod.settled()
    records = await fleet.scene.pod.ledger.records()
    mine = [record for record in records if record["key"] == "short-lived"]
    assert len(mine) >= 2
    assert {record["outcome"] for record in mine} == {"completed"}


async def test_a_rotated_key_has_two_secrets_for_a_while(fleet: Fleet) -> None:
    """Both work until the grace ends; then the old one is told why it does not."""
    old = await fleet.issue("rotated")
    await fleet.until_told(old, None)
    await fleet.keys("rotate", "rotated", "--grace", "1h")
    new = fleet.secrets[-1]
    await fleet.until_told(new, None)

    assert (await fleet.ask(old)).status == 200
    await fleet.keys("rotate", "rotated", "--grace", "0")
    newest = fleet.secrets[-1]
    await fleet.until_told(newest, None)
    for ended in (old, new):
        error = expect(await fleet.ask(ended), OPENAI, 401, "rotated_key")
        assert "Use the new one" in error["message"]


async def test_a_key_has_less_than_its_tenant(fleet: Fleet) -> None:
    """Other models and routes are refused, and its own limit is named."""
    quota = "{requests_per_minute: 1, capacity: 2}"
    scopes = (
        "--models",
        "gpt-4o-mini",
        "--routes",
        "chat_completions",
        "--quota",
        quota,
    )
    key = await fleet.issue("bound", *scopes)
    await until(lambda: _is_known(fleet, key), PATIENCE_SECONDS)

    expect(await fleet.ask(key, model="gpt-4o"), OPENAI, 403, "model_not_allowed")
    refused = await fleet.ask(key, ANTHROPIC)
    error = expect(refused, ANTHROPIC, 403, "route_not_allowed")
    assert error["tokenweir"]["route"] == "messages"
    statuses = [(await fleet.ask(key, model="gpt-4o-mini")).status for _ in range(2)]
    assert statuses == [200, 200]
    error = expect(
        await fleet.ask(key, model="gpt-4o-mini"), OPENAI, 429, "quota_exhausted"
    )
    assert error["tokenweir"]["quota"] == "acme/bound.requests_per_minute"
    assert error["tokenweir"]["partition"] == "tenant=acme,key=bound"


async def _is_known(fleet: Fleet, key: str) -> bool:
    """Tell it by a call that takes nothing."""
    return (await fleet.ask(key, ANTHROPIC)).refusal != "unknown_key"


async def test_a_key_expires(fleet: Fleet) -> None:
    """Nobody has to do anything for that; the refusal says since when."""
    key = await fleet.issue("expiring", "--expires", "2s")
    answer = await fleet.until_told(key, "expired_key")

    error = expect(answer, OPENAI, 401, "expired_key")
    assert error["tokenweir"]["since"] in error["message"]
    assert (await fleet.ask(key, ANTHROPIC)).json()["error"]["type"] == (
        "authentication_error"
    )


async def test_a_dead_ledger_takes_no_key_away(fleet: Fleet) -> None:
    """What was published last stays in force."""
    good, bad = await fleet.issue("good"), await fleet.issue("bad")
    await fleet.keys("revoke", "bad")
    await fleet.until_told(bad, "revoked_key")
    relay = fleet.scene.relay
    assert relay is not None
    relay.drops_replies = True
    try:
        flags = (await fleet.ask(good)).status, (await fleet.ask(bad)).refusal
    finally:
        relay.drops_replies = False

    assert flags == (200, "revoked_key")
    await until(fleet.scene.pod.ledger.nothing_held)


async def test_an_emptied_ledger_brings_nothing_back(fleet: Fleet) -> None:
    """No key is lost by it, none is revived; changes go on from what was kept."""
    good, bad = await fleet.issue("kept"), await fleet.issue("gone")
    await fleet.keys("revoke", "gone")
    await fleet.until_told(bad, "revoked_key")
    await fleet.scene.pod.settled()
    folder = fleet.scene.pod.processors[0].socket.parent / "tokenweir-last-good"
    kept, newest = folder / "keys.json", await newest_at(fleet.scene.pod.server.url, ())
    await until(lambda: kept.exists() and decoded(kept.read_bytes()) == newest)
    await fleet.scene.redis("FLUSHALL")
    public = f"file:{fleet.signing_key.with_suffix('.pub')}"
    restore = ["policy", "restore", str(kept), "--governance-key", public]
    url = fleet.scene.pod.server.url
    assert await asyncio.to_thread(main, [*restore, "--ledger", url]) == 0
    await fleet.until_told(await fleet.issue("later"), None)

    assert (await fleet.ask(good)).status == 200
    assert (await fleet.ask(bad)).refusal == "revoked_key"


async def test_nothing_tells_a_key(fleet: Fleet) -> None:
    """Neither secrets nor hashes are in logs, metrics or what else can be read."""
    [processor] = fleet.scene.pod.processors
    told = processor.log.read_text() + processor.admin("/metrics")
    listed = await asyncio.to_thread(_listed, fleet)

    assert len(fleet.secrets) >= 5
    for secret in fleet.secrets:
        assert secret not in told + listed
        assert sha256(secret) not in told + listed


def _listed(fleet: Fleet) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(["keys", "list", "--ledger", fleet.scene.pod.server.url])
        main(["keys", "list", "--json", "--ledger", fleet.scene.pod.server.url])
    return out.getvalue()
