"""
Transparent mode: apps that know nothing of Tokenweir call it all the same, or nobody.

An init container puts rules into the pod's network before anything else runs there:

- plain HTTP to a host goes to Envoy instead, by its addresses;
- TLS to a provider is refused as soon as the name is seen that a client says in the open
  (SNI): addresses of providers change, and are shared with others;
- QUIC, in which the name can't be seen, is refused; clients fall back to TCP.

Our own containers are told apart by their group, which no image has by itself. It keeps
an app honest, not one in: whoever has NET_ADMIN, runs in that group, or hides the name
(ECH) gets by. So providers' keys belong into the processor here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenweir.inject import names
from tokenweir.inject.settings import Settings

_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[0-9]{1,5})?")
_CHAIN = "TOKENWEIR"
_HTTP = 80
# What a program needs to change a network's rules, and nothing else.
_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsGroup": 0,
    "runAsNonRoot": False,
    "runAsUser": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def guarded_hosts(text: str) -> tuple[str, ...]:
    """Read names, with a port where they speak plain HTTP. Raises: ValueError."""
    hosts = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    for host in hosts:
        port = host.partition(":")[2]
        if not _HOST.fullmatch(host) or (port and not 0 < int(port) < 65_536):
            raise ValueError("must be names such as api.openai.com, or vllm.shop:8000")
    return hosts


def guard(settings: Settings) -> dict[str, Any]:
    """Return the init container that puts the rules in."""
    command = ["tokenweir", "guard", "--port", str(settings.port)]
    command += ["--group", str(names.GUARD_GROUP), *settings.guarded]
    container: dict[str, Any] = {"name": names.GUARD, "image": settings.image}
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    container["command"] = command
    container["resources"] = {
        "requests": {"cpu": "10m", "memory": "32Mi"},
        "limits": {"memory": "128Mi"},
    }
    container["securityContext"] = _RIGHTS
    return container


def rules(
    addresses: Mapping[str, Sequence[str]], port: int, group: int, *, ipv6: bool
) -> str:
    """
    Return what ``iptables-restore --noflush`` reads, or ``ip6tables-restore``.

    Args:
        addresses: By host, as in `guarded_hosts`: those of one family.
        port: Where Envoy listens, on 127.0.0.1.
        group: Of those that may pass.
        ipv6: Which family. There Envoy does not listen, so HTTP is refused.
    """
    nat = [] if ipv6 else [*_redirected(addresses, port)]
    stopped = [*_refused_http(addresses)] if ipv6 else []
    stopped += _refused_tls([host for host in addresses if ":" not in host])
    lines = [
        *("*nat", *_chain(group), *nat, "COMMIT"),
        *("*filter", *_chain(group), *stopped, "COMMIT"),
    ]
    return "\n".join([*lines, ""])


def _chain(group: int) -> Iterator[str]:
    yield f":{_CHAIN} - [0:0]"
    yield f"-I OUTPUT -j {_CHAIN}"
    yield f"-A {_CHAIN} -m owner --gid-owner {group} -j RETURN"


def _redirected(addresses: Mapping[str, Sequence[str]], port: int) -> Iterator[str]:
    for target in _plain(addresses):
        yield f"-A {_CHAIN} {target} -j REDIRECT --to-ports {port}"


def _refused_http(addresses: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for target in _plain(addresses):
        yield f"-A {_CHAIN} {target} -j REJECT --reject-with tcp-reset"


def _plain(addresses: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for host, found in addresses.items():
        where = host.partition(":")[2] or _HTTP
        for address in found:
            yield f"-d {address} -p tcp -m tcp --dport {where}"


def _refused_tls(hosts: Sequence[str]) -> list[str]:
    if not hosts:
        return []
    quic = f"-A {_CHAIN} -p udp -m udp --dport 443 -j REJECT"
    return [
        *(
            f"-A {_CHAIN} -p tcp -m tcp --dport 443 -m string --algo bm --icase "
            f'--string "{host}" -j REJECT --reject-with tcp-reset'
            for host in hosts
        ),
        quic,
    ]
