"""`tokenweir policy` says what it takes."""

from __future__ import annotations

import getpass
import re

import pytest

from tokenweir.cli.main import main
from tokenweir.cli.policy import _user

ACTIONS = ("keygen", "publish", "history", "diff", "rollback", "show", "restore")


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_has_help(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every action explains itself."""
    with pytest.raises(SystemExit) as left:
        main(["policy", action, "--help"])

    assert left.value.code == 0
    assert f"tokenweir policy {action}" in capsys.readouterr().out


def test_the_overview_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    """`policy --help` lists all actions, and where to read on."""
    with pytest.raises(SystemExit):
        main(["policy", "--help"])

    text = capsys.readouterr().out
    assert set(re.findall(r"^    (\w+) ", text, re.MULTILINE)) >= set(ACTIONS)
    assert "docs/governance.md" in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["publish", "p.yaml", "--ledger", "redis://h", "--signing-key", "file:k"],
        ["rollback", "0", "--ledger", "redis://h", "--signing-key", "file:k"],
        ["rollback", "1", "--ledger", "redis://h"],
        ["show"],
        ["restore", "f", "--ledger", "redis://h"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]) or "none",
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing is named, and where help is."""
    with pytest.raises(SystemExit) as left:
        main(["policy", *arguments])

    assert left.value.code == 2
    assert "--help` says more" in capsys.readouterr().err


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user may have none: then the host is known."""

    def nobody() -> str:
        raise KeyError

    assert "@" in _user()
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert _user().startswith("unknown@")
