"""
The way of a request from an app's connection to the filters, and what can be wrong
with it before the processor has seen it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import (
    HeaderMutation,
    HeaderMutationRemoveOnMatch,
)
from envoy_data_plane.envoy.config.core.v3 import (
    Http1ProtocolOptions,
    Http2ProtocolOptions,
    HttpProtocolOptions,
    HttpProtocolOptionsHeadersWithUnderscoresAction,
    SchemeHeaderTransformation,
    TypedExtensionConfig,
)
from envoy_data_plane.envoy.config.listener.v3 import Filter, FilterChain, Listener
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpConnectionManagerCodecType,
    HttpConnectionManagerHcmAccessLogOptions,
    HttpConnectionManagerPathWithEscapedSlashesAction,
    HttpConnectionManagerServerHeaderTransformation,
    Rds,
)
from envoy_data_plane.envoy.extensions.http.early_header_mutation.header_mutation.v3 import (
    HeaderMutation as EarlyHeaderMutation,
)
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher
from envoy_data_plane.google.protobuf import Any

from tokenweir.envoyconf.access_log import access_logs
from tokenweir.envoyconf.addresses import tcp
from tokenweir.envoyconf.filters import http_filters
from tokenweir.envoyconf.local_reply import local_replies
from tokenweir.envoyconf.names import GOVERNOR_PREFIX
from tokenweir.envoyconf.settings import EnvoySettings

MAX_REQUEST_HEADERS_KB: Final = 64
# What an app sends that reaches neither processor nor provider, by prefix:
NOT_FROM_APPS_PREFIXES: Final = (
    GOVERNOR_PREFIX,
    # An app could ask Envoy for other timeouts, or for retries of paid answers.
    "x-envoy-",
    # Who the app's own caller is, and how the request came: no provider's business.
    *("x-forwarded-", "x-auth-request-", "x-amzn-oidc-", "x-goog-iap-"),
    *("x-ms-client-principal", "cf-access-"),
)
# ... and by name. `upgrade` is none of them: it is refused, not overlooked.
NOT_FROM_APPS: Final = (
    # The app's session, and what proves who it is to somebody else.
    *("cookie", "cookie2", "proxy-authorization", "x-csrf-token", "x-xsrf-token"),
    # Who the app's own caller is.
    *("forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip"),
    *("x-original-forwarded-for", "true-client-ip", "cf-connecting-ip"),
    *("fastly-client-ip", "remote-user", "x-remote-user", "referer", "via"),
    # Some servers take another method or path from them than was admitted.
    *("x-http-method", "x-http-method-override", "x-method-override"),
    *("x-original-url", "x-rewrite-url"),
    # Hop by hop (RFC 9110, 7.6.1): they are about the connection to us.
    *("keep-alive", "proxy-connection", "te", "trailer", "http2-settings"),
)


def listener(settings: EnvoySettings, routes: RouteConfiguration | Rds) -> Listener:
    """
    Return the listener that apps connect to. *routes*, or where they are found.

    WARNING: nothing of a policy may be in it but *routes*. Envoy closes connections of
    a listener that has changed, and with them whatever is streamed by then.
    """
    manager = _connection_manager(settings)
    if isinstance(routes, Rds):
        manager.rds = routes
    else:
        manager.route_config = routes
    chain = Filter(
        name="envoy.filters.network.http_connection_manager",
        typed_config=Any.pack(manager),
    )
    return Listener(
        name="apps",
        address=tcp(settings.listen_host, settings.listen_port),
        filter_chains=[FilterChain(filters=[chain])],
        # With it, a second Envoy on the same port would silently share the traffic.
        enable_reuse_port=False,
    )


def _connection_manager(settings: EnvoySettings) -> HttpConnectionManager:
    escaped_slashes = HttpConnectionManagerPathWithEscapedSlashesAction.KEEP_UNCHANGED
    return HttpConnectionManager(
        stat_prefix="apps",
        codec_type=HttpConnectionManagerCodecType.AUTO,  # HTTP/1.0, 1.1, 2 (h2c)
        http_protocol_options=Http1ProtocolOptions(
            accept_http_10=True, default_host_for_http_10="localhost"
        ),
        # A WebSocket over HTTP/2 (RFC 8441) is read, to be refused with a reason: else
        # Envoy drops its connection, and all that others ask on it.
        http2_protocol_options=Http2ProtocolOptions(allow_connect=True),
        common_http_protocol_options=HttpProtocolOptions(
            idle_timeout=timedelta(hours=1),
            # Some servers read x_tokenweir_cluster as x-tokenweir-cluster.
            headers_with_underscores_action=(
                HttpProtocolOptionsHeadersWithUnderscoresAction.DROP_HEADER
            ),
        ),
        max_request_headers_kb=MAX_REQUEST_HEADERS_KB,
        request_headers_timeout=timedelta(seconds=30),
        request_timeout=timedelta(milliseconds=settings.upload_timeout_ms),
        # An app that is still sending what was refused is cut off after this.
        delayed_close_timeout=timedelta(milliseconds=500),
        # Of a stream that no route has taken yet; a route has its timeout class's.
        stream_idle_timeout=timedelta(minutes=5),
        early_header_mutation_extensions=[_early_strip()],
        normalize_path=True,
        merge_slashes=True,
        # Bedrock's models have slashes in their names. The processor knows where such a
        # path leads, and refuses all others.
        path_with_escaped_slashes_action=escaped_slashes,
        # The peer is the app itself: nobody between us can say who it is.
        use_remote_address=True,
        skip_xff_append=True,
        scheme_header_transformation=SchemeHeaderTransformation(match_upstream=True),
        server_header_transformation=(
            HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH
        ),
        generate_request_id=True,
        preserve_external_request_id=True,
        access_log=access_logs(settings),
        access_log_options=HttpConnectionManagerHcmAccessLogOptions(
            access_log_flush_interval=timedelta(
                milliseconds=settings.progress_interval_ms
            )
        ),
        local_reply_config=local_replies(),
        http_filters=http_filters(settings),
    )


def _early_strip() -> TypedExtensionConfig:
    matchers = [StringMatcher(prefix=prefix) for prefix in NOT_FROM_APPS_PREFIXES]
    mutations = [
        *(HeaderMutation(remove_on_match=_removal(matcher)) for matcher in matchers),
        *(HeaderMutation(remove=name) for name in NOT_FROM_APPS),
    ]
    return TypedExtensionConfig(
        name="envoy.http.early_header_mutation.header_mutation",
        typed_config=Any.pack(EarlyHeaderMutation(mutations=mutations)),
    )


def _removal(matcher: StringMatcher) -> HeaderMutationRemoveOnMatch:
    return HeaderMutationRemoveOnMatch(key_matcher=matcher)
