"""
Where the processor hooks into a request's way through Envoy.

    app ──▶ watch ──▶ admission ──▶ apply ──▶ response ──▶ router ──▶ provider
    app ◀── watch ◀── ········· ◀── ····· ◀── response ◀── router ◀── provider

- *watch* (Lua) takes an event out that only the governor asked for, and writes down
  what passes where no processor reads it. On the way in it reads too large a body to
  its end: see `lua/drain.lua`.
- *admission* (ext_proc) holds the request until the processor has admitted it. It is
  fail-closed, and once it has been answered nothing hangs on the processor.
- *apply* (Lua) changes what admission was shown whole: see `whole_requests.py`.
- *response* (ext_proc) shows the processor what comes back. It is fail-open: a
  processor that dies takes no byte of a running answer with it. Its stream begins
  with the request's head, so that a client which hangs up before the provider has
  answered is seen as a closed stream.
- *observe* (ext_proc) shows it a copy, and waits for nothing. Of these two a route has
  the one or the other, or neither: see docs/response-paths.md.

WARNING: the order is part of it. See `lua/watch.lua` for the first place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from importlib import resources
from typing import Final

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutationRules
from envoy_data_plane.envoy.config.core.v3 import (
    BackoffStrategy,
    DataSource,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    HeaderValue,
    RetryPolicy,
    RetryPolicyRetryHostPredicate,
)
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    ExtProcOverrides,
    ExtProcPerRoute,
    MetadataOptions,
    MetadataOptionsMetadataNamespaces,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.filters.http.lua.v3 import Lua, LuaPerRoute
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3 import (
    UpstreamCodec,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpFilter,
)
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import (
    PreviousHostsPredicate,
)
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode
from envoy_data_plane.google.protobuf import Any, Struct

from tokenweir.core.dialects import COUNTING_FORMS, METERED_FORMS, METERED_PATHS
from tokenweir.core.dialects.path_form import MODEL, PathForm
from tokenweir.core.identify import TOKEN_FREE_PATHS
from tokenweir.core.response_path import ResponsePath
from tokenweir.envoyconf.names import (
    ADMISSION,
    METADATA_NAMESPACE,
    OBSERVE,
    PROCESSOR_CLUSTER,
    RENDERED_METADATA,
    RESPONSE,
    ROLE_METADATA,
    WHOLE_HEADER,
)
from tokenweir.envoyconf.settings import EnvoySettings

WATCH_FILTER: Final = "tokenweir.watch"
ADMISSION_FILTER: Final = "tokenweir.admission"
APPLY_FILTER: Final = "tokenweir.apply"
RESPONSE_FILTER: Final = "tokenweir.response"
OBSERVE_FILTER: Final = "tokenweir.observe"
# In the order in which they build on each other.
WATCH_PARTS: Final = (
    *("records", "squeeze", "framing", "excerpt"),
    *("headers", "strip", "watch"),
)
# Who sends more than that is cut off: nobody needs so much to be told that it is much.
DRAIN_LIMIT_BYTES: Final = 128 * 1024 * 1024
# What a larger one costs beside its message is less than to have it sent for nothing.
WHOLE_LIMIT_BYTES: Final = 8 * 1024 * 1024
HEAD_ATTRIBUTE: Final = f"request.headers['{WHOLE_HEADER}']"  # CEL
RETRY_AFTER_FILTER: Final = "tokenweir.retry_after"
NO_UPGRADE_FILTER: Final = "tokenweir.no_upgrade"
# CEL; they come with the first message of the response, under these very keys.
RESPONSE_ATTRIBUTES: Final = ("response.code_details", "upstream.request_attempt_count")

# How long after an answer that was cut its end is told; of others it is seen.
OBSERVED_CLOSE: Final = timedelta(milliseconds=500)

_SEND = ProcessingModeHeaderSendMode.SEND
_SKIP = ProcessingModeHeaderSendMode.SKIP
_OURS = MetadataOptionsMetadataNamespaces(untyped=[METADATA_NAMESPACE])


def http_filters(settings: EnvoySettings) -> list[HttpFilter]:
    """
    Return the filters, in the order in which a request passes them.

    What they need to know of a policy comes with the routes, see `governed`: other
    filters would be another listener, and that costs connections.
    """
    return [
        lua_filter(WATCH_FILTER, _drain() + watch_source()),
        HttpFilter(name=ADMISSION_FILTER, typed_config=Any.pack(_admission(settings))),
        lua_filter(APPLY_FILTER, lua_source("apply.lua")),
        HttpFilter(name=RESPONSE_FILTER, typed_config=Any.pack(_response(settings))),
        HttpFilter(name=OBSERVE_FILTER, typed_config=Any.pack(_observe(settings))),
        HttpFilter(
            name="envoy.filters.http.router",
            typed_config=Any.pack(_router(settings)),
        ),
    ]


def lua_filter(name: str, source: str) -> HttpFilter:
    """Return a filter that runs *source*; its statistics are called *name*."""
    script = Lua(default_source_code=DataSource(inline_string=source), stat_prefix=name)
    return HttpFilter(name=name, typed_config=Any.pack(script))


def lua_source(file_name: str) -> str:
    """Return the text of a script in the folder ``lua``."""
    folder = resources.files("tokenweir.envoyconf") / "lua"
    return (folder / file_name).read_text(encoding="utf-8")


def watch_source() -> str:
    """Return the script that looks at replies: `lua/watch.lua`, and what it is made of."""
    return "\n".join(lua_source(f"{name}.lua") for name in WATCH_PARTS)


def _drain() -> str:
    paths = dict.fromkeys((*METERED_PATHS, *TOKEN_FREE_PATHS))
    read = ", ".join(f'["{path}"] = true' for path in paths)
    forms = ", ".join(
        f'"{_lua_pattern(form)}"' for form in (*METERED_FORMS, *COUNTING_FORMS)
    )
    return (
        f"local DRAIN_LIMIT = {DRAIN_LIMIT_BYTES}\n"
        f"local WHOLE_LIMIT = {WHOLE_LIMIT_BYTES}\n"
        f"local READ = {{{read}}}\n"
        f"local READ_FORMS = {{{forms}}}\n" + lua_source("drain.lua") + "\n"
    )


def _lua_pattern(form: PathForm) -> str:
    before, _, after = (
        re.sub(r"([^\w/])", r"%\1", part) for part in form.text.partition(MODEL)
    )
    others = "%w._%%:@-" if form.coded else "%w._-"
    return f"^{before}%w[{others}]*{after}$"


def governed(body_limit_bytes: int, rendered: Iterable[str]) -> dict[str, Any]:
    """
    Return what filters are told by routes, the responses of which are `watched`.

    *rendered* is what the routes were made from, see `Policy.rendering`: so that a
    processor that has another policy by now knows what leads nowhere.
    """
    overrides = ExtProcOverrides(grpc_initial_metadata=rendered_from(rendered))
    # As text: what Lua is given of a number is text too, in a form that Envoy chooses.
    limit = Struct.from_dict({"body_limit": str(body_limit_bytes)})
    return {
        WATCH_FILTER: Any.pack(LuaPerRoute(filter_context=limit)),
        ADMISSION_FILTER: Any.pack(ExtProcPerRoute(overrides=overrides)),
        APPLY_FILTER: Any.pack(LuaPerRoute(disabled=True)),
        **watched(),
    }


def rendered_from(rendered: Iterable[str]) -> list[HeaderValue]:
    """Return what tells the processor that this was made from *rendered*."""
    return [HeaderValue(key=RENDERED_METADATA, value=",".join(rendered))]


def watched() -> dict[str, Any]:
    """Return the configuration of routes whose responses the processor is shown."""
    mode = ProcessingMode(
        request_header_mode=_SEND,
        request_body_mode=ProcessingModeBodySendMode.NONE,
        request_trailer_mode=_SKIP,
        response_header_mode=_SEND,
        response_body_mode=ProcessingModeBodySendMode.STREAMED,
        response_trailer_mode=_SKIP,
    )
    overrides = ExtProcOverrides(processing_mode=mode)
    return {RESPONSE_FILTER: Any.pack(ExtProcPerRoute(overrides=overrides))}


def read_by(path: ResponsePath) -> dict[str, Any]:
    """Return the configuration of routes whose responses are read on *path*."""
    match path:
        case ResponsePath.INSPECT:
            return {}  # as everywhere else: see `governed`
        case ResponsePath.OBSERVE:
            return unwatched() | {OBSERVE_FILTER: watched()[RESPONSE_FILTER]}
        case ResponsePath.NATIVE:
            return unwatched()


def unwatched(*, admitted: bool = False) -> dict[str, Any]:
    """Return that of routes which only answer; *admitted*: without asking either."""
    off = Any.pack(ExtProcPerRoute(disabled=True))
    return {RESPONSE_FILTER: off} | ({ADMISSION_FILTER: off} if admitted else {})


def _admission(settings: EnvoySettings) -> ExternalProcessor:
    return ExternalProcessor(
        stat_prefix=ADMISSION,
        grpc_service=_processor(ADMISSION, settings),
        processing_mode=ProcessingMode(
            request_header_mode=_SEND,
            request_body_mode=ProcessingModeBodySendMode.BUFFERED,
            request_trailer_mode=_SKIP,
            response_header_mode=_SKIP,
            response_body_mode=ProcessingModeBodySendMode.NONE,
            response_trailer_mode=_SKIP,
        ),
        allow_mode_override=True,
        message_timeout=timedelta(milliseconds=settings.admission_timeout_ms),
        failure_mode_allow=False,
        status_on_error=HttpStatus(code=StatusCode.ServiceUnavailable),
        # The processor picks a provider by our own header. A mutation that Envoy would
        # not make must not go unnoticed: it could be the credential. Of what begins with
        # a colon it may change the path, which names a model in some APIs.
        mutation_rules=HeaderMutationRules(
            allow_all_routing=False,
            allow_envoy=False,
            disallow_expression=RegexMatcher(regex=":([^p].*|p[^a].*)?"),
            disallow_is_error=True,
        ),
        # Absent but where a request is shown whole: see `whole_requests.py`.
        request_attributes=[HEAD_ATTRIBUTE],
        metadata_options=MetadataOptions(receiving_namespaces=_OURS),
    )


def _response(settings: EnvoySettings) -> ExternalProcessor:
    return ExternalProcessor(
        stat_prefix=RESPONSE,
        grpc_service=_processor(RESPONSE, settings),
        # Nothing, unless the route says so: what Envoy answers before there is a route
        # must not wait for a processor. See `watched`.
        processing_mode=ProcessingMode(
            request_header_mode=_SKIP,
            request_body_mode=ProcessingModeBodySendMode.NONE,
            request_trailer_mode=_SKIP,
            response_header_mode=_SKIP,
            response_body_mode=ProcessingModeBodySendMode.NONE,
            response_trailer_mode=_SKIP,
        ),
        allow_mode_override=True,
        message_timeout=timedelta(milliseconds=settings.response_timeout_ms),
        failure_mode_allow=True,
        response_attributes=list(RESPONSE_ATTRIBUTES),
        # Nothing edits a body here, so the provider's length stays true.
        allow_content_length_header=True,
        metadata_options=MetadataOptions(forwarding_namespaces=_OURS),
    )


def _observe(settings: EnvoySettings) -> ExternalProcessor:
    copy = _response(settings)
    copy.stat_prefix = OBSERVE
    copy.grpc_service = _processor(OBSERVE, settings)
    copy.observability_mode = True
    copy.deferred_close_timeout = OBSERVED_CLOSE
    # What answers nothing changes nothing.
    copy.allow_mode_override = copy.allow_content_length_header = False
    return copy


def _router(settings: EnvoySettings) -> Router:
    limit = f"local LIMIT_SECONDS = {settings.retry_after_limit_ms / 1000:g}\n"
    codec = HttpFilter(
        name="envoy.filters.http.upstream_codec", typed_config=Any.pack(UpstreamCodec())
    )
    return Router(
        suppress_envoy_headers=True,  # the provider sees what the app sent, and back
        upstream_http_filters=[
            lua_filter(RETRY_AFTER_FILTER, limit + lua_source("retry_after.lua")),
            lua_filter(NO_UPGRADE_FILTER, lua_source("no_upgrade.lua")),
            codec,
        ],
    )


def _processor(role: str, settings: EnvoySettings) -> GrpcService:
    others = len(settings.processor_sockets) - 1
    return GrpcService(
        envoy_grpc=GrpcServiceEnvoyGrpc(
            cluster_name=PROCESSOR_CLUSTER, skip_envoy_headers=True
        ),
        timeout=timedelta(0),  # a stream lives as long as its exchange
        initial_metadata=[HeaderValue(key=ROLE_METADATA, value=role)],
        retry_policy=_try_others(others) if others else None,
    )


def _try_others(others: int) -> RetryPolicy:
    previous = RetryPolicyRetryHostPredicate(
        name="envoy.retry_host_predicates.previous_hosts",
        typed_config=Any.pack(PreviousHostsPredicate()),
    )
    return RetryPolicy(
        # Only what did not reach a worker: after a reset it may have reserved.
        retry_on="connect-failure,refused-stream,unavailable",
        num_retries=others,
        retry_back_off=BackoffStrategy(
            base_interval=timedelta(milliseconds=5),
            max_interval=timedelta(milliseconds=20),
        ),
        retry_host_predicate=[previous],
        # Workers are drawn at random: so often that the last one left is found.
        host_selection_retry_max_attempts=20 * others,
    )
