"""Certificates of a test's own authority, valid now unless said otherwise."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """
    An authority.

    Attributes:
        file: Its certificate, PEM: what a provider's `ca_file` names.
    """

    file: Path
    _certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, name: str = "authority") -> Authority:
        """Make an authority whose files are in *folder*."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        certificate = (
            _valid(x509.CertificateBuilder(), days=1)
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .sign(key, hashes.SHA256())
        )
        file = folder / f"{name}.pem"
        file.write_bytes(_pem(certificate))
        return cls(file, certificate, key)

    def server_context(
        self, *names: str, alpn: tuple[str, ...] = ("http/1.1",), days: int = 1
    ) -> ssl.SSLContext:
        """Return the TLS of a server called *names*; *days* < 0: it has expired."""
        files = self.server_files(*names, days=days)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files["cert_file"], files["key_file"])
        context.set_alpn_protocols(list(alpn))
        return context

    def server_files(self, *names: str, days: int = 1) -> dict[str, str]:
        """Return where a server called *names* has its certificate and its key."""
        return self._files("server", names, days)

    def client_files(self, name: str) -> dict[str, Any]:
        """Return where a client called *name* has its certificate and its key."""
        return self._files(name, (name,), days=1)

    def _files(self, kind: str, names: tuple[str, ...], days: int) -> dict[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _valid(x509.CertificateBuilder(), days=days)
            .subject_name(_named(names[0]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]),
                False,
            )
            .sign(self._key, hashes.SHA256())
        )
        base = f"{kind}-{certificate.serial_number}"
        cert_file = self.file.with_name(f"{base}.pem")
        key_file = self.file.with_name(f"{base}-key.pem")
        cert_file.write_bytes(_pem(certificate))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key_file.write_bytes(private)
        return {"cert_file": str(cert_file), "key_file": str(key_file)}


def _valid(builder: x509.CertificateBuilder, days: int) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    begins = now - 3 * _DAY
    return builder.not_valid_before(begins).not_valid_after(now + days * _DAY)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
