"""`tokenweir webhook certificate` prints Secrets, and renews them."""

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tokenweir.cli.main import main

COMMAND = ["webhook", "certificate"]


def certificate(secret: dict[str, Any], name: str = "tls.crt") -> x509.Certificate:
    """Return a certificate in *secret*."""
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"][name]))


def made(
    capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both Secrets."""
    assert main([*COMMAND, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    authority, pair = yaml.safe_load_all(out)
    return authority, pair


def test_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """They are for the Service, and one vouches for the other."""
    options = ("--service", "hook", "--namespace", "gov", "--days", "7")
    authority, pair = made(capsys, *options)
    issued = certificate(pair)
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName)

    assert [s["metadata"]["name"] for s in (authority, pair)] == ["hook-ca", "hook-tls"]
    assert "hook.gov.svc" in names.value.get_values_for_type(x509.DNSName)
    assert certificate(pair, "ca.crt") == certificate(authority)
    issued.verify_directly_issued_by(certificate(authority))
    assert issued.not_valid_after_utc < datetime.now(UTC) + timedelta(days=8)


def test_a_renewal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The authority stays, from a file or a pipe, also if both Secrets are in it."""
    authority, pair = made(capsys)
    file = tmp_path / "secrets.yaml"
    file.write_text(yaml.safe_dump_all([pair, authority]))
    stdin = io.TextIOWrapper(io.BytesIO(file.read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)

    for source in (str(file), "-"):
        again, renewed = made(capsys, "--renew", source)
        assert certificate(again) == certificate(authority)
        assert certificate(renewed) != certificate(pair)
        certificate(renewed).verify_directly_issued_by(certificate(authority))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: [", "--renew: line 1, column 5: "),
        (b"\xff", "--renew: is no text in UTF-8."),
        (b"kind: Secret", "--renew: there is no Secret *-ca in it."),
        (b"metadata: {name: x-tls}", "--renew: there is no Secret *-ca in it."),
        (b"metadata: {name: x-ca}", "--renew: that is no Secret with an authority"),
    ],
)
def test_what_can_not_be_renewed(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told, and nothing is printed."""
    file = tmp_path / "f.yaml"
    file.write_bytes(content)

    assert main([*COMMAND, "--renew", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(told)


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the caller's mistake."""
    assert main([*COMMAND, "--renew", str(tmp_path / "none")]) == 2
    assert "no such file or directory. Give a file, or -." in capsys.readouterr().err
