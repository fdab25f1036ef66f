"""The command is put together from its subcommands, and its exit codes hold."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from tokenweir import __version__
from tokenweir.cli import check
from tokenweir.cli.main import SUBCOMMANDS, main


def usage_of(*arguments: str) -> int:
    """Return the exit code that argparse ends *arguments* with."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the program and its version."""
    assert usage_of("--version") == 0
    assert capsys.readouterr().out == f"tokenweir {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer sees all commands, each with what it is for, and where to begin."""
    assert usage_of("--help") == 0
    out = capsys.readouterr().out

    lines = [line.split() for line in out.splitlines()]
    for name in SUBCOMMANDS:
        assert any(words[:1] == [name] and len(words) > 3 for words in lines), name
    assert "tokenweir check policy.yaml" in out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says more than the name does."""
    assert usage_of(name, "--help") == 0
    assert f"usage: tokenweir {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("chek",), ("check",), ("--verbose",)])
def test_wrong_usage(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told in two lines, on stderr, and has its own exit code."""
    assert usage_of(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tokenweir")
    assert captured.err.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("up", "--port", "abc"), "tokenweir up: argument --port: must be a TCP port"),
        (("up", "--por", "4100"), "tokenweir up: unrecognized arguments: --por 4100"),
        (("keys", "new"), "tokenweir keys new: the following arguments are required"),
    ],
)
def test_help_of_the_command_that_was_meant(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong is told of the command, and where its own help is."""
    assert usage_of(*arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(told)
    assert second == f"`{told.partition(':')[0]} --help` says more."


def test_ctrl_c_ends_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C leaves no traceback, and has the exit code that shells give it."""

    def fail(arguments: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", fail)

    assert main(["check", "policy.yaml"]) == 130
    assert capsys.readouterr().out == ""


def test_a_reader_that_has_seen_enough() -> None:
    """`tokenweir schema | head -1` ends without a traceback."""
    command = f"{sys.executable} -m tokenweir schema | head -c 1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "{"
    assert done.stderr == ""


def test_as_a_module() -> None:
    """`python -m tokenweir` is the same command, with its exit codes."""
    done = subprocess.run(
        [sys.executable, "-m", "tokenweir", "check", "/no/such"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout == "/no/such: can't be read: no such file or directory\n"


def test_nothing_slow_is_imported_for_help() -> None:
    """Help is there at once: what takes time is imported by the command that runs."""
    program = (
        "import sys; from tokenweir.cli.main import _parser; _parser(); "
        "print(sorted({'pydantic', 'grpc', 'redis', 'tiktoken', 'envoy', 'aiohttp'} "
        "& sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "[]\n"
