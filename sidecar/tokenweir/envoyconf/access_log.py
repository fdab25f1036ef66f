"""
One JSON line for each request, to a file.

No header of the app but its request id is in it, no query string, no body, and of
an error of the processor only the head: gRPC puts the text of exceptions behind it.
"""

from __future__ import annotations

from typing import Final

from envoy_data_plane.envoy.config.accesslog.v3 import AccessLog
from envoy_data_plane.envoy.config.core.v3 import SubstitutionFormatString
from envoy_data_plane.envoy.extensions.access_loggers.file.v3 import FileAccessLog
from envoy_data_plane.google.protobuf import Any, Struct

from tokenweir.envoyconf.names import METADATA_NAMESPACE

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


def access_log(path: str) -> AccessLog:
    """Return the log to the file *path*."""
    line = SubstitutionFormatString(
        json_format=Struct.from_dict(FIELDS), omit_empty_values=True
    )
    sink = FileAccessLog(path=path, log_format=line)
    return AccessLog(name="envoy.access_loggers.file", typed_config=Any.pack(sink))
