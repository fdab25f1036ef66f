"""Policies are published, compared and rolled back from the command line."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.config.policies import SMALL, edited, write
from tests.governance.documents import PRIVATE, PUBLIC, STRANGER, draft, signed
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.governance.envelope import encoded, sign
from tokenweir.governance.key_files import public_text, write_private_key

MORE = edited("60000", "70000")
Command = Callable[..., int]


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """Somebody who may do anything in the ledger, which is empty."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def command(server: Server, client: redis.Redis, tmp_path: Path) -> Command:
    """Run an action with the ledger; ``sign=True``: with the signing key too."""
    write_private_key(tmp_path / "key.pem", PRIVATE)
    (tmp_path / "key.pub").write_text(public_text(PUBLIC))

    def run(action: str, *more: str, sign: bool = False, known: bool = True) -> int:
        options = ["--ledger", server.url]
        if sign:
            options += ["--signing-key", f"file:{tmp_path}/key.pem"]
        elif known:
            options += ["--governance-key", f"file:{tmp_path}/key.pub"]
        return main(["policy", action, *more, *options])

    return run


def publish(command: Command, folder: Path, content: str, *more: str) -> int:
    """Publish *content*."""
    path = str(write(folder, content))
    return command("publish", path, "--comment", "because", *more, sign=True)


def test_keygen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The private key goes to a file of one's own, and only the public one is shown."""
    path = tmp_path / "key.pem"

    assert main(["policy", "keygen", "--out", str(path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("ed25519:")
    assert len(shown.out.splitlines()) == 1
    assert "PRIVATE" not in shown.out + shown.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    before = path.read_bytes()
    assert main(["policy", "keygen", "--out", str(path)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_publish_and_show(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is published is shown as it was written, and what changed is told."""
    assert publish(command, tmp_path, SMALL, "--by", "ann") == 0
    capsys.readouterr()
    assert publish(command, tmp_path, MORE) == 0
    shown = capsys.readouterr()
    assert "+      - {tokens_per_minute: 70000}" in shown.out
    assert "Published as version 2" in shown.err

    assert command("show") == 0
    assert capsys.readouterr().out == MORE
    assert command("show", "1", "--json") == 0
    version = json.loads(capsys.readouterr().out)
    assert (version["by"], version["comment"]) == ("ann", "because")
    assert (version["verified"], version["content"]) == (True, SMALL)


def test_a_policy_with_problems_is_not_published(
    command: Command,
    client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every problem is told, and the ledger stays as it was."""
    wrong = edited("60000", "0").replace("requests_per_minute: 600", "what: 1")

    assert publish(command, tmp_path, wrong) == 1
    shown = capsys.readouterr()
    assert "tokens_per_minute" in shown.out
    assert "what" in shown.out
    assert "Nothing was published" in shown.err
    assert client.keys("*") == []


def test_files_of_prices(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused, unless their author says that every sidecar has them."""
    content = f"{SMALL}prices: {{overlays: [/etc/p.json]}}\n"

    assert publish(command, tmp_path, content) == 1
    assert "--allow-files" in capsys.readouterr().out
    assert publish(command, tmp_path, content, "--allow-files", "--json") == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_doubts_are_told(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is probably not meant is published, with a warning."""
    content = edited(
        "requests_per_minute: 600", "requests_per_minute: 6, routes: [models]"
    )
    publish(
        command,
        tmp_path,
        content.replace(
            "tokens_per_minute: 60000", "tokens_per_minute: 9, routes: [models]"
        ),
    )

    assert "warning: " in capsys.readouterr().err


def test_history(
    command: Command,
    client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It tells who published what, and shows what was forged."""
    assert command("history") == 0
    assert "No policy is published." in capsys.readouterr().out
    publish(command, tmp_path, SMALL, "--by", "ann")
    publish(command, tmp_path, MORE, "--by", "bob")
    client.set("{twg}:policy:1", encoded(sign(draft(1), STRANGER)))
    capsys.readouterr()

    assert command("history") == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["bob" in line and "valid" in line for line in lines] == [False, True, False]
    assert "INVALID" in lines[2]
    assert command("history", "--json", "--count", "1", known=False) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["newest"] == 2
    assert len(json.loads(shown.out)["versions"]) == 1
    assert "Not verified" in shown.err


def test_a_newest_version_that_is_none(
    command: Command, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody's hand in the ledger is seen."""
    client.set("{twg}:policy", "7")

    assert command("history") == 1
    assert "Version 7" in capsys.readouterr().err
    assert command("show") == 1
    assert "no version 7" in capsys.readouterr().err


def test_diff(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions and files can be compared with each other and with what is in force."""
    assert command("diff") == 1
    assert "no two versions" in capsys.readouterr().err
    publish(command, tmp_path, SMALL)
    publish(command, tmp_path, MORE)
    publish(command, tmp_path, SMALL)
    path = str(write(tmp_path, MORE))
    capsys.readouterr()

    def diff(*which: str) -> list[str]:
        assert command("diff", *which) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if line.startswith(("-", "+"))]

    up = ["-      - {tokens_per_minute: 60000}", "+      - {tokens_per_minute: 70000}"]
    assert diff("1", "2") == ["--- version 1", "+++ version 2", *up]
    assert diff()[:2] == ["--- version 2", "+++ version 3"]
    assert diff("2")[:2] == ["--- version 2", "+++ version 3"]
    assert diff(path) == ["--- version 3", f"+++ {path}", *up]
    assert diff("1", "3") == []
    assert command("diff", "1", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["to"] == "version 2"
    assert command("diff", "1", "2", "3") == 2
    assert command("diff", str(tmp_path / "none.yaml")) == 2
    assert "none.yaml can't be read" in capsys.readouterr().err


def test_rollback(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An old version is published as a new one, and history says so."""
    publish(command, tmp_path, SMALL)
    publish(command, tmp_path, MORE)

    assert command("rollback", "1", sign=True) == 0
    capsys.readouterr()
    command("show", "3", "--json")
    version = json.loads(capsys.readouterr().out)
    assert version["content"] == SMALL
    assert version["comment"] == "roll back to version 1"
    assert command("rollback", "9", sign=True) == 1
    assert "no version 9" in capsys.readouterr().err


def test_a_forged_version_is_not_rolled_back_to(
    command: Command,
    client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor is one that no sidecar could use any more."""
    publish(command, tmp_path, SMALL)
    publish(command, tmp_path, MORE)
    client.set("{twg}:policy:1", encoded(sign(draft(1, SMALL), STRANGER)))
    assert command("rollback", "1", sign=True) == 1
    assert "not signed by" in capsys.readouterr().err

    client.set("{twg}:policy:1", encoded(signed(1, "version: 1\n")))
    assert command("rollback", "1", sign=True) == 1
    shown = capsys.readouterr()
    assert "Nothing was published" in shown.err
    assert client.get("{twg}:policy") == b"2"


def test_a_broken_version_can_be_replaced(
    command: Command, client: redis.Redis, tmp_path: Path
) -> None:
    """Whatever is forced in, the next version is published over it."""
    publish(command, tmp_path, SMALL)
    client.set("{twg}:policy:2", "nonsense")
    client.set("{twg}:policy", "2")

    assert publish(command, tmp_path, MORE) == 0
    assert client.get("{twg}:policy") == b"3"


def test_restore(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a sidecar has on its disk comes back as it was."""
    kept = tmp_path / "policy.json"
    kept.write_bytes(encoded(signed(7, SMALL)))

    assert command("restore", str(kept)) == 0
    assert "Version 7 of policy is published again." in capsys.readouterr().out
    kept.write_bytes(b"nonsense")
    assert command("restore", str(kept)) == 1
    assert "is damaged" in capsys.readouterr().err
    assert command("restore", str(tmp_path / "none.json")) == 2


def test_no_ledger(
    command: Command, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told that nobody answers, and how to see what was done."""
    path = str(write(tmp_path, SMALL))
    options = ["--signing-key", f"file:{tmp_path}/key.pem", "--comment", "x"]
    nowhere = server.url + "-not-there"

    assert main(["policy", "publish", path, "--ledger", nowhere, *options]) == 1
    assert "policy history" in capsys.readouterr().err
    assert main(["policy", "publish", path, "--ledger", "http://x", *options]) == 2
    options[1] = "file:/none"
    assert main(["policy", "publish", path, "--ledger", server.url, *options]) == 2


def test_who_may_not(
    command: Command,
    client: redis.Redis,
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sidecar's user is told which user publishes."""
    rights = ["on", ">pw", "%R~{twg}*", "-@all", "+@connection", "+mget", "+getrange"]
    client.acl_setuser("sidecar", reset=True)
    client.execute_command("ACL", "SETUSER", "sidecar", *rights)  # type: ignore[no-untyped-call]
    url = server.url.replace("unix://", "unix://sidecar:pw@")
    path = str(write(tmp_path, SMALL))
    options = ["--signing-key", f"file:{tmp_path}/key.pem", "--comment", "x"]

    assert main(["policy", "publish", path, "--ledger", url, *options]) == 1
    assert "tokenweir-admin" in capsys.readouterr().err
    client.acl_deluser("sidecar")
