from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_valkey
from tokenweir.cli.found_ledger import found_ledger_url, no_answer
from tokenweir.cli.ledger_option import LedgerOptionError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return an empty ledger's server."""
    server = start_valkey(tmp_path)
    yield server
    server.stop()


def test_url_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL with a password can be in the environment, in any variable."""
    monkeypatch.setenv("TOKENWEIR_LEDGER_URL", "redis://one")
    monkeypatch.setenv("OTHER", "redis://two")

    assert found_ledger_url("redis://zero") == "redis://zero"
    assert found_ledger_url(None) == "redis://one"
    assert found_ledger_url("env:OTHER") == "redis://two"
    with pytest.raises(LedgerOptionError, match="MISSING is empty"):
        found_ledger_url("env:MISSING")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder in which stacks keep their files, and no other is."""
    monkeypatch.delenv("TOKENWEIR_LEDGER_URL", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tokenweir.stack.folder.SHORT_PARENT", str(tmp_path))
    return tmp_path


def test_url_of_a_running_stack(machine: Path, server: Server) -> None:
    """Without a word, the ledger of the stack that runs here is meant."""
    socket = machine / "tokenweir-a" / "ledger.sock"
    socket.parent.mkdir()
    socket.symlink_to(server.path)

    assert found_ledger_url(None) == f"unix://{socket}"

    second = machine / "tokenweir-b" / "ledger.sock"
    second.parent.mkdir()
    second.symlink_to(server.path)
    with pytest.raises(LedgerOptionError, match=f"--ledger unix://{second}"):
        found_ledger_url(None)


def test_no_running_stack(machine: Path) -> None:
    """A stack that was killed does not count as running."""
    left = machine / "tokenweir-dead" / "ledger.sock"
    left.parent.mkdir()
    left.touch()

    with pytest.raises(LedgerOptionError, match="Start one, or say where the ledger"):
        found_ledger_url(None)


def test_no_answer() -> None:
    """Whoever does not answer is told by place, without user and password."""
    told = no_answer("redis://user:CANARY@ledger.internal:6379/0")

    assert "ledger.internal:6379" in told
    assert "CANARY" not in told
