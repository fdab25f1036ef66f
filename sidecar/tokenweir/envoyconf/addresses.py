"""Where something listens, as Envoy writes it."""

from __future__ import annotations

import ipaddress

from envoy_data_plane.envoy.config.core.v3 import Address, Pipe, SocketAddress
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)


def tcp(host: str, port: int) -> Address:
    """Return *host* and *port*; the host is a DNS name or an address."""
    return Address(socket_address=SocketAddress(address=host, port_value=port))


def unix(path: str) -> Address:
    """Return the unix socket at *path*."""
    return Address(pipe=Pipe(path=path))


def is_ip_address(host: str) -> bool:
    """Tell if *host* is an IPv4 or IPv6 address (without brackets)."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def endpoints(cluster: str, addresses: list[Address]) -> ClusterLoadAssignment:
    """Return *addresses* as the equal endpoints of *cluster*."""
    hosts = [LbEndpoint(endpoint=Endpoint(address=address)) for address in addresses]
    group = LocalityLbEndpoints(lb_endpoints=hosts)
    return ClusterLoadAssignment(cluster_name=cluster, endpoints=[group])
