"""What `serve` is told of the Envoy beside it."""

import argparse
from pathlib import Path

import pytest

from tokenweir.cli.envoy_options import add_envoy_options, envoy_settings
from tokenweir.envoyconf.settings import EnvoySettings


def settings_of(*options: str) -> EnvoySettings | None:
    """Return what *options* mean."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, default=Path("/run/p.sock"))
    add_envoy_options(parser)
    return envoy_settings(parser.parse_args(options))


def test_nothing() -> None:
    """Without --xds-dir no Envoy follows, whatever else is said."""
    assert settings_of() is None
    assert settings_of("--envoy-listen", "127.0.0.1:1") is None


def test_defaults() -> None:
    """With it alone, the Envoy is for this worker, and like one that is rendered."""
    assert settings_of("--xds-dir", "/xds") == EnvoySettings(
        processor_sockets=("/run/p.sock",),
        admin_socket="/xds/envoy-admin.sock",
        xds_dir="/xds",
    )


def test_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option has its place; paths are absolute, as Envoy runs elsewhere."""
    monkeypatch.chdir(tmp_path)
    options = ["--xds-dir", "x", "--envoy-listen", "[::1]:8", "--worker-sockets", "a"]
    options += ["/b", "--envoy-access-log", "/log", "--envoy-ca-file", "/ca"]

    assert settings_of(*options) == EnvoySettings(
        listen_host="::1",
        listen_port=8,
        processor_sockets=(f"{tmp_path}/a", "/b"),
        admin_socket=f"{tmp_path}/x/envoy-admin.sock",
        access_log_path="/log",
        ca_file="/ca",
        xds_dir=f"{tmp_path}/x",
    )


def test_too_long() -> None:
    """A folder in which no socket fits is told."""
    with pytest.raises(ValueError, match="too long"):
        settings_of("--xds-dir", f"/{'x' * 100}")
