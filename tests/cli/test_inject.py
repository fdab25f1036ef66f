"""`tokenweir inject` prints manifests with sidecars, or says why not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.inject.golden_pods import FOLDER, GOLDEN
from tokenweir.cli.main import main
from tokenweir.inject import names


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """Return the file of a Deployment."""
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(GOLDEN["deployment"].document, sort_keys=False))
    return file


def pod(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the pod in what was printed."""
    document: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    template: dict[str, Any] = document["spec"]["template"]
    return template


def test_a_deployment(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what was looked at, and one line tells."""
    assert main(["inject", str(deployment)]) == 0
    out, err = capsys.readouterr()

    assert yaml.safe_load(out) == yaml.safe_load(
        (FOLDER / "deployment.yaml").read_text()
    )
    assert err == "deployment/web in shop: injected\n"


def test_through_pipes(
    deployment: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it prints it takes, changes nothing, and `uninject` undoes it."""
    main(["inject", str(deployment)])
    once = capsys.readouterr().out
    for command, expected in (("inject", once), ("uninject", deployment.read_text())):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(once.encode())))
        assert main([command, "-"]) == 0
        out, err = capsys.readouterr()

        assert yaml.safe_load(out) == yaml.safe_load(expected)
        told = {"inject": "skipped: already_injected: ", "uninject": "uninjected\n"}
        assert err.startswith(f"deployment/web in shop: {told[command]}")


def test_options(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What all pods are to have is said once."""
    options = ["--image", "example.test/tw:2", "--kube-version", "1.28"]
    options += ["--set", "tenant=acme", "--set", "credentials-secret="]

    assert main(["inject", str(deployment), *options]) == 0
    containers = pod(capsys)["spec"]["containers"]

    assert [each["name"] for each in containers] == ["app", *names.CONTAINERS]
    assert containers[1]["image"] == "example.test/tw:2"
    assert "envFrom" not in containers[1]
    env = {entry["name"]: entry.get("value") for entry in containers[1]["env"]}
    assert env["TOKENWEIR_TENANT"] == "acme"


def test_impossible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code and line say so, with the reason's name and what to do."""
    file = tmp_path / "node.yaml"
    file.write_text(yaml.safe_dump(GOLDEN["host-network"].document))

    assert main(["inject", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("daemonset/web in shop: failed: host_network: it shares ")
    assert 'label it tokenweir.io/inject: "false" if that is meant' in err


@pytest.mark.parametrize("name", ["opted-out", "mirror-pod"])
def test_not_asked_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is skipped is printed as it was, and all is fine."""
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump(GOLDEN[name].document))

    assert main(["inject", str(file)]) == 0
    out, err = capsys.readouterr()
    assert yaml.safe_load(out) == GOLDEN[name].document
    assert f"skipped: {GOLDEN[name].reason}: " in err


def test_wrong_options(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are the caller's mistake, and nothing is printed."""
    assert main(["inject", str(deployment), "--set", "port=http"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "port: must be a TCP port from 1024 to 65535\n"
