"""An authority for tests, and what it signs: certificates of 127.0.0.1."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """
    A certificate, and its key.

    Attributes:
        certificate: PEM file.
        key: Ditto.
    """

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """
    Whom servers and clients of a test trust.

    Attributes:
        own: Its certificate.
        server: Of any server at 127.0.0.1.
        client: Of a client.
    """

    own: Signed
    server: Signed
    client: Signed

    @property
    def server_options(self) -> tuple[str, ...]:
        """What a server is started with; it wants clients' certificates."""
        return (
            *("--tls-cert-file", str(self.server.certificate)),
            *("--tls-key-file", str(self.server.key)),
            *("--tls-ca-cert-file", str(self.own.certificate)),
        )

    @property
    def url_options(self) -> str:
        """What a client's URL ends with."""
        return (
            f"ssl_ca_certs={self.own.certificate}"
            f"&ssl_certfile={self.client.certificate}&ssl_keyfile={self.client.key}"
        )


def authority(folder: Path) -> Authority:
    """Make one, with its files in *folder*."""
    folder.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    own = _write(folder / "ca.pem", key, "ca", key)
    made = []
    for name in ("server", "client"):
        its_key = ec.generate_private_key(ec.SECP256R1())
        made.append(_write(folder / f"{name}.pem", its_key, name, key))
    return Authority(own, *made)


def _write(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    name: str,
    signer: ec.EllipticCurvePrivateKey,
) -> Signed:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    is_own = key is signer
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("ca"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(
            x509.BasicConstraints(ca=is_own, path_length=None), critical=True
        )
        .sign(signer, hashes.SHA256())
    )
    key_path = path.with_suffix(".key")
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return Signed(path, key_path)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
