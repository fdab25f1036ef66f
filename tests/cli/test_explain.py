"""`tokenweir explain` says what would be decided, and changes nothing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.config.issued import document, entry
from tests.explain.asking import CREDENTIAL, KEY, body, write
from tests.governance.documents import PRIVATE, PUBLIC, STRANGER, draft
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.governance.envelope import encoded, sign
from tokenweir.governance.key_files import public_text

STARTED = "2026-01-01T00:00:00Z"
ISSUED = (
    entry(
        id="batch",
        sha256="1" * 64,
        models=["gpt-4o"],
        quotas=[{"requests_per_minute": 1}],
    ),
    entry(id="reports", sha256="2" * 64, routes=["messages"]),
    entry(id="old", sha256="3" * 64, expires_at=STARTED),
    entry(id="gone", sha256="4" * 64, revoked_at=STARTED),
    entry(id="stray", sha256="5" * 64, tenant="x"),
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIAL", CREDENTIAL)
    monkeypatch.setenv("APP_KEY", KEY)


def run(folder: Path, *arguments: str, data: bytes | None = None) -> int:
    """Ask about *data*; return the exit code."""
    file = []
    if data is not None:
        (folder / "request.json").write_bytes(data)
        file = [str(folder / "request.json")]
    policy = ["--policy", str(write(folder))]
    return main(["explain", *policy, *arguments, *file])


def test_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the key or by its id, from a file: no secret and no prompt in it."""
    for who in (("--key", "env:APP_KEY"), ("--key-id", "ci")):
        assert run(tmp_path, *who, data=body()) == 0
        out, err = capsys.readouterr()
        assert "tenant acme, key ci" in out
        assert "\n  admitted\n" in out
        assert "CANARY" not in out
        assert err == ""


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for machines; a refusal is an answer too."""
    asked = ("--key-id", "ci", "--json", "--header", "X-Request-Id: 7")

    assert run(tmp_path, *asked, data=body(model="nobodys")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reply"]["status"] == 403
    assert found["ledger"] is None


def test_other_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard input, another path and method, and a header that has the key."""
    data = io.BytesIO(body(model="claude-x"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert run(tmp_path, "--key-id", "ci", "-") == 0
    assert "POST /v1/messages: " in capsys.readouterr().out

    header = ("--header", f"x-api-key: {KEY}")
    assert run(tmp_path, *header, "--path", "/v1/models", "--method", "head") == 0
    out = capsys.readouterr().out
    assert "HEAD /v1/models: " in out
    assert "tenant acme" in out


def test_levels_are_read(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What is used up in the ledger refuses; every key stays as it is.

    A user that may only read is enough.
    """
    client = redis.Redis(unix_socket_path=str(server.path))
    client.flushall()
    seconds, _ = client.time()
    bucket = f"0 {seconds * 1_000} 0 2 2"
    name = "acme.requests_per_minute|requests_per_minute|tenant=acme"
    client.set(f"{{{_tag()}}}:b:{name}", bucket)
    before = {key: client.dump(key) for key in client.scan_iter()}
    rights = ("+get", "+hgetall", "+zrange", "+zmscore", "+time", "+client|setinfo")
    looker = ("SETUSER", "looker", "on", ">pw", "%R~*", *rights)
    client.execute_command("ACL", *looker)  # type: ignore[no-untyped-call]
    url = server.url.replace("unix://", "unix://looker:pw@")
    asked = ("--key-id", "ci", "--json", "--ledger", url)

    assert run(tmp_path, *asked, data=body()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reply"]["status"] == 429
    assert found["ledger"] == server.url
    assert {key: client.dump(key) for key in client.scan_iter()} == before
    assert len(before) == 1
    client.close()


def _tag() -> str:
    from tokenweir.core.partition import tag_of  # noqa: PLC0415

    return tag_of("acme")


def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that does not answer is a problem, and what to look at is said."""
    url = f"unix://{tmp_path}/no.sock"

    assert run(tmp_path, "--key-id", "ci", "--ledger", url, data=body()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"--ledger: {url} does not tell how limits stand: no answer")
    assert "Does it run, and do user and password fit?" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--key", "env:NO_SUCH"), "--key: the variable NO_SUCH is empty"),
        (("--key", "-", "-"), "standard input is the request already"),
        (("--key-id", "nobody", "{}"), "no key of this policy has the id nobody: it"),
        (("--ledger", "http://x"), "--ledger: must be a redis://"),
        (("--policy", "ledger"), "--policy ledger needs --governance-key, the public"),
        (("--governance-key", "env:PUBLIC"), "--ledger: where is it?"),
        (
            ("--ledger", "redis://x", "--governance-key", "x"),
            "governance key: must say",
        ),
        (("no-such-file",), "no-such-file: no such file or directory"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong is told on standard error, and what would be right."""
    (tmp_path / "r").write_bytes(body())
    given = [each.format(tmp_path / "r") for each in arguments]

    assert run(tmp_path, *given) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert KEY not in err


@pytest.mark.parametrize("header", ["no colon", ": value"])
def test_what_is_no_header(
    header: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name, a colon and a value."""
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, "--header", header)

    assert caught.value.code == 2
    assert "must look like 'x-request-id: abc'" in capsys.readouterr().err


def test_a_policy_with_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are told as `check` tells them."""
    path = tmp_path / "bad.yaml"
    path.write_text("version: 1\nproviders: {}\n")

    assert main(["explain", "--policy", str(path)]) == 1
    assert "providers: must have at least one entry" in capsys.readouterr().out


def test_no_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which one decides has to be said, in one of both ways."""
    assert main(["explain", "--key-id", "ci", str(tmp_path)]) == 2
    assert (
        "--policy: say which one decides: a FILE; or, with" in capsys.readouterr().err
    )


def test_secrets_that_are_not_at_hand(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is said how to do without; prices are read all the same."""
    monkeypatch.delenv("CREDENTIAL")
    assert run(tmp_path, "--key-id", "ci", data=body()) == 1
    out, err = capsys.readouterr()
    assert "CREDENTIAL is not set" in out
    assert "--without-secrets explains it without them." in err

    assert run(tmp_path, "--key-id", "ci", "--without-secrets", data=body()) == 0
    out, err = capsys.readouterr()
    assert "sent with the provider's credential" in out
    assert "$4.00 in and $20.00 out" in out
    assert err == ""


@dataclass
class Fleet:
    """What is published, and how to ask: *published* says so to ``explain``."""

    client: redis.Redis
    server: Server
    folder: Path

    @property
    def published(self) -> tuple[str, ...]:
        """Options of ``explain``, without a policy file."""
        reader = "unix://tokenweir-reader:CHANGE-ME-READER@"
        url = self.server.url.replace("unix://", reader)
        return ("--ledger", url, "--governance-key", "env:PUBLIC")

    def publish(self, name: str, version: int, text: str, **more: Any) -> None:
        """Write a document into the ledger, signed by who may unless it is said."""
        envelope = sign(draft(version, text, name=name), more.get("key", PRIVATE))
        self.client.set(f"{{twg}}:{name}:{version}", encoded(envelope))
        self.client.set(f"{{twg}}:{name}", version)
        self.client.zadd(f"{{twg}}:{name}:versions", {str(version): version})

    def ask(self, *arguments: str, data: bytes | None = None) -> int:
        """Run ``explain`` by what is published; return the exit code."""
        path = self.folder / "request.json"
        path.write_bytes(data or body())
        return main(["explain", *self.published, *arguments, str(path)])


@pytest.fixture
def fleet(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    """A ledger with the policy, the keys of `ISSUED`, and the users of deploy/redis."""
    monkeypatch.setenv("PUBLIC", public_text(PUBLIC))
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        for line in Path("deploy/redis/tokenweir.acl").read_text().splitlines():
            users = ("SETUSER", *line.split()[1:])
            client.execute_command("ACL", *users)
        fleet = Fleet(client, server, tmp_path)
        fleet.publish("policy", 7, write(tmp_path).read_text())
        fleet.publish("keys", 3, document(*ISSUED))
        yield fleet


def test_what_is_published_decides(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Policy and keys are the ledger's; a user that may only read is enough."""
    assert fleet.ask("--key", "env:APP_KEY") == 0
    out, err = capsys.readouterr()
    assert ", as published: version 7 by ann, " in out
    assert "\nkeys      as published: version 3 by ann, " in out
    assert "; 5 secrets in it, 1 of them ignored\n" in out
    assert "key ci; " in out
    assert out.endswith("\n\nif nothing were used yet\n  the same\n")
    assert err == ""

    assert fleet.ask("--policy", "ledger", "--key-id", "batch", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["governance"]["version"] == 7
    assert found["caller"]["key_issued"] is True
    assert found["if_unused"]["admitted"] is True
    [reservation] = found["reservations"]
    own = [each for each in found["quotas"] if each["of"] == "key"]
    assert [each["id"] for each in own] == ["acme/batch.requests_per_minute"]
    assert own[0]["id"] in {each["quota"] for each in reservation["limits"]}


@pytest.mark.parametrize(
    ("key_id", "data", "reason", "note"),
    [
        ("batch", body(model="gpt-4o-mini"), "model_not_allowed", ""),
        ("reports", body(), "route_not_allowed", ""),
        ("old", body(), "expired_key", ""),
        ("gone", body(), "revoked_key", ""),
        (
            "stray",
            body(),
            "unknown_key",
            "issued key stray: the policy has no tenant x",
        ),
    ],
)
def test_what_issued_keys_may_not_do(
    fleet: Fleet,
    key_id: str,
    data: bytes,
    reason: str,
    note: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The refusal that the app would get; why a key does not count is told besides."""
    assert fleet.ask("--key-id", key_id, "--json", data=data) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["decision"]["reason"] == reason
    assert note in err
    assert bool(note) == bool(err)


def test_issued_keys_beside_a_file(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """They count for a file's policy too; without the ledger it is said that they don't."""
    path = str(write(fleet.folder, default_providers={"openai": "openai"}))
    assert fleet.ask("--policy", path, "--key-id", "batch") == 0
    out = capsys.readouterr().out
    assert ", from a file\nkeys      as published: version 3" in out
    assert "key batch (issued); " in out

    assert run(fleet.folder, "--key-id", "batch", data=body()) == 2
    err = capsys.readouterr().err
    assert "it has ci. Keys that were issued through a ledger count with" in err
    assert run(fleet.folder, "--key", "env:PUBLIC", data=body()) == 0
    assert "note: Keys that were issued" in capsys.readouterr().err


def test_what_is_forged(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy before it decides, and it is said what to do; without one, nothing."""
    fleet.publish("policy", 8, "version: 1", key=STRANGER)
    assert fleet.ask("--key-id", "ci") == 0
    out, err = capsys.readouterr()
    assert "as published: version 7 " in out
    assert "policy 8: is not signed by the holder of any governance key" in err
    assert "Is --governance-key the file that sidecars have?" in err
    assert "`rollback` or `publish` puts a good policy in its place." in err

    fleet.client.flushdb()
    fleet.publish("policy", 8, "version: 1", key=STRANGER)
    assert fleet.ask("--key-id", "ci") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("No policy is in force: what was published can't be used: ")
    assert "Is --governance-key the file that sidecars have?" in err


def test_a_ledger_that_does_not_tell(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is dead, or this user may not read: what to look at is said."""
    url = f"unix://{tmp_path}/no.sock"
    assert fleet.ask("--key-id", "ci", "--ledger", url) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"--ledger: {url} does not tell what is published: no answer")

    exporter = "unix://tokenweir-exporter:CHANGE-ME-EXPORTER@"
    url = fleet.server.url.replace("unix://", exporter)
    assert fleet.ask("--key-id", "ci", "--ledger", url) == 1
    err = capsys.readouterr().err
    assert "needs the rights of tokenweir-reader in deploy/redis." in err
    assert "CHANGE-ME" not in err


def test_faults_are_no_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What breaks is told by its type, and nothing else is."""
    from tokenweir.explain import dry_ledger  # noqa: PLC0415

    async def broken(*_: Any) -> None:
        raise RuntimeError("CANARY")

    monkeypatch.setattr(dry_ledger.NothingUsed, "levels", broken)

    assert run(tmp_path, "--key-id", "ci", data=body()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "RuntimeError" in err
    assert "CANARY" not in err
