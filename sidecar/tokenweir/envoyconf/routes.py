"""
From admission's answer to a provider.

The processor names the provider's cluster and the timeout class in headers of ours;
there is a route for each pair. What has no such headers was admitted by nobody: it is
answered here and never forwarded. So is what was admitted to a provider that is not
the one which this was rendered for: a cluster's name says what the cluster is.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.core.v3 import (
    HeaderValue,
    HeaderValueOption,
    HeaderValueOptionHeaderAppendAction,
)
from envoy_data_plane.envoy.config.route.v3 import (
    DirectResponseAction,
    HeaderMatcher,
    RetryPolicy,
    RetryPolicyRateLimitedRetryBackOff,
    RetryPolicyResetHeader,
    RetryPolicyResetHeaderFormat,
    RetryPolicyRetryBackOff,
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    RouteMatchConnectMatcher,
    VirtualHost,
)
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher

from tokenweir.core.headers import REFUSAL_HEADER
from tokenweir.core.policy import Policy, Provider, TimeoutClass
from tokenweir.core.response_path import ResponsePath, route_name
from tokenweir.envoyconf.filters import governed, read_by, unwatched
from tokenweir.envoyconf.names import (
    CLUSTER_HEADER,
    NEVER_HEADER,
    PATH_HEADER,
    ROUTES_NAME,
    TIMEOUT_HEADER,
    WHOLE_HEADER,
)
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.whole_requests import whole_route

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Envoy's limit also bounds what the processor makes of a body, and by then the request
# has been admitted. So the processor enforces the policy's limit, and Envoy, which
# must not buffer more than that, leaves room for edits.
EDIT_HEADROOM_BYTES: Final = 64 * 1024
DEFAULT_CLASS: Final = "default"
RATE_LIMITED_HEADER: Final = "x-envoy-ratelimited"  # see lua/retry_after.lua
# Replies must be readable. To say nothing would not do: RFC 9110, 12.5.3: "If no
# Accept-Encoding header field is in the request, any content coding is considered
# acceptable by the user agent."
NO_ENCODING: Final = HeaderValueOption(
    header=HeaderValue(key="accept-encoding", value="identity"),
    append_action=HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
)
# Whatever of it Envoy or the processor added is nobody's business upstream.
NOT_FORWARDED: Final = (
    CLUSTER_HEADER,
    TIMEOUT_HEADER,
    PATH_HEADER,
    WHOLE_HEADER,
    "x-forwarded-proto",
    "x-envoy-internal",
    "x-envoy-external-address",
)
# Only what cannot have worked already.
RETRY_ON: Final = (
    "connect-failure,refused-stream,reset-before-request,retriable-status-codes"
)
RETRIED_STATUSES: Final = (429, 503)


# The last one of them is taken without a word.
_PATHS: Final = (ResponsePath.NATIVE, ResponsePath.OBSERVE, ResponsePath.INSPECT)


def route_configuration(policy: Policy, settings: EnvoySettings) -> RouteConfiguration:
    """Return every way that a request can take."""
    whole = whole_route(settings)
    everything = VirtualHost(
        name=ROUTES_NAME,
        domains=["*"],
        routes=[_connect(), whole, *_provider_routes(policy), _not_admitted(settings)],
        retry_policy=_retry_policy(policy.retries, settings),
        typed_per_filter_config=governed(
            policy.body_limit_bytes, policy.rendering.values()
        ),
        request_body_buffer_limit=policy.body_limit_bytes + EDIT_HEADROOM_BYTES,
        request_headers_to_add=[NO_ENCODING],
        request_headers_to_remove=list(NOT_FORWARDED),
        # Only we may say that an answer is ours.
        response_headers_to_remove=[REFUSAL_HEADER, RATE_LIMITED_HEADER],
    )
    return RouteConfiguration(name=ROUTES_NAME, virtual_hosts=[everything])


def authority(provider: Provider) -> str:
    """Return the Host header of *provider*: the port only if it is not the default."""
    host = f"[{provider.host}]" if ":" in provider.host else provider.host
    if provider.port == DEFAULT_PORTS[provider.scheme]:
        return host
    return f"{host}:{provider.port}"


def _provider_routes(policy: Policy) -> Iterator[Route]:
    classes = dict(policy.timeout_classes)
    default = classes.pop(DEFAULT_CLASS)
    for provider in policy.providers.values():
        for path in _PATHS:
            here = [_is(CLUSTER_HEADER, provider.cluster), *_taken(path)]
            for timeouts in classes.values():
                headers = [*here, _is(TIMEOUT_HEADER, timeouts.name)]
                yield _route(provider, path, timeouts, headers)
            # Last: classes that a policy has got since then are treated so as well.
            yield _route(provider, path, default, here)


def _taken(path: ResponsePath) -> list[HeaderMatcher]:
    return [] if path is ResponsePath.INSPECT else [_is(PATH_HEADER, path)]


def _route(
    provider: Provider,
    path: ResponsePath,
    timeouts: TimeoutClass,
    headers: list[HeaderMatcher],
) -> Route:
    return Route(
        name=route_name(provider.name, timeouts.name, path),
        match=RouteMatch(prefix="/", headers=headers),
        route=_action(provider, timeouts),
        typed_per_filter_config=read_by(path),
    )


def _action(provider: Provider, timeouts: TimeoutClass) -> RouteAction:
    # "/" → "/prefix/": the rest of the path and the query stay as they are.
    prefix = f"{provider.path_prefix}/" if provider.path_prefix else ""
    return RouteAction(
        cluster=provider.cluster,
        host_rewrite_literal=authority(provider),
        prefix_rewrite=prefix,
        timeout=timedelta(milliseconds=timeouts.total_ms),
        idle_timeout=timedelta(milliseconds=timeouts.idle_ms),
    )


def _retry_policy(retries: int, settings: EnvoySettings) -> RetryPolicy:
    limit = timedelta(milliseconds=settings.retry_after_limit_ms)
    return RetryPolicy(
        retry_on=RETRY_ON,
        retriable_status_codes=list(RETRIED_STATUSES),
        num_retries=retries,
        retry_back_off=RetryPolicyRetryBackOff(
            base_interval=timedelta(milliseconds=100),
            max_interval=timedelta(seconds=1),
        ),
        rate_limited_retry_back_off=RetryPolicyRateLimitedRetryBackOff(
            reset_headers=[
                RetryPolicyResetHeader(
                    name="retry-after", format=RetryPolicyResetHeaderFormat.SECONDS
                )
            ],
            max_interval=limit,
        ),
    )


def _connect() -> Route:
    # A tunnel's body never ends, so admission would wait for it.
    return Route(
        name="connect",
        match=RouteMatch(connect_matcher=RouteMatchConnectMatcher()),
        direct_response=DirectResponseAction(status=405),
        typed_per_filter_config=unwatched(admitted=True),
    )


def _not_admitted(settings: EnvoySettings) -> Route:
    return Route(
        name="not-admitted",
        match=RouteMatch(prefix="/"),
        # A cluster that nobody names. It is no direct response, for with one the
        # buffer limit above would not hold while the request waits for admission.
        route=RouteAction(
            cluster_header=NEVER_HEADER,
            # While the request comes; with its admission the route's own time begins.
            idle_timeout=timedelta(milliseconds=settings.upload_idle_timeout_ms),
        ),
        typed_per_filter_config=unwatched(),
    )


def _is(header: str, value: str) -> HeaderMatcher:
    return HeaderMatcher(name=header, string_match=StringMatcher(exact=value))
