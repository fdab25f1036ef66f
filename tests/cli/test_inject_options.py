"""What is said of all pods arrives in their settings."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tokenweir.cli.inject_options import add_inject_options, inject_settings
from tokenweir.cli.main import main
from tokenweir.core.errors import TokenweirError
from tokenweir.inject.settings import Settings


def settings(*argv: str) -> Settings:
    """Return what *argv* makes."""
    parser = argparse.ArgumentParser()
    add_inject_options(parser)
    return inject_settings(parser.parse_args(argv))


def test_nothing_said() -> None:
    """Then all is as it is by default."""
    assert settings() == Settings()


def test_said() -> None:
    """An option of its own, or by name; the former wins."""
    found = settings("--set", "port=4100", "--set", "image=a:1", "--image", "b:2")

    assert (found.port, found.image) == (4100, "b:2")
    assert settings("--kube-version", "1.28").kube_version == (1, 28)


def test_fixed() -> None:
    """Pods may not choose what is named, which must be there."""
    found = settings("--fix", "tenant", "--fix", "image")

    assert found.fixed == {"tenant", "image"}
    with pytest.raises(TokenweirError, match="--fix tenat: there is no such option"):
        settings("--fix", "tenat")


@pytest.mark.parametrize("pair", ["port", "port:4100"])
def test_no_pair(pair: str) -> None:
    """A name without a value is a slip."""
    with pytest.raises(TokenweirError, match=f"--set {pair}: must be NAME=VALUE"):
        settings("--set", pair)


def test_a_published_policy() -> None:
    """Nobody could verify it without a key."""
    with pytest.raises(TokenweirError, match="policy: ledger needs --governance-key"):
        settings("--set", "policy=ledger")


def test_governance_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sidecars get the text of public keys, without what else is in the file."""
    assert main(["policy", "keygen", "--out", str(tmp_path / "private.pem")]) == 0
    line = capsys.readouterr().out.strip()
    file = tmp_path / "governance.pub"
    file.write_text(f"# of the platform team\n{line}\n")

    assert settings("--governance-key", f"file:{file}").governance_key == line
    with pytest.raises(TokenweirError):
        settings("--governance-key", f"file:{tmp_path / 'none'}")
