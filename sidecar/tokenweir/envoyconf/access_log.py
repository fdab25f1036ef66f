"""
What Envoy tells of exchanges: a JSON line for each request, to a file, and entries for
the processor.

In a line no header of the app is but its request id, no query string, no body, and of
an error of the processor only the head: gRPC puts the text of exceptions behind it.

The processor is told of exchanges that nobody has read the answer of but Envoy: while they
last, and at their end. Such an entry has what `lua/watch.lua` has noted of the answer, and
the ticket; it goes over the socket that the answer would have gone over.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.accesslog.v3 import (
    AccessLog,
    AccessLogFilter,
    AndFilter,
    ComparisonFilter,
    ComparisonFilterOp,
    LogTypeFilter,
    MetadataFilter,
    OrFilter,
    StatusCodeFilter,
)
from envoy_data_plane.envoy.config.core.v3 import (
    ApiVersion,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    RuntimeUInt32,
    SubstitutionFormatString,
)
from envoy_data_plane.envoy.data.accesslog.v3 import AccessLogType
from envoy_data_plane.envoy.extensions.access_loggers.file.v3 import FileAccessLog
from envoy_data_plane.envoy.extensions.access_loggers.grpc.v3 import (
    CommonGrpcAccessLogConfig,
    HttpGrpcAccessLogConfig,
)
from envoy_data_plane.envoy.type.matcher.v3 import (
    MetadataMatcher,
    MetadataMatcherPathSegment,
    StringMatcher,
    ValueMatcher,
)
from envoy_data_plane.google.protobuf import Any, Struct

from tokenweir.core.response_path import ResponsePath
from tokenweir.envoyconf.names import METADATA_NAMESPACE, PROCESSOR_CLUSTER
from tokenweir.envoyconf.settings import EnvoySettings

FIELDS: Final = {
    "time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ:PATH):256%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%CEL(response.code_details):48%",
    "duration_ms": "%DURATION%",
    "request_bytes": "%BYTES_RECEIVED%",
    "response_bytes": "%BYTES_SENT%",
    "provider": "%UPSTREAM_CLUSTER%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "request_id": "%REQ(X-REQUEST-ID):64%",
    **{
        key: f"%DYNAMIC_METADATA({METADATA_NAMESPACE}:{key}):256%"
        for key in ("tenant", "model", "hold")
    },
}
LOG_NAME: Final = "tokenweir"
# What tells how a body is to be read.
RESPONSE_HEADERS: Final = ("content-type", "content-encoding", "content-length")
# Each entry goes at once: the next request may need the slot that it gives back.
AT_ONCE_BYTES: Final = 0
FLUSH_INTERVAL: Final = timedelta(milliseconds=50)


def access_logs(settings: EnvoySettings) -> list[AccessLog]:
    """Return the log to a file, and that to the processor."""
    return [_file_log(settings.access_log_path), _processor_log()]


def _file_log(path: str) -> AccessLog:
    line = SubstitutionFormatString(
        json_format=Struct.from_dict(FIELDS), omit_empty_values=True
    )
    sink = FileAccessLog(path=path, log_format=line)
    return AccessLog(
        name="envoy.access_loggers.file",
        filter=AccessLogFilter(
            log_type_filter=LogTypeFilter(types=[AccessLogType.DownstreamEnd])
        ),
        typed_config=Any.pack(sink),
    )


def _processor_log() -> AccessLog:
    sink = HttpGrpcAccessLogConfig(
        common_config=CommonGrpcAccessLogConfig(
            log_name=LOG_NAME,
            grpc_service=GrpcService(
                envoy_grpc=GrpcServiceEnvoyGrpc(
                    cluster_name=PROCESSOR_CLUSTER, skip_envoy_headers=True
                ),
                timeout=timedelta(0),
            ),
            transport_api_version=ApiVersion.V3,
            buffer_flush_interval=FLUSH_INTERVAL,
            buffer_size_bytes=AT_ONCE_BYTES,
        ),
        additional_response_headers_to_log=list(RESPONSE_HEADERS),
    )
    return AccessLog(
        name="envoy.access_loggers.http_grpc",
        filter=AccessLogFilter(or_filter=OrFilter(filters=[_native(), _unanswered()])),
        typed_config=Any.pack(sink),
    )


def _native() -> AccessLogFilter:
    path = MetadataFilter(
        matcher=MetadataMatcher(
            filter=METADATA_NAMESPACE,
            path=[MetadataMatcherPathSegment(key="path")],
            value=ValueMatcher(string_match=StringMatcher(exact=ResponsePath.NATIVE)),
        ),
        # What was never admitted has no such metadata.
        match_if_key_not_found=False,
    )
    return AccessLogFilter(metadata_filter=path)


def _unanswered() -> AccessLogFilter:
    """Match what has no status: apps that left, perhaps just as they were admitted."""
    none = RuntimeUInt32(default_value=0, runtime_key="tokenweir.no_status")
    equals = ComparisonFilter(op=ComparisonFilterOp.EQ, value=none)
    ended = LogTypeFilter(types=[AccessLogType.DownstreamEnd])
    both = (
        AccessLogFilter(status_code_filter=StatusCodeFilter(comparison=equals)),
        AccessLogFilter(log_type_filter=ended),
    )
    return AccessLogFilter(and_filter=AndFilter(filters=list(both)))
