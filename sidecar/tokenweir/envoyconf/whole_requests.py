"""
Requests that the processor is shown whole, in one message.

Most calls of a model are: a POST to a path whose body is read, with a length. Their head
passes admission without a word. `lua/drain.lua` has written all of it into a header of
ours, which comes as an attribute with the message of the body; and `lua/apply.lua`, which
holds the head meanwhile, does what is answered.

    app ──▶ watch ──▶ admission ──▶ apply ──▶ …
            tells     is asked      holds the head
            of the    with the      until the body
            head      body          is answered

All others go the long way: first the head, then the body if it is asked for. Those are
requests without a body or of a length that is not told (without one Envoy would send no
message at all), large ones, encoded ones and forms (what their head is refused for is told
before all of it has come), those above the policy's limit, and heads with other characters
than printable ASCII, as no attribute holds other bytes than text.

So which way a request goes decides nothing but what it costs.

WARNING: this route leads to no provider, and must not. See `lua/apply.lua`.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.route.v3 import (
    HeaderMatcher,
    Route,
    RouteAction,
    RouteMatch,
)
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExtProcOverrides,
    ExtProcPerRoute,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.filters.http.lua.v3 import LuaPerRoute
from envoy_data_plane.google.protobuf import Any, Struct

from tokenweir.envoyconf.filters import (
    ADMISSION_FILTER,
    APPLY_FILTER,
    unwatched,
)
from tokenweir.envoyconf.names import NEVER_HEADER, WHOLE_HEADER
from tokenweir.envoyconf.settings import EnvoySettings


def whole_route(settings: EnvoySettings) -> Route:
    """Return the route of those requests. What all routes tell is told as well."""
    return Route(
        name="whole",
        # Set by lua/drain.lua, and taken out by lua/apply.lua.
        match=RouteMatch(
            prefix="/",
            headers=[HeaderMatcher(name=WHOLE_HEADER, present_match=True)],
        ),
        route=RouteAction(
            cluster_header=NEVER_HEADER,
            # While the request comes; with its admission the route's own time begins.
            idle_timeout=timedelta(milliseconds=settings.upload_idle_timeout_ms),
        ),
        typed_per_filter_config={**unwatched(), **_shown_whole()},
    )


def _shown_whole() -> dict[str, Any]:
    mode = ProcessingMode(
        request_header_mode=ProcessingModeHeaderSendMode.SKIP,
        request_body_mode=ProcessingModeBodySendMode.BUFFERED,
        request_trailer_mode=ProcessingModeHeaderSendMode.SKIP,
        response_header_mode=ProcessingModeHeaderSendMode.SKIP,
        response_body_mode=ProcessingModeBodySendMode.NONE,
        response_trailer_mode=ProcessingModeHeaderSendMode.SKIP,
    )
    overrides = ExtProcOverrides(
        processing_mode=mode,
    )
    return {
        ADMISSION_FILTER: Any.pack(ExtProcPerRoute(overrides=overrides)),
        # Anything at all, instead of its being disabled.
        APPLY_FILTER: Any.pack(LuaPerRoute(filter_context=Struct())),
    }
