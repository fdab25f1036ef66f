"""`tokenweir up`: what is asked for, and why it can't be had."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenweir.cli.main import main
from tokenweir.stack import local_stack
from tokenweir.stack.announcement import Announcement
from tokenweir.stack.failure import ChildFailedError, StackError
from tokenweir.stack.local_stack import LocalStack
from tokenweir.stack.ports import free_port
from tokenweir.stack.settings import StackSettings
from tokenweir.transport.choice import Transport


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[StackSettings]:
    """What stacks were asked for; none is run."""
    settings: list[StackSettings] = []

    def run(stack: LocalStack) -> None:
        settings.append(stack.settings)

    monkeypatch.setattr(LocalStack, "run", run)
    return settings


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_nothing_has_to_be_said(asked: list[StackSettings]) -> None:
    """Without options it is the demo, on the usual ports."""
    assert main(["up"]) == 0
    assert asked == [StackSettings()]


def test_all_can_be_said(
    asked: list[StackSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option reaches the stack; a ledger's URL may be in a variable."""
    monkeypatch.setenv("LEDGER", "redis://:secret@host")
    options = "--policy my.yaml --port 4100 --admin-port 9100 --ledger env:LEDGER "
    options += "--workers 3 --log-dir logs --transport asyncio"

    assert main(["up", *options.split()]) == 0
    assert asked == [
        StackSettings(
            policy=Path("my.yaml"),
            port=4100,
            admin_port=9100,
            ledger_url="redis://:secret@host",
            workers=3,
            transport=Transport.ASYNCIO,
            log_dir=Path("logs"),
        )
    ]


@pytest.mark.parametrize(
    "options", ["--port 0", "--port 65536", "--port x", "--workers 0", "--workers 65"]
)
def test_values_out_of_range_are_wrong_usage(
    options: str, asked: list[StackSettings]
) -> None:
    """Exit code 2, as for any option that can't be read."""
    with pytest.raises(SystemExit) as exit_:
        main(["up", *options.split()])

    assert exit_.value.code == 2
    assert asked == []


def test_an_empty_variable_is_no_ledger(
    asked: list[StackSettings], capsys: pytest.CaptureFixture[str]
) -> None:
    """A ledger that was meant to be there is not replaced by another."""
    assert main(["up", "--ledger", "env:NOT_SET_ANYWHERE"]) == 2
    assert "NOT_SET_ANYWHERE is empty or not set" in capsys.readouterr().err
    assert asked == []


def test_a_failure_is_told_and_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the stack says about its end is the last that is printed."""

    def run(_: LocalStack) -> None:
        raise StackError("envoy died more than 5 times")

    monkeypatch.setattr(LocalStack, "run", run)

    assert main(["up"]) == 1
    assert capsys.readouterr().err == "envoy died more than 5 times\n"


def test_a_taken_port_is_told(taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started, and another port is proposed."""
    options = ["--port", str(taken), "--admin-port", str(free_port())]

    assert main(["up", *options]) == 1
    assert f"Port {taken} is taken by another program." in capsys.readouterr().err


def test_one_port_can_not_be_two(capsys: pytest.CaptureFixture[str]) -> None:
    """Apps and workers need ports of their own."""
    options = "--port 4102 --admin-port 4100 --workers 3"

    assert main(["up", *options.split()]) == 1
    assert "Port 4102 can't be both" in capsys.readouterr().err


def test_more_workers_than_ports_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond the last port there is none: it is said where the first one may be."""
    assert main(["up", "--admin-port", "65534", "--workers", "3"]) == 1
    told = capsys.readouterr().err
    assert "65534 to 65536" in told
    assert "--admin-port 65533 at most" in told


def test_another_stack_in_the_way_is_told(
    taken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a `tokenweir up` of the same user: it can be used, or ended."""
    other = Announcement(f"http://127.0.0.1:{taken}", "http://a:1", "p", "", None)
    monkeypatch.setattr(local_stack, "announced", lambda: [other])
    options = ["--port", str(taken), "--admin-port", str(free_port())]

    assert main(["up", *options]) == 1
    assert "is taken by another `tokenweir up`: use that" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"), [([], "--log-dir DIR"), (["--log-dir", "logs"], "")]
)
def test_a_child_that_fails_leaves_a_log_to_read(
    options: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the child said last is told, and how to keep all that it says."""

    def run(_: LocalStack) -> None:
        raise ChildFailedError("envoy exited with 1 at its start")

    monkeypatch.setattr(LocalStack, "run", run)

    assert main(["up", *options]) == 1
    text = capsys.readouterr().err
    assert "envoy exited with 1 at its start" in text
    assert told in text
    assert ("--log-dir" in text) is bool(told)


def test_missing_packages_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who installed Tokenweir alone learns how to get the rest."""
    monkeypatch.setitem(sys.modules, "llmock", None)

    assert main(["up"]) == 1
    assert "pip install 'tokenweir[demo]'" in capsys.readouterr().err


def test_every_mistake_of_a_policy_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that can't be used is named, with all that is wrong with it."""
    policy = tmp_path / "my.yaml"
    policy.write_text("version: 1\nproviders: {}\nmodels: {}\ntenants: {}\n")
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]

    assert main(["up", "--policy", str(policy), *ports]) == 1
    told = capsys.readouterr()
    assert [line.split(":")[0] for line in told.out.splitlines()] == [
        "providers",
        "models",
        "tenants",
    ]
    assert f"{policy}: 3 problems. " in told.err


@pytest.mark.parametrize(
    "ledger", ["bad", "http://127.0.0.1:6379", "redis://127.0.0.1:port", "unix://"]
)
def test_what_is_no_ledger_is_wrong_usage(
    ledger: str, asked: list[StackSettings], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told in one line what a URL looks like, and nothing is started."""
    assert main(["up", "--ledger", ledger]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "redis://127.0.0.1:6379" in line
    assert asked == []


def test_a_ledger_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is started, and nobody waits until all would be given up."""
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]

    assert main(["up", "--ledger", f"redis://127.0.0.1:{free_port()}", *ports]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert "can't be reached" in line
    assert "leave --ledger out" in line


def test_a_policy_without_keys_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody could call: it is said how a key is made, and nothing is started."""
    policy = tmp_path / "my.yaml"
    policy.write_text(
        "version: 1\n"
        "providers: {vllm: {base_url: 'http://127.0.0.1:1', dialect: openai}}\n"
        "models: {'*': {provider: vllm}}\n"
        "tenants: {acme: {quotas: [{concurrency: 1}]}}\n"
    )
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]

    assert main(["up", "--policy", str(policy), *ports]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "no tenant has a key" in told.err
    assert "keys new --id ID --tenant acme" in told.err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            PermissionError(13, "Permission denied", "/logs/envoy.log"),
            "Can't be run: /logs/envoy.log: Permission denied.",
        ),
        (OSError("no inotify"), "Can't be run: no inotify."),
    ],
)
def test_what_the_system_refuses_is_told(
    error: OSError,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file that can't be written is named; there is no traceback."""

    def run(_: LocalStack) -> None:
        raise error

    monkeypatch.setattr(LocalStack, "run", run)

    assert main(["up"]) == 1
    assert capsys.readouterr().err == (
        f"{told} TMPDIR and --log-dir say where it may write.\n"
    )


def test_logs_that_can_not_be_written_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder for logs that can't be made is a message, not a traceback."""
    (tmp_path / "file").touch()
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]

    assert main(["up", "--log-dir", str(tmp_path / "file" / "logs"), *ports]) == 1
    assert "can't be a folder for logs: not a directory" in capsys.readouterr().err
