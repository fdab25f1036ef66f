"""
Envoy's protobuf: bytes to `messages` and back.

The only module that knows it. Header values travel as ``raw_value`` alone (with
``value`` beside it Envoy answers 500), and always overwrite: the defaults for
appending differ between versions and would send a header twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HeaderMutation,
    ImmediateResponse,
    ProcessingRequest,
    ProcessingResponse,
)
from envoy.type.v3.http_status_pb2 import HttpStatus
from google.protobuf.struct_pb2 import Value

from tokenweir.core.events import (
    Headers,
    RequestBody,
    RequestHead,
    ResponseChunk,
    ResponseHead,
)
from tokenweir.core.policy import Secret
from tokenweir.extproc.messages import (
    CHANGES,
    NAMESPACE,
    Incoming,
    LocalReply,
    Mutation,
    Outgoing,
    Phase,
    Told,
)

# Attributes come under this key, whatever the filter is called.
ATTRIBUTES = "envoy.filters.http.ext_proc"
# In one of them: the head of a request that comes whole, as Envoy's first filter tells it.
HEAD = "request.headers['x-tokenweir-whole']"


def decode(message: bytes) -> Incoming:
    """
    Read a ProcessingRequest.

    Raises:
        ValueError: It is none, or of a kind that is not asked for.
    """
    try:
        request = ProcessingRequest.FromString(message)
    except Exception as error:  # protobuf's DecodeError has no stable home
        raise ValueError("not a ProcessingRequest") from error
    kind = request.WhichOneof("request")
    if kind is None:
        raise ValueError("a ProcessingRequest without content")
    phase = Phase(kind)
    event = _event_in(phase, request)
    # Envoy sends the metadata with every message; it is the same each time.
    ticket = _ticket_in(request) if phase is Phase.REQUEST_HEADERS else ""
    head = _head_in(request) if phase is Phase.REQUEST_BODY else None
    return Incoming(phase, event, ticket, head)


def encode(answer: Outgoing) -> bytes:
    """Write a ProcessingResponse."""
    if isinstance(answer, LocalReply):
        response = ProcessingResponse(immediate_response=_immediate(answer))
    else:
        response = _mutation(answer)
    if answer.metadata:
        _fill(response.dynamic_metadata.fields[NAMESPACE], answer.metadata)
    encoded: bytes = response.SerializeToString()
    return encoded


def _event_in(
    phase: Phase, request: ProcessingRequest
) -> RequestHead | RequestBody | ResponseHead | ResponseChunk | None:
    match phase:
        case Phase.REQUEST_HEADERS:
            return _request_head(request)
        case Phase.REQUEST_BODY:
            return RequestBody(request.request_body.body)
        case Phase.RESPONSE_HEADERS:
            return _response_head(request)
        case Phase.RESPONSE_BODY:
            part = request.response_body
            return ResponseChunk(part.body, part.end_of_stream)
        case Phase.REQUEST_TRAILERS | Phase.RESPONSE_TRAILERS:
            return None


def _request_head(request: ProcessingRequest) -> RequestHead:
    message = request.request_headers
    return _head(_headers(message.headers.headers), ended=message.end_of_stream)


def _head(headers: Headers, *, ended: bool) -> RequestHead:
    pseudo = {name: value for name, value in headers if name.startswith(":")}
    return RequestHead(
        method=pseudo.get(":method", ""),
        path=pseudo.get(":path", ""),
        headers=_regular(headers),
        ended=ended,
    )


def _head_in(request: ProcessingRequest) -> RequestHead | None:
    """Return what an attribute tells of the head: names and values by turns."""
    attributes = request.attributes[ATTRIBUTES].fields
    if HEAD not in attributes:
        return None
    told = attributes[HEAD].string_value.split("\t")
    if len(told) % 2:
        raise ValueError("a ProcessingRequest with half a head")
    return _head(tuple(zip(told[::2], told[1::2], strict=True)), ended=False)


def _response_head(request: ProcessingRequest) -> ResponseHead:
    headers = _headers(request.response_headers.headers.headers)
    status = next((value for name, value in headers if name == ":status"), "0")
    attributes = request.attributes[ATTRIBUTES].fields
    attempts = attributes["upstream.request_attempt_count"]
    return ResponseHead(
        status=int(status) if status.isdecimal() else 0,
        headers=_regular(headers),
        attempts=int(attempts.number_value) or None,
        details=attributes["response.code_details"].string_value,
        ended=request.response_headers.end_of_stream,
    )


def _headers(pairs: list[HeaderValue]) -> Headers:
    return tuple(
        (pair.key.lower(), pair.raw_value.decode("latin-1") or pair.value)
        for pair in pairs
    )


def _regular(headers: Headers) -> Headers:
    return tuple(header for header in headers if not header[0].startswith(":"))


def _ticket_in(request: ProcessingRequest) -> str:
    metadata = request.metadata_context.filter_metadata
    if NAMESPACE not in metadata:
        return ""
    ticket: str = metadata[NAMESPACE].fields["ticket"].string_value
    return ticket


def _immediate(reply: LocalReply) -> ImmediateResponse:
    return ImmediateResponse(
        status=HttpStatus(code=reply.status),
        headers=HeaderMutation(
            set_headers=[_set(name, value) for name, value in reply.headers]
        ),
        body=reply.body,
        details=reply.details,
    )


def _mutation(answer: Mutation) -> ProcessingResponse:
    response = ProcessingResponse()
    part = getattr(response, answer.phase)
    # Most answers change nothing, and there is one for each piece of a stream.
    part.SetInParent()
    if answer.changes_in_metadata:
        changes = {CHANGES: _changes(answer)}
        _fill(response.dynamic_metadata.fields[NAMESPACE], changes)
    elif answer.set_headers or answer.remove_headers:
        part.response.header_mutation.CopyFrom(
            HeaderMutation(
                set_headers=[_set(name, value) for name, value in answer.set_headers],
                remove_headers=answer.remove_headers,
            )
        )
    if answer.body is not None:
        part.response.body_mutation.body = answer.body
    if answer.reroute:
        part.response.clear_route_cache = True
    if answer.skip_body:
        response.mode_override.CopyFrom(_SKIP_BODY[answer.phase])
    return response


def _fill(value: Value, told: Mapping[str, Told]) -> None:
    """Put *told* into *value*. `Struct.update` does it, too, in eight times as long."""
    value.struct_value.SetInParent()  # where there is nothing to be told, too
    fields = value.struct_value.fields
    for name, content in told.items():
        if isinstance(content, bool):
            fields[name].bool_value = content
        elif isinstance(content, str):
            fields[name].string_value = content
        else:
            _fill(fields[name], content)


def _changes(answer: Mutation) -> dict[str, dict[str, str | bool]]:
    """Return the changes of headers as `apply.lua` reads them."""
    return {
        "set": {name: _text(value) for name, value in answer.set_headers},
        "remove": dict.fromkeys(answer.remove_headers, True),
    }


# An override replaces the filter's whole mode, so each says all that still holds.
_SKIP_BODY = {
    Phase.REQUEST_HEADERS: ProcessingMode(
        request_header_mode=ProcessingMode.SEND,
        response_header_mode=ProcessingMode.SKIP,
        request_body_mode=ProcessingMode.NONE,
        response_body_mode=ProcessingMode.NONE,
    ),
    Phase.RESPONSE_HEADERS: ProcessingMode(
        request_header_mode=ProcessingMode.SEND,
        response_header_mode=ProcessingMode.SEND,
        request_body_mode=ProcessingMode.NONE,
        response_body_mode=ProcessingMode.NONE,
    ),
}


def _set(name: str, value: str | Secret) -> HeaderValueOption:
    return HeaderValueOption(
        header=HeaderValue(key=name, raw_value=_text(value).encode("utf-8")),
        append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
