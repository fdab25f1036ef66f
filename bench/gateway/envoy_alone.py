"""
The least that Envoy can do: one listener, one route, one cluster, no access log.

What is measured in ratios to it could not be had for less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TYPES = "type.googleapis.com/envoy."
_FILTERS = f"{_TYPES}extensions.filters"
_MANY = 50_000


def alone(upstream_port: int) -> dict[str, Any]:
    """Return the bootstrap of an Envoy that passes everything on."""
    return _bootstrap([], [_upstream(upstream_port)])


def with_processor(upstream_port: int, socket: Path) -> dict[str, Any]:
    """Return that of one which shows a processor all of each exchange."""
    mode = {
        "request_header_mode": "SEND",
        "request_body_mode": "BUFFERED",
        "response_header_mode": "SEND",
        "response_body_mode": "STREAMED",
        "request_trailer_mode": "SKIP",
        "response_trailer_mode": "SKIP",
    }
    processor = {
        "@type": f"{_FILTERS}.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {
            "envoy_grpc": {"cluster_name": "processor"},
            "timeout": "0s",
            "initial_metadata": [{"key": "x-tokenweir-role", "value": "admission"}],
        },
        "processing_mode": mode,
        "message_timeout": "60s",
    }
    filters = [{"name": "processor", "typed_config": processor}]
    return _bootstrap(filters, [_upstream(upstream_port), _processor(socket)])


def _bootstrap(filters: list[Any], clusters: list[Any]) -> dict[str, Any]:
    router = {"@type": f"{_FILTERS}.http.router.v3.Router"}
    manager = {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "apps",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "upstream", "timeout": "0s"},
                        }
                    ],
                }
            ]
        },
        "http_filters": [*filters, {"name": "router", "typed_config": router}],
    }
    listener = {
        "name": "apps",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


def _upstream(port: int) -> dict[str, Any]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return _cluster("upstream", address)


def _processor(socket: Path) -> dict[str, Any]:
    http2 = {
        "@type": f"{_TYPES}extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    cluster = _cluster("processor", {"pipe": {"path": str(socket)}})
    return cluster | {"typed_extension_protocol_options": {name: http2}}


def _cluster(name: str, address: dict[str, Any]) -> dict[str, Any]:
    most = dict.fromkeys(
        ("max_connections", "max_pending_requests", "max_requests"), _MANY
    )
    return {
        "name": name,
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }
