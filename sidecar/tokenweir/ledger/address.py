"""
Where a ledger is: a URL that people write, checked before anything is started.

    redis://[user:password@]host[:6379][/db]            rediss: with TLS
    unix:///run/redis.sock[?db=0]
    redis+sentinel://host[:26379][,host…]/service[/db]  rediss+sentinel
    redis+cluster://host[:6379][,host…]                 rediss+cluster

``valkey`` and ``valkeys`` mean the same as ``redis`` and ``rediss``. Options follow a
question mark; they are those of redis-py, `PASSWORD_FILE` and `SENTINEL_OPTIONS`.

No text from here holds what may be a password: of a URL only its place is told.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.asyncio.connection import ConnectionPool, parse_url
from redis.exceptions import RedisError

from tokenweir.core.errors import TokenweirError
from tokenweir.ledger.credentials import PasswordFile, PasswordFileError

DEFAULT_HOST, DEFAULT_PORT, SENTINEL_PORT = "localhost", 6379, 26379
# Where the password is, if it is not before the host.
PASSWORD_FILE = "password_file"  # noqa: S105 - the name of an option
# User and password of the Sentinels; those before the host are the servers'.
SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password", "sentinel_password_file")
_WANTED = (
    "must be a redis://, rediss:// (TLS), unix://, redis+sentinel:// or redis+cluster:// "
    "URL, such as redis://127.0.0.1:6379, unix:///run/redis.sock, "
    "redis+sentinel://host1:26379,host2:26379/service or "
    "redis+cluster://host1:6379,host2:6379"
)
_UNREADABLE = f"has a host, port or option that can't be read; it {_WANTED}"
_NO_SERVICE = (
    "names no service: what Sentinels call the primary comes after the hosts, as in "
    "redis+sentinel://host1:26379,host2:26379/service"
)
_NO_DATABASE = "names a database: a Cluster has only one. Leave the path out"
_SEVERAL = f"names several hosts, but not what they are: it {_WANTED}"
_FILES = (
    "has ssl_ca_certs, ssl_certfile or ssl_keyfile that can't be read: they are paths "
    "of PEM files"
)
_NOT_IN_FILE = (
    "has password_file with no password in it: it is the path of a file with the "
    "password alone, which this user may read"
)
_TWO_PASSWORDS = "has a password and password_file: leave out one of them"
_BASES = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss"}

# Only what is left of it matters; a host may hold what a URL would not.
_STAND_IN = "host"
_OF_SERVERS = ("db", "username", "password", "credential_provider")

Options = Mapping[str, Any]
HostPort = tuple[str, int]


class LedgerUrlError(TokenweirError):
    """No ledger can be at such a URL. The text says what one looks like."""


class Kind(enum.Enum):
    """Who is at an address."""

    SERVER = ""
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Address:
    """
    A URL, taken apart.

    Attributes:
        kind: Who answers there.
        place: The URL without user, password and options.
        hosts: Of the server, the Sentinels, or some nodes of the Cluster; none: a
            unix socket.
        options: What redis-py makes a connection to a server with, but for the host.
        service: What Sentinels call the primary.
        sentinel_options: What it makes a connection to a Sentinel with, ditto.
    """

    kind: Kind
    place: str
    hosts: tuple[HostPort, ...]
    options: Options = field(repr=False)
    service: str = ""
    sentinel_options: Options = field(default_factory=dict, repr=False)


def address_of(url: str) -> Address:
    """Return where *url* leads. Raises: LedgerUrlError."""
    scheme, separator, _ = url.partition("://")
    base, _, kind = scheme.partition("+")
    if not separator:
        raise LedgerUrlError(_WANTED)
    try:
        if scheme == "unix":
            return _socket(url)
        return _hosts(url, _BASES[base], Kind(kind))
    except (KeyError, ValueError):
        is_known = base in _BASES and kind in {each.value for each in Kind}
        raise LedgerUrlError(_UNREADABLE if is_known else _WANTED) from None


def require_url(url: str) -> None:
    """Return if *url* can be connected to. Raises: LedgerUrlError."""
    address = address_of(url)
    # Some options are read with the URL, others by the connection.
    for options in (address.options, address.sentinel_options):
        try:
            make: Callable[[], Any] = ConnectionPool(**options).make_connection
            connection = make()
            if (file := options.get("credential_provider")) is not None:
                file.get_credentials()
        except PasswordFileError:
            raise LedgerUrlError(_NOT_IN_FILE) from None
        except (ValueError, TypeError, RedisError):
            raise LedgerUrlError(_UNREADABLE) from None
        _require_files(connection)


def place(url: str) -> str:
    """Return *url*, which `require_url` takes, without user, password and options."""
    return address_of(url).place


def _socket(url: str) -> Address:
    options = _with_file(dict(parse_url(url)))
    if not options.get("path"):
        raise LedgerUrlError(_WANTED)
    return Address(Kind.SERVER, f"unix://{options['path']}", (), options)


def _hosts(url: str, base: str, kind: Kind) -> Address:
    parts = urlsplit(url)
    login, at, names = parts.netloc.rpartition("@")
    port = SENTINEL_PORT if kind is Kind.SENTINEL else DEFAULT_PORT
    hosts = tuple(_host(name, port) for name in names.split(","))
    if kind is Kind.SERVER and len(hosts) > 1:
        raise LedgerUrlError(_SEVERAL)
    service, path = _service(parts.path) if kind is Kind.SENTINEL else ("", parts.path)
    named = dict(parse_qsl(parts.query))
    if kind is Kind.CLUSTER and (path.strip("/0") or named.get("db", "0") != "0"):
        raise LedgerUrlError(_NO_DATABASE)
    own = {name: named.pop(name) for name in _own_options(kind) if name in named}
    options = dict(
        parse_url(f"{base}://{login}{at}{_STAND_IN}{path}?{urlencode(named)}")
    )
    options.pop("host")
    options = _with_file(options)
    scheme = base if kind is Kind.SERVER else f"{base}+{kind.value}"
    shown = ",".join(map(_shown, hosts))
    return Address(
        kind,
        f"{scheme}://{shown}" + (f"/{service}" if service else ""),
        hosts,
        options,
        unquote(service),
        _sentinel_options(options, own) if kind is Kind.SENTINEL else {},
    )


def _service(path: str) -> tuple[str, str]:
    """Return the service that *path* begins with, and the rest of it."""
    service, _, rest = path.lstrip("/").partition("/")
    if not service:
        raise LedgerUrlError(_NO_SERVICE)
    return service, f"/{rest}"


def _own_options(kind: Kind) -> tuple[str, ...]:
    return SENTINEL_OPTIONS if kind is Kind.SENTINEL else ()


def _sentinel_options(options: Options, own: Mapping[str, str]) -> Options:
    """Return how a Sentinel is reached: like the servers, but as another user."""
    others = {name: options[name] for name in options if name not in _OF_SERVERS}
    named = {name.removeprefix("sentinel_"): own[name] for name in own}
    return _with_file(others | named)


def _with_file(options: dict[str, Any]) -> dict[str, Any]:
    """Return *options* with who reads the password, if it is in a file."""
    path = options.pop(PASSWORD_FILE, None)
    if path is None:
        return options
    if options.get("password") is not None:
        raise LedgerUrlError(_TWO_PASSWORDS)
    user = options.pop("username", None)
    return options | {"credential_provider": PasswordFile(path, user)}


def _host(name: str, port: int) -> HostPort:
    parts = urlsplit(f"//{name}")
    return unquote(parts.hostname or DEFAULT_HOST), parts.port or port


def _shown(host: HostPort) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _require_files(connection: Any) -> None:
    """Return if what a TLS *connection* needs can be read. Raises: LedgerUrlError."""
    context = getattr(connection, "ssl_context", None)
    try:
        if context is not None:
            context.get()
    except (OSError, ValueError):  # an SSLError is an OSError
        raise LedgerUrlError(_FILES) from None
