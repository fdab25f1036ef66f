"""`tokenweir export`: what it does and prints."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.ledgers import put
from tests.servers import Server, start_valkey
from tokenweir.cli.export_run import _age
from tokenweir.cli.main import main
from tokenweir.export.jsonl import current_records
from tokenweir.export.parquet import read_records


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A ledger's server with three records."""
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    put(server.url, ["a", "b", "c"])
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Exporting captures what libraries log; give it back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_files(shared: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once exports what is there to files of either kind, by URL or variable."""
    monkeypatch.setenv("TOKENWEIR_LEDGER_URL", shared.url)
    monkeypatch.setenv("SINK", f"parquet:{tmp_path}/columns")

    assert main(["export", f"jsonl:{tmp_path}/lines", "--once"]) == 0
    assert main(["export", "env:SINK", "--once"]) == 0
    assert set(current_records(tmp_path / "lines")) == {"a", "b", "c"}
    assert len(list(read_records(tmp_path / "columns"))) == 3


def test_lag(
    shared: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How far behind each exporter is comes as a table, or as JSON."""
    export = ["export", f"jsonl:{tmp_path}", "--ledger", shared.url]
    assert main([*export, "--once", "--name", "mine"]) == 0
    capsys.readouterr()
    assert main(["export", "--lag", "--ledger", shared.url]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "behind", "in", "hand", "oldest"]
    assert ["mine", "0", "0", "-"] in [row.split() for row in rows]

    lag = ["export", "--lag", "--json", "--ledger", shared.url]
    assert main([*lag, "--name", "other"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["exporters"]
    assert (found["name"], found["behind_entries"]) == ("other", 3)
    assert found["in_hand_entries"] == 0
    assert found["oldest_at"].endswith("Z")
    assert found["oldest_age_ms"] >= 0


def test_nobody_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without exporters there is nothing to print; an empty one has no age."""
    server = start_valkey(tmp_path)
    try:
        assert main(["export", "--lag", "--ledger", server.url]) == 0
        assert capsys.readouterr().out == "Nobody exports from this ledger.\n"
        lag = ["export", "--lag", "--json", "--name", "x", "--ledger", server.url]
        assert main(lag) == 0
        (found,) = json.loads(capsys.readouterr().out)["exporters"]
        assert found["oldest_at"] is None
    finally:
        server.stop()


def test_no_ledger(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ledger that is not there is told, without its password."""
    monkeypatch.setattr("tokenweir.export.exporter.FIRST_WAIT_SECONDS", 0.01)
    url = f"unix://:CANARY@{tmp_path}/none.sock"
    sink = f"jsonl:{tmp_path}/x"
    for arguments in (["--lag"], [sink, "--once"]):
        assert main(["export", *arguments, "--ledger", url]) == 1
        told = capsys.readouterr()
        assert "no answer (ConnectionError)" in told.err
        assert "CANARY" not in told.out + told.err


def test_no_sink(
    shared: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sink that can't be used, or is away, is told, without its password."""
    monkeypatch.setattr("tokenweir.export.exporter.FIRST_WAIT_SECONDS", 0.01)
    (tmp_path / "file").touch()
    away = f"postgresql://u:CANARY@/x?host={tmp_path}"
    for sink, reason in (
        (f"jsonl:{tmp_path}/file", "Give a folder"),
        (away, "No such file or directory. What is not exported stays"),
    ):
        assert main(["export", sink, "--once", "--ledger", shared.url]) == 1
        told = capsys.readouterr()
        assert reason in told.err
        assert "CANARY" not in told.out + told.err


def test_admin_port(
    shared: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrics are served where that is asked for, and a taken port is told."""
    export = ["export", f"jsonl:{tmp_path}", "--once", "--ledger", shared.url]
    assert main([*export, "--admin", "127.0.0.1:0"]) == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*export, "--admin", f"127.0.0.1:{port}"]) == 1
    assert "--admin: Address already in use" in capsys.readouterr().err


def test_ages() -> None:
    """An age is told in the two largest units that it has."""
    assert _age(None) == "-"
    assert _age(999) == "0min 0s"
    assert _age(61_000) == "1min 1s"
    assert _age(2 * 3_600_000 + 60_000) == "2h 1min"
    assert _age(30 * 3_600_000) == "1d 6h"
