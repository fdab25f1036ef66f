"""The command is put together from its subcommands, and its exit codes hold."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from tokenweir import __version__
from tokenweir.cli import check
from tokenweir.cli.main import SUBCOMMANDS, main
from tokenweir.core.errors import PolicyError


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
    """It is told with the usage, on stderr, and has its own exit code."""
    assert usage_of(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: tokenweir")


@pytest.mark.parametrize(
    ("error", "code", "out"),
    [
        (PolicyError(["a: is wrong", "b: too"]), 1, "a: is wrong\nb: too\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_ends_a_command(
    error: BaseException,
    code: int,
    out: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bad policy is told wherever it was needed; Ctrl-C leaves no traceback."""

    def fail(arguments: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(check, "run", fail)

    assert main(["check", "policy.yaml"]) == code
    assert capsys.readouterr().out == out


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
    assert done.stdout == "policy: can't be read: no such file or directory\n"


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
