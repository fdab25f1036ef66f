"""`tokenweir webhook` serves, and prints what a cluster is told."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from tokenweir.cli.main import main
from tokenweir.inject.mutating_policy import mutating_policy
from tokenweir.inject.registration import (
    Registration,
    validating_policy,
    webhook_configuration,
)
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook import life
from tokenweir.inject.webhook.life import WebhookSettings
from tokenweir.inject.webhook.server import Address


def printed(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """Return the documents that were printed."""
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are those of the registration, in the order that was asked for."""
    (tmp_path / "ca.crt").write_text("CA")
    options = ["--ca-file", str(tmp_path / "ca.crt"), "--namespace", "gov"]
    options += ["--name", "tw", "--service", "hook", "--image", "i:1", "--fix", "image"]
    kinds = ["webhook", "validating", "mutating", "webhook"]

    assert main(["webhook", "manifests", *kinds, *options]) == 0
    bundle = base64.b64encode(b"CA").decode()
    registration = Registration("tw", "gov", "hook", ca_bundle=bundle)
    settings = Settings(image="i:1", fixed=frozenset({"image"}))
    assert printed(capsys) == [
        webhook_configuration(registration),
        *validating_policy(registration, settings),
        *mutating_policy(registration, settings),
    ]


def test_cert_manager(capsys: pytest.CaptureFixture[str]) -> None:
    """Its annotation is there instead of a bundle."""
    assert main(["webhook", "manifests", "webhook", "--cert-manager", "a/b"]) == 0
    assert printed(capsys) == [webhook_configuration(Registration(cert_manager="a/b"))]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ca-file", "/no/such/file"], "--ca-file: /no/such/file: no such file"),
        (["--set", "port=x"], "port: must be a TCP port"),
        (["--set", "policy=ledger"], "policy: ledger needs --governance-key"),
    ],
)
def test_wrong_options(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are the caller's mistake, and nothing is printed."""
    assert main(["webhook", "manifests", "webhook", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(told)


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options arrive; the exit code is the process's."""
    seen: list[WebhookSettings] = []

    def run(settings: WebhookSettings, _: object) -> int:
        seen.append(settings)
        return 1

    monkeypatch.setattr(life, "run", run)
    options = [
        "--cert",
        "/c",
        "--key",
        "/k",
        "--listen",
        "[::]:443",
        "--set",
        "port=4100",
    ]

    assert main(["webhook", "serve", *options]) == 1
    assert seen == [
        WebhookSettings(
            Settings(port=4100),
            Path("/c"),
            Path("/k"),
            Address("::", 443),
            Address("0.0.0.0", 9090),
        )
    ]


def test_serve_with_wrong_options(capsys: pytest.CaptureFixture[str]) -> None:
    """It does not begin."""
    options = ["--cert", "/c", "--key", "/k", "--fix", "everything"]

    assert main(["webhook", "serve", *options]) == 2
    assert "--fix everything: there is no such option" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["8443", "host:", ":1", "h:99999"])
def test_wrong_addresses(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Host and port are both needed."""
    with pytest.raises(SystemExit) as caught:
        main(["webhook", "serve", "--cert", "c", "--key", "k", "--listen", address])

    assert caught.value.code == 2
    assert "must be HOST:PORT" in capsys.readouterr().err
