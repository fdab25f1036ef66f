"""Whom Envoy connects to: the providers, and the processor's workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterCommonLbConfig,
    ClusterCustomClusterType,
    ClusterDiscoveryType,
    ClusterLbPolicy,
    UpstreamConnectionOptions,
)
from envoy_data_plane.envoy.config.core.v3 import (
    HealthCheck,
    HealthCheckGrpcHealthCheck,
    Http1ProtocolOptions,
    Http2ProtocolOptions,
    KeepaliveSettings,
    TcpKeepalive,
    TransportSocket,
)
from envoy_data_plane.envoy.config.core.v3 import (
    HttpProtocolOptions as ConnectionOptions,
)
from envoy_data_plane.envoy.extensions.clusters.common.dns.v3 import DnsLookupFamily
from envoy_data_plane.envoy.extensions.clusters.dns.v3 import (
    DnsCluster,
    DnsClusterRefreshRate,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    SubjectAltNameMatcher,
    SubjectAltNameMatcherSanType,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsAutoHttpConfig,
    HttpProtocolOptionsExplicitHttpConfig,
)
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher
from envoy_data_plane.google.protobuf import Any

from tokenweir.core.policy import Policy, Provider
from tokenweir.envoyconf.addresses import endpoints, is_ip_address, tcp, unix
from tokenweir.envoyconf.certificates import tls_context
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER
from tokenweir.envoyconf.settings import EnvoySettings

PROTOCOL_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
# Envoy's default of 1024 would be reached by 512 streams: each exchange has two calls
# to the processor, one of them as long as the answer.
MAX_CALLS: Final = 50_000
# Of a provider's connection: what it brings at once is one piece, as a rule, for filters
# and for the processor, and each has several copies. Envoy's default is a megabyte.
BUFFER_BYTES: Final = 128 * 1024
# A request on a connection that the server is just closing fails, and must not be
# repeated: it may have worked. So we close first. Model servers built on uvicorn or
# Node close after 5 s without traffic, the large providers after a minute and more.
IDLE_SECONDS: Final = {"http": 4, "https": 50}
# NAT and load balancers forget silent connections within minutes; an answer that is
# not streamed can be silent for longer.
KEEPALIVE: Final = TcpKeepalive(
    keepalive_time=30, keepalive_interval=10, keepalive_probes=3
)


def clusters(policy: Policy, settings: EnvoySettings) -> list[Cluster]:
    """Return a cluster for each provider, and the processor's."""
    return [
        *(provider_cluster(each, settings) for each in policy.providers.values()),
        processor_cluster(settings),
    ]


def provider_cluster(provider: Provider, settings: EnvoySettings) -> Cluster:
    """Return the cluster of *provider*."""
    address = tcp(provider.host, provider.port)
    return Cluster(
        name=provider.cluster,
        # In statistics and logs it goes by the name that people know.
        alt_stat_name=provider.name,
        cluster_type=_dns(provider),
        connect_timeout=timedelta(milliseconds=settings.connect_timeout_ms),
        per_connection_buffer_limit_bytes=BUFFER_BYTES,
        lb_policy=ClusterLbPolicy.LEAST_REQUEST,
        load_assignment=endpoints(provider.cluster, [address]),
        circuit_breakers=_unbounded(),
        upstream_connection_options=UpstreamConnectionOptions(tcp_keepalive=KEEPALIVE),
        typed_extension_protocol_options={
            PROTOCOL_OPTIONS: Any.pack(_provider_http(provider))
        },
        transport_socket=_tls(provider, settings),
    )


def _dns(provider: Provider) -> ClusterCustomClusterType | None:
    if is_ip_address(provider.host):
        return None
    dns = DnsCluster(
        # Many providers have AAAA records, many networks no IPv6 to reach them by.
        dns_lookup_family=DnsLookupFamily.V4_PREFERRED,
        respect_dns_ttl=True,
        dns_failure_refresh_rate=DnsClusterRefreshRate(
            base_interval=timedelta(seconds=1), max_interval=timedelta(seconds=10)
        ),
        # A large provider's name resolves to other addresses each time: connections
        # to the earlier ones stay. At home, each address is a replica.
        all_addresses_in_single_endpoint=provider.scheme == "https",
    )
    return ClusterCustomClusterType(
        name="envoy.clusters.dns", typed_config=Any.pack(dns)
    )


def _provider_http(provider: Provider) -> HttpProtocolOptions:
    idle = timedelta(seconds=IDLE_SECONDS[provider.scheme])
    options = HttpProtocolOptions(
        common_http_protocol_options=ConnectionOptions(idle_timeout=idle)
    )
    if provider.scheme == "https":
        options.auto_config = HttpProtocolOptionsAutoHttpConfig(
            http_protocol_options=Http1ProtocolOptions(),
            http2_protocol_options=Http2ProtocolOptions(),
        )
    elif provider.http2:
        options.explicit_http_config = HttpProtocolOptionsExplicitHttpConfig(
            http2_protocol_options=Http2ProtocolOptions()
        )
    else:
        options.explicit_http_config = HttpProtocolOptionsExplicitHttpConfig(
            http_protocol_options=Http1ProtocolOptions()
        )
    return options


def _tls(provider: Provider, settings: EnvoySettings) -> TransportSocket | None:
    if provider.scheme != "https":
        return None
    is_address = is_ip_address(provider.host)
    kind = SubjectAltNameMatcherSanType
    name = SubjectAltNameMatcher(
        san_type=kind.IP_ADDRESS if is_address else kind.DNS,
        matcher=StringMatcher(exact=provider.host),
    )
    trust = CertificateValidationContext(match_typed_subject_alt_names=[name])
    context = UpstreamTlsContext(
        sni="" if is_address else provider.host,  # RFC 6066: "Literal IPv4 and IPv6
        # addresses are not permitted in HostName."
        common_tls_context=tls_context(provider, settings, trust),
    )
    return TransportSocket(
        name="envoy.transport_sockets.tls", typed_config=Any.pack(context)
    )


def processor_cluster(settings: EnvoySettings) -> Cluster:
    """Return the cluster of the processor's workers."""
    sockets = [unix(path) for path in settings.processor_sockets]
    http2 = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(
            http2_protocol_options=Http2ProtocolOptions(
                connection_keepalive=_pings(settings)
            )
        )
    )
    return Cluster(
        name=PROCESSOR_CLUSTER,
        type=ClusterDiscoveryType.STATIC,
        connect_timeout=timedelta(milliseconds=500),
        lb_policy=ClusterLbPolicy.LEAST_REQUEST,
        load_assignment=endpoints(PROCESSOR_CLUSTER, sockets),
        circuit_breakers=_unbounded(),
        # No outlier detection: it would eject the only worker, or the last one. And a
        # lone worker needs no health check: it would only delay its return.
        health_checks=[_health_check()] if len(sockets) > 1 else [],
        # Envoy would let up to a second's changes of health gather before its workers
        # hear of them: too late, if one of ours has come back and the other has died.
        common_lb_config=ClusterCommonLbConfig(update_merge_window=timedelta()),
        typed_extension_protocol_options={PROTOCOL_OPTIONS: Any.pack(http2)},
    )


def _pings(settings: EnvoySettings) -> KeepaliveSettings:
    # Envoy's timer runs for one message only: if the first of several pieces of an
    # answer is taken, and then the processor freezes, the others would wait for ever.
    return KeepaliveSettings(
        interval=timedelta(seconds=1),
        timeout=timedelta(milliseconds=settings.response_timeout_ms),
    )


def _health_check() -> HealthCheck:
    second = timedelta(seconds=1)
    return HealthCheck(
        timeout=second,
        interval=second,
        no_traffic_interval=second,
        unhealthy_threshold=2,
        healthy_threshold=1,
        grpc_health_check=HealthCheckGrpcHealthCheck(),
    )


def _unbounded() -> CircuitBreakers:
    calls = CircuitBreakersThresholds(
        max_connections=MAX_CALLS,
        max_pending_requests=MAX_CALLS,
        max_requests=MAX_CALLS,
        max_retries=MAX_CALLS,
    )
    return CircuitBreakers(thresholds=[calls])
