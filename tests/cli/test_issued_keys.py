"""Keys are issued, listed, rotated and revoked through a real ledger."""

from __future__ import annotations

import asyncio
import hashlib
import json
import pathlib
import re
from typing import Any

import pytest
import redis

from tests.config.policies import SMALL
from tests.governance.documents import PRIVATE, PUBLIC, STRANGER, draft, signed
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.config.moment import parse_moment_ms
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import KEYS, Envelope, encoded
from tokenweir.governance.key_desk import newest_at
from tokenweir.governance.key_files import public_text, write_private_key

SECRET = re.compile(r"^  (sk-tw-[A-Za-z0-9_-]{43})$", re.MULTILINE)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def signer(tmp_path: pathlib.Path) -> tuple[str, ...]:
    """The options of somebody who signs."""
    path = tmp_path / "ann.pem"
    write_private_key(path, PRIVATE)
    return ("--signing-key", f"file:{path}", "--by", "ann")


def newest(server: Server) -> Envelope:
    """Return what is published, signed as it has to be."""
    envelope = asyncio.run(newest_at(server.url, [PUBLIC]))
    assert envelope is not None
    return envelope


def entries(server: Server) -> list[dict[str, Any]]:
    """Return the entries that are published."""
    found: list[dict[str, Any]] = json.loads(newest(server).content)["keys"]
    return found


def secret_in(out: str) -> str:
    """Return the one secret that was printed."""
    (secret,) = SECRET.findall(out)
    assert out.count(secret) == 1
    return str(secret)


def sha256(secret: str) -> str:
    """Return what is published of it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new(server: Server, signer: tuple[str, ...], key_id: str = "ci", *more: str) -> int:
    """Issue a key of tenant acme; return the exit code."""
    known = ("--id", key_id, "--tenant", "acme", "--ledger", server.url)
    return main(["keys", "new", *known, *signer, *more])


def test_a_key_is_issued(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """Its secret is on stdout once, its hash in what is published, signed."""
    quota = "{budget_usd: 0.1, per: day}"
    scopes = ("--models", "gpt-*", "--routes", "messages", "--quota", quota)

    assert new(ledger, signer, "ci", *scopes, "--expires", "90d") == 0
    out, err = capsys.readouterr()
    secret = secret_in(out)
    [entry] = entries(ledger)
    expires_ms = parse_moment_ms(entry.pop("expires_at"))
    created_ms = parse_moment_ms(entry.pop("created_at"))
    assert entry == {
        "id": "ci",
        "tenant": "acme",
        "sha256": sha256(secret),
        "models": ["gpt-*"],
        "routes": ["messages"],
        "quotas": [{"budget_usd": 0.1, "per": "day"}],
    }
    assert abs(expires_ms - created_ms - 90 * 86_400_000) <= 5_000
    assert err == ""
    envelope = newest(ledger)
    assert (envelope.version, envelope.by, envelope.comment) == (1, "ann", "issue ci")
    assert secret not in envelope.content


def test_a_key_that_nobody_takes(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """A mistyped tenant is noticed, if there is a published policy to see it by."""
    publish(ledger, signed(1, SMALL))

    assert new(ledger, signer, "app") == 0
    assert capsys.readouterr().err == ""
    assert new(ledger, signer, "acme-ci") == 0
    assert capsys.readouterr().err.startswith("Note: The published policy has a key")


def test_a_key_is_rotated(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """There is a new secret, and the old one has an end."""
    new(ledger, signer)
    old = secret_in(capsys.readouterr().out)
    rotate = ["keys", "rotate", "ci", "--ledger", ledger.url, *signer]

    assert main([*rotate, "--grace", "1h"]) == 0
    out = capsys.readouterr().out
    assert "the old one works until" in out
    first, second = entries(ledger)
    assert (first["sha256"], second["sha256"]) == (sha256(old), sha256(secret_in(out)))
    assert second["rotated_from"] == first["sha256"]
    assert "expires_at" in first
    assert main([*rotate, "--grace", "0"]) == 0
    assert "the old one is refused" in capsys.readouterr().out
    assert newest(ledger).comment == "rotate ci"


def test_a_key_is_revoked(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """It stays as revoked; a second time is told as that."""
    new(ledger, signer)
    revoke = ["keys", "revoke", "ci", "--ledger", ledger.url, *signer]

    assert main(revoke) == 0
    assert "Key ci is revoked" in capsys.readouterr().out
    assert "revoked_at" in entries(ledger)[0]
    assert main(revoke) == 1
    assert "revoked already" in capsys.readouterr().err
    assert newest(ledger).version == 2


def test_keys_are_listed(
    ledger: Server, signer: tuple[str, ...], tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """For people and machines; whoever names public keys knows that it is true."""
    listing = ["keys", "list", "--ledger", ledger.url]
    assert main(listing) == 0
    assert capsys.readouterr() == ("No key is issued.\n", "")
    new(ledger, signer, "ci")
    new(ledger, signer, "app")
    digest = entries(ledger)[0]["sha256"]
    capsys.readouterr()

    assert main(listing) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["ci", "acme", "active"],
        ["app", "acme", "active"],
    ]
    assert err == "Not verified: --governance-key was not given.\n"
    public = tmp_path / "keys.pub"
    public.write_text(public_text(PUBLIC))
    assert main([*listing, "--json", "--governance-key", f"file:{public}"]) == 0
    out, err = capsys.readouterr()
    listed = json.loads(out)
    assert listed["version"] == 2
    assert [key["id"] for key in listed["keys"]] == ["ci", "app"]
    assert digest[:9] not in out
    assert err == ""


def publish(server: Server, envelope: Envelope, after: int = 0) -> None:
    """Publish *envelope*, whoever has signed it."""

    async def run() -> None:
        async with Channel.open(server.url) as channel:
            await channel.publish(envelope, after=after)

    asyncio.run(run())


def test_keys_of_a_stranger(
    ledger: Server, signer: tuple[str, ...], tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Nothing is made of them, nor believed, unless their key is named."""
    empty = '{"version": 1, "keys": []}'
    publish(ledger, signed(1, empty, name=KEYS))
    path = tmp_path / "bob.pem"
    write_private_key(path, STRANGER)
    public = tmp_path / "keys.pub"
    public.write_text(public_text(PUBLIC))
    bob = ("--signing-key", f"file:{path}")

    assert new(ledger, bob) == 1
    assert "--governance-key" in capsys.readouterr().err
    assert new(ledger, (*bob, "--governance-key", f"file:{public}")) == 0


@pytest.mark.parametrize("action", ["list", "rotate"])
def test_a_broken_document(
    action: str, ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """Each of its problems is told, and nothing is changed."""
    publish(ledger, signed(1, '{"version": 1, "keys": [{"id": "x"}]}', name=KEYS))
    more = ["ci", *signer] if action == "rotate" else []

    assert main(["keys", action, "--ledger", ledger.url, *more]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "keys.0.tenant: is missing\n" in err
    assert newest(ledger).version == 1


def test_a_key_that_is_wrong(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """All that is wrong with it is told, no secret is shown and nothing published."""
    more = ("--routes", "chat", "--quota", "{tpm: 5}")

    assert new(ledger, signer, "ci", *more) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "routes.0: must be 'chat_completions'" in err
    assert "quotas.0.tpm: is unknown; did you mean `tokens_per_minute`?" in err
    assert "Nothing was changed." in err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ((), "--tenant"),
        (("--tenant", "acme"), "--signing-key: is needed"),
        (("--tenant", "acme", "--signing-key", "file:/absent"), "signing key"),
        (("--tenant", "acme", "--signing-key", "sk-CANARY"), "file:PATH or env:NAME"),
    ],
)
def test_wrong_usage(more: tuple[str, ...], why: str, capsys: Capture) -> None:
    """What is missing is said before anything is made."""
    known = ("--id", "ci", "--ledger", "redis://127.0.0.1:1")

    assert main(["keys", "new", *known, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert "CANARY" not in err


def test_a_ledger_that_is_none(signer: tuple[str, ...], capsys: Capture) -> None:
    """A URL that is none is wrong usage."""
    assert main(["keys", "revoke", "ci", "--ledger", "http://x", *signer]) == 2
    assert "--ledger" in capsys.readouterr().err


def test_no_ledger(
    signer: tuple[str, ...],
    tmp_path: pathlib.Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without an answer no secret is shown, and it is said how to find out."""
    monkeypatch.setattr("tokenweir.governance.channel.PATIENT_SECONDS", 0.2)
    url = f"unix://{tmp_path}/absent.sock"
    known = ("--id", "ci", "--tenant", "acme", "--ledger", url)

    assert main(["keys", "new", *known, *signer]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no answer" in err
    assert "keys list" in err


def test_keys_are_restored(
    ledger: Server, signer: tuple[str, ...], tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """What a sidecar has kept comes back above what somebody has forced in."""
    assert new(ledger, signer) == 0
    kept = tmp_path / "keys.json"
    kept.write_bytes(encoded(newest(ledger)))
    publish(ledger, draft(2, "{}", name=KEYS), after=1)
    assert new(ledger, signer, "more") == 1
    assert "`tokenweir keys restore`" in capsys.readouterr().err
    command = ["keys", "restore", str(kept), "--ledger", ledger.url, *signer]

    assert main(command) == 0
    assert "Version 1 is in force again, as 3." in capsys.readouterr().out
    assert [entry["id"] for entry in entries(ledger)] == ["ci"]
    assert new(ledger, signer, "more") == 0
    assert main(command) == 1
    assert "no need" in capsys.readouterr().err


def test_what_can_not_be_restored(
    ledger: Server, signer: tuple[str, ...], tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """A file that is not there, or holds no keys, is told as that."""
    where = ("--ledger", ledger.url, *signer)
    broken = tmp_path / "broken.json"
    broken.write_text("{}")

    for path in (tmp_path / "absent.json", broken):
        assert main(["keys", "restore", str(path), *where]) == 1
        assert str(path) in capsys.readouterr().err


def test_who_may_only_read(
    ledger: Server, signer: tuple[str, ...], capsys: Capture
) -> None:
    """A sidecar's user can list keys, and publish none."""
    rules = ["on", "nopass", "%R~{twg}*", "+@all"]
    with redis.Redis.from_url(ledger.url) as client:
        client.execute_command("ACL", "SETUSER", "pod", *rules)
    url = ledger.url.replace("unix://", "unix://pod:x@")
    more = ("--id", "ci", "--tenant", "acme", "--ledger", url, *signer)

    assert main(["keys", "list", "--ledger", url]) == 0
    assert main(["keys", "new", *more]) == 1
    assert "does not allow" in capsys.readouterr().err
