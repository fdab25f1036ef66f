"""`tokenweir explain` says what would be decided, and changes nothing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.explain.asking import CREDENTIAL, KEY, body, write
from tests.servers import Server, start_valkey
from tokenweir.cli.main import main


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A ledger for the module."""
    server = start_valkey(tmp_path_factory.mktemp("explain"))
    yield server
    server.stop()


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
    rights = ("+get", "+zrange", "+zmscore", "+time", "+client|setinfo")
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
    assert err.startswith(f"--ledger: no answer from {url}.")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--key", "env:NO_SUCH"), "--key: the variable NO_SUCH is empty"),
        (("--key", "-", "-"), "standard input is the request already"),
        (("--key-id", "nobody", "{}"), "no key of this policy has the id nobody: it"),
        (("--ledger", "http://x"), "--ledger: must be a redis://"),
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
