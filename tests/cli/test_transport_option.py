"""How Envoy is served, by option or by the environment."""

from __future__ import annotations

import argparse

import pytest

from tokenweir.cli.transport_option import VARIABLE, add_transport_option
from tokenweir.transport.choice import DEFAULT, Transport


def read(*arguments: str) -> Transport:
    """Return what *arguments* say."""
    parser = argparse.ArgumentParser()
    add_transport_option(parser)
    chosen: Transport = parser.parse_args(arguments).transport
    return chosen


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_nothing_said() -> None:
    """Without a word it is the default."""
    assert read() is DEFAULT


@pytest.mark.parametrize("transport", Transport)
def test_option(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option says it, whatever the environment does."""
    monkeypatch.setenv(VARIABLE, "grpcio")

    assert read("--transport", transport.value) is transport


@pytest.mark.parametrize("transport", Transport)
def test_variable(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says it where the option does not; empty, it says nothing."""
    monkeypatch.setenv(VARIABLE, transport.value)
    assert read() is transport
    monkeypatch.setenv(VARIABLE, "")
    assert read() is DEFAULT


@pytest.mark.parametrize("where", ["option", "variable"])
def test_unknown(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever misspells it reads the names, and both places where it may stand."""
    if where == "variable":
        monkeypatch.setenv(VARIABLE, "http3")
    with pytest.raises(SystemExit) as ended:
        read(*(["--transport", "http3"] if where == "option" else []))

    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"must be grpcio or asyncio, here or in {VARIABLE}" in told
