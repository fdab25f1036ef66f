"""Where a provider answers, taken apart."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_AUTHORITY = re.compile(
    r"(\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<host>[a-z0-9]([a-z0-9_.-]{0,251}[a-z0-9])?))"
    r"(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_PATH_PREFIX = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*")

# Apps' paths begin with it, so a base URL that was copied from an SDK's settings
# would have it twice.
_VERSION_SUFFIX = "/v1"

_ENDPOINTS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/messages",
    "/models",
)


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """
    Attributes:
        scheme: ``"http"`` or ``"https"``.
        host: DNS name or address, in lower case, without brackets.
        port: TCP port.
        path_prefix: ``""``, or begins with a slash and does not end in one.
    """

    scheme: str
    host: str
    port: int
    path_prefix: str

    @property
    def is_loopback(self) -> bool:
        """What is sent there never leaves this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_base_url(value: object) -> BaseUrl:
    """
    Take *value* apart.

    Raises:
        ValueError: Says what is wrong, without a part of *value*.
    """
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must begin with https:// or http://")
    if "@" in match["authority"]:
        raise ValueError("must not hold a user name or password: use `credential`")
    if match["rest"]:
        raise ValueError("must not hold a query or fragment: end it before ? or #")
    scheme = match["scheme"].lower()
    host, port = _host_and_port(match["authority"], scheme)
    return BaseUrl(scheme, host, port, _path_prefix(match["path"]))


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("must have a host name or address after //")
    host = (match["ipv6"] or match["host"]).lower()
    if match["ipv6"] or host.rpartition(".")[2].isdigit():
        _check_address(host)
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 1 <= port <= 65535:
        raise ValueError("must have a port from 1 to 65535")
    return host, port


def _check_address(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError("must have a host name or address after //") from None


def _path_prefix(path: str) -> str:
    prefix = path.rstrip("/")
    for endpoint in _ENDPOINTS:
        if prefix.endswith(endpoint):
            raise ValueError(f"must not name an endpoint: leave {endpoint} out")
    prefix = prefix.removesuffix(_VERSION_SUFFIX)
    if not _PATH_PREFIX.fullmatch(prefix):
        raise ValueError("must have a path of letters, digits and -._~ between slashes")
    return prefix
