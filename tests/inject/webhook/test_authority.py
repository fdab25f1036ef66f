"""An authority of one's own vouches for webhooks, again and again."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.inject.kube_schema import check
from tokenweir.inject.webhook.authority import (
    AUTHORITY_DAYS,
    AuthorityError,
    Pair,
    authority_secret,
    hosts_of,
    issue,
    new_authority,
    pair_secret,
    read_authority,
)
from tokenweir.inject.webhook.certificate import Certificate

NOW = datetime.now(UTC)
HOSTS = hosts_of("hook", "gov")


@pytest.fixture(scope="module")
def authority() -> Pair:
    """Return one."""
    return new_authority(NOW)


def handshake(server: ssl.SSLContext, authority: Pair, host: str) -> None:
    """Have a client that trusts *authority* call *host*. Raises: ssl.SSLError."""
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, other):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue


def served(pair: Pair, folder: Path) -> ssl.SSLContext:
    """Return what the webhook serves with, from files."""
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    return Certificate(folder / "tls.crt", folder / "tls.key").context


@pytest.mark.parametrize("host", ["hook.gov.svc", "hook.gov.svc.cluster.local"])
def test_an_api_server_trusts_it(authority: Pair, tmp_path: Path, host: str) -> None:
    """By the Service's names."""
    handshake(served(issue(authority, HOSTS, NOW, 90), tmp_path), authority, host)


def test_nobody_else_does(authority: Pair, tmp_path: Path) -> None:
    """Not by another name, nor by another authority."""
    context = served(issue(authority, HOSTS, NOW, 90), tmp_path)

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(context, authority, "hook.other.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, new_authority(NOW), HOSTS[0])


def test_a_renewal(authority: Pair, tmp_path: Path) -> None:
    """It is trusted by whoever has heard of the authority before."""
    again = read_authority(authority_secret("hook", "gov", authority))
    pair = issue(again, HOSTS, NOW, 90)

    handshake(served(pair, tmp_path), authority, HOSTS[0])
    assert pair.certificate.serial_number != authority.certificate.serial_number
    good_for = pair.certificate.not_valid_after_utc - NOW
    assert timedelta(days=89) < good_for <= timedelta(days=90)


def test_an_authority_that_ends_before(authority: Pair) -> None:
    """A certificate that outlives it would fail before its end."""
    late = NOW + timedelta(days=AUTHORITY_DAYS - 30)

    with pytest.raises(AuthorityError, match="the authority ends at 20"):
        issue(authority, HOSTS, late, 90)


def test_secrets(authority: Pair) -> None:
    """Kubernetes takes them; the webhook's has no key of the authority."""
    pair = issue(authority, HOSTS, NOW, 90)
    kept = authority_secret("hook", "gov", authority)
    mounted = pair_secret("hook", "gov", pair, authority)

    for secret, name in ((kept, "hook-ca"), (mounted, "hook-tls")):
        check(secret)
        assert secret["metadata"] == {"name": name, "namespace": "gov"}
    values = [base64.b64decode(value) for value in mounted["data"].values()]
    assert set(mounted["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert authority.key_pem not in values


def _with(authority: Pair, **data: Any) -> dict[str, Any]:
    secret = authority_secret("hook", "gov", authority)
    changes = {name.replace("_", "."): value for name, value in data.items()}
    return {**secret, "data": secret["data"] | changes}


def test_what_is_no_authority(authority: Pair) -> None:
    """It is refused, without a part of it."""
    other = authority_secret("x", "y", new_authority(NOW))["data"]["tls.key"]
    wrong: list[dict[str, Any]] = [
        {},
        {"data": None},
        {"data": "x"},
        _with(authority, tls_crt="!"),
        _with(authority, tls_crt=base64.b64encode(b"x").decode()),
        _with(authority, tls_key=base64.b64encode(b"x").decode()),
        _with(authority, tls_key=other),
        _with(authority, tls_key=base64.b64encode(_rsa_key()).decode()),
    ]
    for secret in wrong:
        with pytest.raises(
            AuthorityError, match=r"no Secret|another one's|none of ours"
        ):
            read_authority(secret)


def _rsa_key() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    return rsa.generate_private_key(65_537, 2_048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
