"""A changed certificate is used, and a bad one changes nothing."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from tests.inject.webhook.pairs import HOST, Pair
from tokenweir.inject.webhook import certificate as module
from tokenweir.inject.webhook.certificate import (
    Certificate,
    CertificateError,
    Validity,
)


def presented(certificate: Certificate, pair: Pair) -> str:
    """Return the serial number that a new connection is shown."""
    server, client = socket.socketpair()
    shown: dict[str, object] = {}

    def ask() -> None:
        with pair.client().wrap_socket(client, server_hostname=HOST) as secure:
            shown.update(secure.getpeercert() or {})

    asking = threading.Thread(target=ask)
    asking.start()
    certificate.context.wrap_socket(server, server_side=True).close()
    asking.join()
    return str(shown["serialNumber"])


def test_a_pair(pair: Pair) -> None:
    """It is presented, and its end is known."""
    certificate = Certificate(pair.cert, pair.key)

    assert presented(certificate, pair)
    assert certificate.validity.ends_at - certificate.validity.begins_at == 30 * 86_400


def test_a_change(pair: Pair) -> None:
    """New connections get the new one; without a change there is nothing to do."""
    certificate = Certificate(pair.cert, pair.key)
    first = presented(certificate, pair)
    assert not certificate.refresh()
    pair.issue(days=9)

    assert certificate.refresh()
    assert not certificate.refresh()
    assert presented(certificate, pair) != first


@pytest.mark.parametrize(
    ("cert", "key", "told"),
    [
        (None, b"", "can't|no start line|pem lib|key"),
        (b"", None, "tls.crt: is no certificate in PEM"),
        (b"-----BEGIN CERTIFICATE-----\n", None, "tls.crt: is no certificate in PEM"),
    ],
)
def test_half_a_change(
    pair: Pair, cert: bytes | None, key: bytes | None, told: str
) -> None:
    """What does not fit together is refused, and the one before stays."""
    certificate = Certificate(pair.cert, pair.key)
    first, validity = presented(certificate, pair), certificate.validity
    if cert is not None:
        pair.cert.write_bytes(cert)
    if key is not None:
        pair.key.write_bytes(key)

    with pytest.raises(CertificateError, match=told):
        certificate.refresh()
    assert presented(certificate, pair) == first
    assert certificate.validity == validity
    pair.issue()
    assert certificate.refresh()


def test_another_ones_key(pair: Pair, tmp_path: Path) -> None:
    """A key of another certificate is no key of this one: it is tried again later."""
    certificate = Certificate(pair.cert, pair.key)
    first = presented(certificate, pair)
    other = Pair(tmp_path / "other")
    other.folder.mkdir()
    other.issue()
    pair.cert.write_bytes(other.cert.read_bytes())

    for _ in range(2):
        with pytest.raises(CertificateError, match="key values mismatch"):
            certificate.refresh()
        assert presented(certificate, pair) == first


def test_no_file(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(CertificateError, match=r"tls\.crt: no such file"):
        Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_the_wrong_file(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is far too large is not read."""
    monkeypatch.setattr(module, "MAX_BYTES", 10)

    with pytest.raises(CertificateError, match="is too large"):
        Certificate(pair.cert, pair.key)


def test_a_key_with_a_password(pair: Pair) -> None:
    """Nobody is there to type it, so nobody is asked."""
    text = pair.key.read_text().replace(
        "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1
    )
    pair.key.write_text(text)

    with pytest.raises(CertificateError):
        Certificate(pair.cert, pair.key)


def test_old_protocols_are_none(pair: Pair) -> None:
    """Nothing below TLS 1.2 is spoken."""
    certificate = Certificate(pair.cert, pair.key)

    assert certificate.context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("now", "holds"), [(9.9, False), (10.0, True), (19.9, True), (20.0, False)]
)
def test_validity(now: float, holds: bool) -> None:
    """It has a first moment and an end."""
    assert Validity(10.0, 20.0).holds(now) is holds
