"""From a URL to whoever is there: TLS, users, protocols."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fleet import ports
from tests.ledger.builders import TAG, Recorder, concurrency, hold, requests, used
from tests.ledger.conftest import PATIENCE
from tests.servers import REDIS_SERVER, Server, start_redis
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted
from tokenweir.ledger.address import LedgerUrlError, require_url
from tokenweir.ledger.cluster import Cluster
from tokenweir.ledger.node import Node
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.servers import connect
from tokenweir.ledger.tagged import TaggedLedger

ACL = Path("deploy/redis/tokenweir.acl")


@dataclass
class TlsServer:
    """
    A server that speaks TLS, and wants to see a certificate.

    Attributes:
        server: It.
        port: On 127.0.0.1.
        certificate: Its own, the client's, and the authority's: a PEM file.
        key: Of the certificate.
        stranger: Another certificate, which vouches for nobody here.
    """

    server: Server
    port: int
    certificate: Path
    key: Path
    stranger: Path

    def url(self, login: str = "", **changes: str) -> str:
        """What a client connects to; *changes* are of its options."""
        options = {
            "ssl_ca_certs": str(self.certificate),
            "ssl_certfile": str(self.certificate),
            "ssl_keyfile": str(self.key),
            **changes,
        }
        query = "&".join(f"{name}={value}" for name, value in options.items() if value)
        return f"rediss://{login}127.0.0.1:{self.port}?{query}"


def write_certificate(path: Path) -> tuple[Path, Path]:
    """Write a certificate of 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.name)])
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
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
    return path, key_path


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """Debian's Redis with TLS and the users of deploy/redis."""
    if not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}: the packaged has no TLS")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = write_certificate(folder / "own.pem")
    stranger, _ = write_certificate(folder / "stranger.pem")
    (port,) = ports(1)
    server = start_redis(
        folder,
        *("--tls-port", str(port), "--bind", "127.0.0.1"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(certificate)),
    )
    with redis.Redis.from_url(server.url) as client:
        execute: Callable[..., object] = client.execute_command
        for line in ACL.read_text().splitlines():
            execute("ACL", "SETUSER", *line.split()[1:])
    yield TlsServer(server, port, certificate, key, stranger)
    server.stop()


async def test_least_rights_over_tls(tls_server: TlsServer, events: Recorder) -> None:
    """A processor's user does its work over TLS, and both sides know each other."""
    url = tls_server.url("tokenweir-sidecar:CHANGE-ME-SIDECAR@")
    require_url(url)
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    ledger, limits = TaggedLedger(store), (requests(10), concurrency(2))

    assert isinstance(await ledger.reserve(hold(1, *limits)), Granted)
    await ledger.settle(hold(1, *limits), used(3, 4))
    assert await store.sweep([TAG]) == 0
    assert events.reasons == []
    await store.close()


@pytest.mark.parametrize(
    ("option", "reasons"),
    [
        ("ssl_ca_certs", {"SSLCertVerificationError"}),
        # What is read first: why the server hung up, or that it did.
        ("ssl_certfile", {"SSLError", "ConnectionError"}),
        ("scheme", {"ConnectionError"}),
    ],
)
async def test_a_stranger_is_no_ledger(
    tls_server: TlsServer, option: str, reasons: set[str], events: Recorder
) -> None:
    """Whose certificate is not known is not talked to, nor talks to us."""
    url = tls_server.url(ssl_ca_certs=str(tls_server.stranger))
    if option == "ssl_certfile":
        url = tls_server.url(ssl_certfile="", ssl_keyfile="")
    if option == "scheme":
        url = f"redis://127.0.0.1:{tls_server.port}"
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError):
        await store.ping()

    assert set(events.reasons) <= reasons
    await store.close()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_either_protocol_will_do(
    server: Server, protocol: int, events: Recorder
) -> None:
    """RESP2 and RESP3 spell answers differently, and tell the same."""
    url = f"{server.url}?protocol={protocol}"
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    ledger, limits = TaggedLedger(store), (requests(10), concurrency(2))
    for number in range(2):
        assert isinstance(await ledger.reserve(hold(number, *limits)), Granted)
    await ledger.settle(hold(1, *limits), used(3, 4, duration_ms=5))

    snapshot = await store.snapshot(TAG)
    assert len(snapshot.slots["slots|concurrency|tenant=acme"].until_ms) == 1
    assert [record["output_tokens"] for record in snapshot.records] == ["4"]
    assert len(await store.holdings([TAG])) == 1
    (rollup,) = await store.rollups([TAG], 0, 10**7, with_users=True)
    assert sum(n for name, n in rollup.sums.items() if "output_tokens" in name) == 4
    assert rollup.users
    assert await store.eviction() == ""
    assert events.faults == []
    await store.close()


async def test_the_url_says_who_is_there() -> None:
    """One server, whoever Sentinels name, or a Cluster; nobody is asked yet."""
    for url, kind in (
        ("redis://h", Node),
        ("unix:///s", Node),
        ("redis+sentinel://h/m", Node),
        ("redis+cluster://h", Cluster),
    ):
        servers = connect(url)
        assert isinstance(servers, kind)
        await servers.close()
    with pytest.raises(LedgerUrlError):
        connect("http://h")
