"""ext_proc messages as Envoy writes them."""

from collections.abc import Mapping

from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingRequest,
    ProcessingResponse,
)

from tokenweir.core.events import Headers

CLIENT: Headers = (
    (":method", "POST"),
    (":path", "/v1/chat/completions?x=1"),
    (":authority", "127.0.0.1:4000"),
    ("Authorization", "Bearer sk-CANARY-acme"),
    ("content-type", "application/json"),
    ("content-length", "17"),
)


def header_map(headers: Headers) -> HeaderMap:
    """Return *headers* as Envoy sends them: as raw bytes."""
    return HeaderMap(
        headers=[
            HeaderValue(key=name, raw_value=value.encode("latin-1"))
            for name, value in headers
        ]
    )


def request_headers(
    headers: Headers = CLIENT, *, ended: bool = False, ticket: str | None = None
) -> bytes:
    """Return the message that begins a stream, with the *ticket* as metadata."""
    message = ProcessingRequest(
        request_headers=HttpHeaders(headers=header_map(headers), end_of_stream=ended)
    )
    if ticket is not None:
        ours = message.metadata_context.filter_metadata["tokenweir"]
        ours.update({"ticket": ticket, "strip_usage": False})
    return encoded(message)


def request_body(body: bytes) -> bytes:
    """Return the message with the whole request body."""
    return encoded(
        ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True))
    )


def whole_request(body: bytes, headers: Headers = CLIENT) -> bytes:
    """
    Return the message with a request's body that tells of its head by an attribute.

    Envoy's first filter has made it of *headers*, in lower case.
    """
    message = ProcessingRequest.FromString(request_body(body))
    told = "\t".join(part for name, value in headers for part in (name.lower(), value))
    attribute = {"request.headers['x-tokenweir-whole']": told}
    message.attributes["envoy.filters.http.ext_proc"].update(attribute)
    return encoded(message)


def response_headers(
    status: int = 200,
    headers: Headers = (),
    *,
    ended: bool = False,
    attributes: Mapping[str, str | float] | None = None,
) -> bytes:
    """Return the message that tells of the response's head."""
    everything = ((":status", str(status)), *headers)
    message = ProcessingRequest(
        response_headers=HttpHeaders(
            headers=header_map(everything), end_of_stream=ended
        )
    )
    if attributes is not None:
        message.attributes["envoy.filters.http.ext_proc"].update(attributes)
    return encoded(message)


def response_body(data: bytes, *, ended: bool = False) -> bytes:
    """Return the message with a piece of the response body."""
    return encoded(
        ProcessingRequest(response_body=HttpBody(body=data, end_of_stream=ended))
    )


def request_trailers() -> bytes:
    """Return the message with the request's trailers."""
    return encoded(ProcessingRequest(request_trailers=HttpTrailers()))


def response_trailers() -> bytes:
    """Return the message with the response's trailers."""
    return encoded(ProcessingRequest(response_trailers=HttpTrailers()))


def encoded(message: ProcessingRequest) -> bytes:
    """Return *message* as it is on the wire."""
    data: bytes = message.SerializeToString()
    return data


def parsed(answer: bytes) -> ProcessingResponse:
    """Return what Envoy makes of an *answer*."""
    return ProcessingResponse.FromString(answer)
