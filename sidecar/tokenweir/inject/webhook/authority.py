"""
Certificates for a webhook where nobody else makes them.

An authority of one's own vouches for the webhook, and is what the cluster is told. It
lives in a Secret that no pod mounts, so that a new certificate can be made of it, by hand
or by a CronJob, and the cluster need not be told anything.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tokenweir.core.errors import TokenweirError

AUTHORITY_DAYS = 3_650
AUTHORITY_SUFFIX = "-ca"
PAIR_SUFFIX = "-tls"
# Clocks of nodes differ.
_EARLIER = timedelta(minutes=10)
_TLS = "kubernetes.io/tls"


class AuthorityError(TokenweirError):
    """What was given is no authority that can be used. The text says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """
    A certificate and its private key.

    Attributes:
        certificate: Of somebody.
        key: Theirs.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        """The certificate, as text."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key, as text, without a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def new_authority(now: datetime) -> Pair:
    """Return an authority that is good for ten years from *now*."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("tokenweir webhook authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, hosts: Sequence[str], now: datetime, days: int) -> Pair:
    """
    Return a pair for a server that is called by one of *hosts*, for *days*.

    Raises: AuthorityError, if the authority ends before.
    """
    if authority.certificate.not_valid_after_utc < now + timedelta(days=days):
        ends_at = authority.certificate.not_valid_after_utc
        raise AuthorityError(
            f"the authority ends at {ends_at:%Y-%m-%d}: make another one, and tell the "
            "cluster of both until all webhooks have a certificate of the new one"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    usage = _usage(digital_signature=True)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer = authority.certificate.subject
    builder = (
        _builder(_name("tokenweir webhook"), issuer, key, now, days)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purpose, critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def hosts_of(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names by which an API server calls a *service*."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


# === Secrets ==================================================================


def authority_secret(name: str, namespace: str, authority: Pair) -> dict[str, Any]:
    """Return the Secret that keeps *authority*: for renewals, for no pod."""
    data = {"tls.crt": authority.cert_pem, "tls.key": authority.key_pem}
    return _secret(name + AUTHORITY_SUFFIX, namespace, data)


def pair_secret(
    name: str, namespace: str, pair: Pair, authority: Pair
) -> dict[str, Any]:
    """Return the Secret that the webhook mounts."""
    data = {
        "tls.crt": pair.cert_pem,
        "tls.key": pair.key_pem,
        "ca.crt": authority.cert_pem,
    }
    return _secret(name + PAIR_SUFFIX, namespace, data)


def read_authority(secret: Mapping[str, Any]) -> Pair:
    """Return what `authority_secret` has written. Raises: AuthorityError."""
    data = secret.get("data") or {}
    try:
        cert = base64.b64decode(str(data["tls.crt"]), validate=True)
        text = base64.b64decode(str(data["tls.key"]), validate=True)
        certificate = x509.load_pem_x509_certificate(cert)
        key = serialization.load_pem_private_key(text, password=None)
    except (KeyError, TypeError, ValueError, binascii.Error, UnsupportedAlgorithm):
        raise AuthorityError(
            "that is no Secret with an authority in tls.crt and tls.key"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise AuthorityError("its key is none of ours: make a new authority")
    if key.public_key() != certificate.public_key():
        raise AuthorityError("its key is another one's")
    return Pair(certificate, key)


def _secret(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": _TLS,
        "data": encoded,
    }


# === X.509 ====================================================================


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(
    *,
    digital_signature: bool = False,
    key_cert_sign: bool = False,
    crl_sign: bool = False,
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
