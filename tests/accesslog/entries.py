"""Entries of the access log as Envoy writes them, with what the script notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envoy.data.accesslog.v3.accesslog_pb2 import AccessLogType, HTTPAccessLogEntry
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from google.protobuf.duration_pb2 import Duration

from tests.examples import NOW_MS, ticket
from tokenweir.core.ticket import Ticket

STREAM_TYPE = {"content-type": "text/event-stream"}
US, RS = "\x1f", "\x1e"
END, PERIODIC = AccessLogType.DownstreamEnd, AccessLogType.DownstreamPeriodic


def entry(
    of: Ticket | str | None = None,
    out: Mapping[str, Any] | None = None,
    *,
    kind: int = END,
    path: str = "native",
    status: int = 200,
    details: str = "via_upstream",
    headers: Mapping[str, str] | None = None,
    body_bytes: int = 0,
    attempts: int = 1,
    took_ms: int = 1_000,
    answered: bool = True,
    sent_all: bool = True,
) -> HTTPAccessLogEntry:
    """
    Return the entry of an exchange that began at `NOW_MS`.

    *of* is its ticket, or a text in the place of one. *answered*: a provider did;
    *sent_all*: all of the answer went to the app.
    """
    made = HTTPAccessLogEntry()
    common, response = made.common_properties, made.response
    common.access_log_type = kind
    common.start_time.FromMilliseconds(NOW_MS)
    common.duration.CopyFrom(Duration(nanos=took_ms % 1000 * 1_000_000))
    common.duration.seconds = took_ms // 1000
    common.upstream_request_attempt_count = attempts
    if answered:
        common.time_to_first_upstream_rx_byte.FromMilliseconds(1)
    if sent_all:
        common.time_to_last_downstream_tx_byte.FromMilliseconds(2)
    text = of if isinstance(of, str) else (of or ticket()).to_text()
    common.metadata.filter_metadata["tokenweir"].update({"ticket": text, "path": path})
    if out is not None:
        common.metadata.filter_metadata["tokenweir.out"].update(dict(out))
    if status:
        response.response_code.value = status
    response.response_code_details = details
    response.response_body_bytes = body_bytes
    for name, value in (STREAM_TYPE if headers is None else headers).items():
        response.response_headers[name] = value
    return made


def message(*entries: HTTPAccessLogEntry) -> bytes:
    """Return the message that Envoy sends *entries* with."""
    made = StreamAccessLogsMessage()
    made.http_logs.log_entry.extend(entries)
    encoded: bytes = made.SerializeToString()
    return encoded


def noted_head(kind: str, coding: str = "", length: str = "") -> dict[str, Any]:
    """Return what is noted of a head: see `tokenweir.core.excerpt`."""
    return {"b0": f"?{US.join((kind, coding, length, str(NOW_MS * 1000)))}{RS}"}


def whole(body: bytes) -> dict[str, Any]:
    """Return what is noted of a *body* of events that ended well."""
    head = noted_head("text/event-stream")["b0"]
    events = [event + "\n\n" for event in body.decode().split("\n\n") if event]
    units = "".join(f"={event}{RS}" for event in events)
    seen = f"@1000 {len(events)} {len(body)}{RS}"
    return {"b0": head + units + seen + f".{RS}"}
