"""
Envoy's protobuf: messages of the access log to passages.

Beside `tokenweir.extproc.codec` the only module that knows it. What `lua/watch.lua` has
noted of an answer is in the entry's metadata, under `OUT`: see `tokenweir.core.excerpt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envoy.data.accesslog.v3.accesslog_pb2 import (
    AccessLogCommon,
    AccessLogType,
    HTTPAccessLogEntry,
)
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from google.protobuf.struct_pb2 import Struct

from tokenweir.core.events import Headers, ResponseHead
from tokenweir.core.excerpt import Excerpt, read_excerpt
from tokenweir.core.passage import Passage
from tokenweir.core.response_path import ResponsePath
from tokenweir.core.ticket import Ticket

NAMESPACE, OUT = "tokenweir", "tokenweir.out"
# Whoever speaks of larger bodies is no Envoy.
_MOST = 2**50
_END = AccessLogType.DownstreamEnd
_KINDS = frozenset({_END, AccessLogType.DownstreamPeriodic})
_VIA_UPSTREAM = "via_upstream"
# Envoy's words for ends that come after a provider's head has passed: they take the place
# of `via_upstream`, which says whose the status is.
_LATER = re.compile(
    r"downstream_|upstream_reset_after_response_started|http[123]\."
    r"|stream_idle_timeout|max_duration_timeout|upstream_per_try_idle_timeout"
)
# ... unless these are the status: then Envoy has made up the answer itself.
_ITS_OWN = frozenset({408, 504})


@dataclass(frozen=True, slots=True)
class Decoded:
    """
    A message of the access log.

    Attributes:
        passages: In order.
        never_left: Ids of requests whose apps left before any answer, and before Envoy
            had taken one of admission's.
        faults: Why other entries can't be read; none of their text is in there.
    """

    passages: tuple[Passage, ...] = ()
    never_left: tuple[str, ...] = ()
    faults: tuple[ValueError, ...] = ()


def decode(message: bytes) -> Decoded:
    """Read a StreamAccessLogsMessage. Never raises: what can't be read is a fault."""
    try:
        entries = StreamAccessLogsMessage.FromString(message).http_logs.log_entry
    except Exception:  # noqa: BLE001 - protobuf's DecodeError has no stable home
        return Decoded(faults=(ValueError("not a StreamAccessLogsMessage"),))
    passages: list[Passage] = []
    faults: list[ValueError] = []
    for entry in entries:
        try:
            passages += _passages_in(entry)
        except Exception as error:  # noqa: BLE001 - one of them must not cost the others
            faults.append(ValueError(f"no entry of ours: {type(error).__name__}"))
    left = (each.request.request_id for each in entries if _never_left(each))
    return Decoded(tuple(passages), tuple(filter(None, left)), tuple(faults))


def _passages_in(entry: HTTPAccessLogEntry) -> Iterator[Passage]:
    common = entry.common_properties
    metadata = common.metadata.filter_metadata
    if common.access_log_type not in _KINDS or NAMESPACE not in metadata:
        return
    told = metadata[NAMESPACE].fields
    if told["path"].string_value != ResponsePath.NATIVE:
        return
    excerpt = read_excerpt(_plain(metadata[OUT])) if OUT in metadata else None
    over = common.access_log_type == _END
    head = _head(entry, excerpt)
    yield Passage(
        ticket=Ticket.from_text(told["ticket"].string_value),
        at_ms=_at_ms(common),
        over=over,
        sent=head is not None or common.upstream_request_attempt_count > 0,
        head=head,
        ended=over and _ended_well(entry),
        body_bytes=min(entry.response.response_body_bytes, _MOST),
        excerpt=excerpt,
    )


def _never_left(entry: HTTPAccessLogEntry) -> bool:
    common = entry.common_properties
    is_ours = NAMESPACE in common.metadata.filter_metadata
    was_sent = common.upstream_request_attempt_count > 0
    if is_ours or was_sent or common.access_log_type != _END:
        return False
    return not entry.response.response_code.value


def _head(entry: HTTPAccessLogEntry, excerpt: Excerpt | None) -> ResponseHead | None:
    common, response = entry.common_properties, entry.response
    status = response.response_code.value
    if not status:
        return None
    details = response.response_code_details
    is_later = _LATER.match(details) is not None and status not in _ITS_OWN
    if is_later and common.HasField("time_to_first_upstream_rx_byte"):
        details = _VIA_UPSTREAM
    return ResponseHead(
        status=status,
        headers=_headers(entry, excerpt),
        attempts=common.upstream_request_attempt_count or None,
        details=details,
    )


def _ended_well(entry: HTTPAccessLogEntry) -> bool:
    """Tell if all of a provider's answer went to the app: nothing else took its place."""
    common = entry.common_properties
    sent_all: bool = common.HasField("time_to_last_downstream_tx_byte")
    return sent_all and entry.response.response_code_details == _VIA_UPSTREAM


def _at_ms(common: AccessLogCommon) -> int:
    started_ms = common.start_time.ToMilliseconds()
    took_ms = common.duration.ToMilliseconds()
    return int(started_ms + max(0, took_ms))


def _headers(entry: HTTPAccessLogEntry, excerpt: Excerpt | None) -> Headers:
    """Return what tells how the body is to be read: as it came, before any filter."""
    if excerpt is None or not excerpt.head_us:
        told = entry.response.response_headers
        return tuple((name.lower(), value) for name, value in told.items())
    pairs = (
        ("content-type", excerpt.content_type),
        ("content-encoding", excerpt.content_encoding),
        ("content-length", excerpt.content_length),
    )
    return tuple((name, value) for name, value in pairs if value)


def _plain(struct: Struct) -> dict[str, object]:
    """Return the texts and truths of *struct*; what else there is says nothing."""
    found: dict[str, object] = {}
    for name, value in struct.fields.items():
        kind = value.WhichOneof("kind")
        if kind in ("string_value", "bool_value"):
            found[name] = getattr(value, kind)
    return found
