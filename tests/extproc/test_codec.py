"""Envoy's messages are read and written as Envoy does."""

import pytest
from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
)
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from tests.extproc.envoy_messages import (
    encoded,
    header_map,
    parsed,
    request_body,
    request_headers,
    request_trailers,
    response_body,
    response_headers,
    response_trailers,
    whole_request,
)
from tokenweir.core.events import (
    RequestBody,
    RequestHead,
    ResponseChunk,
    ResponseHead,
)
from tokenweir.core.policy import Secret
from tokenweir.extproc.codec import decode, encode
from tokenweir.extproc.messages import Incoming, LocalReply, Mutation, Phase

# === what Envoy says ==============================================================


def test_request_head() -> None:
    """The head comes as method, path and headers in lower case, without pseudo ones."""
    assert decode(request_headers()) == Incoming(
        Phase.REQUEST_HEADERS,
        RequestHead(
            "POST",
            "/v1/chat/completions?x=1",
            (
                ("authorization", "Bearer sk-CANARY-acme"),
                ("content-type", "application/json"),
                ("content-length", "17"),
            ),
        ),
    )


def test_request_head_that_ends() -> None:
    """A request without a body says so in its head."""
    event = decode(request_headers(((":method", "GET"),), ended=True)).event

    assert event == RequestHead("GET", "", (), ended=True)


def test_head_without_pseudo_headers() -> None:
    """A head that lacks everything is read all the same."""
    assert decode(request_headers(())).event == RequestHead("", "", ())


def test_repeated_headers() -> None:
    """Lines of one name stay apart, in order: none hides another."""
    headers = (("x-api-key", "one"), ("X-Api-Key", "two"))
    event = decode(request_headers(headers)).event

    assert isinstance(event, RequestHead)
    assert event.headers == (("x-api-key", "one"), ("x-api-key", "two"))


def test_header_bytes() -> None:
    """Any bytes of a header are read, each as one character."""
    message = ProcessingRequest(request_headers=HttpHeaders())
    message.request_headers.headers.headers.append(
        HeaderValue(key="x", raw_value=bytes(range(1, 256)))
    )
    event = decode(encoded(message)).event

    assert isinstance(event, RequestHead)
    assert event.headers == (("x", bytes(range(1, 256)).decode("latin-1")),)


def test_header_text() -> None:
    """An older Envoy that sends text instead of raw bytes is understood."""
    message = ProcessingRequest(request_headers=HttpHeaders())
    message.request_headers.headers.headers.append(HeaderValue(key="x", value="y"))
    event = decode(encoded(message)).event

    assert isinstance(event, RequestHead)
    assert event.headers == (("x", "y"),)


def test_ticket() -> None:
    """The ticket comes from our namespace of dynamic metadata."""
    assert decode(request_headers(ticket="T")).ticket == "T"
    assert decode(request_headers()).ticket == ""


def test_ticket_comes_once() -> None:
    """Envoy repeats the metadata with each message; only the first one is read."""
    message = ProcessingRequest.FromString(response_body(b"x"))
    message.metadata_context.filter_metadata["tokenweir"].update({"ticket": "T"})

    assert decode(encoded(message)).ticket == ""


def test_ticket_in_a_strange_place() -> None:
    """No other namespace, and no header of that name, is taken for the ticket."""
    message = ProcessingRequest.FromString(request_headers((("ticket", "T"),)))
    message.metadata_context.filter_metadata["other"].update({"ticket": "T"})

    assert decode(encoded(message)).ticket == ""


@pytest.mark.parametrize("value", [7, None, ["T"], {"ticket": "T"}])
def test_ticket_of_a_strange_kind(value: object) -> None:
    """What is no text is no ticket."""
    message = ProcessingRequest.FromString(request_headers())
    message.metadata_context.filter_metadata["tokenweir"].update({"ticket": value})

    assert decode(encoded(message)).ticket == ""


def test_request_body() -> None:
    """The body comes as the bytes that the client sent."""
    assert decode(request_body(b"\x00\xff{}")).event == RequestBody(b"\x00\xff{}")


def test_whole_request() -> None:
    """A body that comes with an attribute of its head tells both."""
    assert decode(whole_request(b"\xff{}")) == Incoming(
        Phase.REQUEST_BODY,
        RequestBody(b"\xff{}"),
        head=RequestHead(
            "POST",
            "/v1/chat/completions?x=1",
            (
                ("authorization", "Bearer sk-CANARY-acme"),
                ("content-type", "application/json"),
                ("content-length", "17"),
            ),
        ),
    )


def test_headers_of_a_whole_request() -> None:
    """Lines of one name stay apart, in order, and empty ones are there, too."""
    sent = ((":method", "POST"), (":path", "/"), ("x", "1, 2"), ("y", ""), ("x", ""))
    head = decode(whole_request(b"", sent)).head

    assert head == RequestHead("POST", "/", (("x", "1, 2"), ("y", ""), ("x", "")))


def test_half_a_head() -> None:
    """A name without a value is no head; nothing of it is quoted."""
    message = ProcessingRequest.FromString(request_body(b"{}"))
    half = {"request.headers['x-tokenweir-whole']": ":method\tPOST\tsk-CANARY"}
    message.attributes["envoy.filters.http.ext_proc"].update(half)

    with pytest.raises(ValueError, match="ProcessingRequest") as told:
        decode(encoded(message))
    assert "CANARY" not in str(told.value)


def test_other_attributes_tell_no_head() -> None:
    """What else Envoy may be asked for makes no head of a request."""
    message = ProcessingRequest.FromString(request_body(b"{}"))
    message.attributes["envoy.filters.http.ext_proc"].update({"request.id": "1"})

    assert decode(encoded(message)).head is None


def test_response_head() -> None:
    """The head comes with what Envoy knows of how it came about."""
    attributes: dict[str, str | float] = {
        "upstream.request_attempt_count": 3,
        "response.code_details": "via_upstream",
    }
    message = response_headers(
        429, (("Retry-After", "7"),), attributes=attributes, ended=True
    )

    assert decode(message).event == ResponseHead(
        429, (("retry-after", "7"),), 3, "via_upstream", ended=True
    )


def test_response_head_without_attributes() -> None:
    """What Envoy does not say is not made up."""
    assert decode(response_headers(200)).event == ResponseHead(200, (), None, "")


@pytest.mark.parametrize("status", ["", "abc", "-1", "٢٠٠"])
def test_strange_status(status: str) -> None:
    """A status that is no number is no status, and no fault either."""
    message = ProcessingRequest(response_headers=HttpHeaders())
    message.response_headers.headers.headers.append(
        HeaderValue(key=":status", raw_value=status.encode())
    )
    event = decode(encoded(message)).event

    assert isinstance(event, ResponseHead)
    assert event.status == 0


def test_response_head_without_status() -> None:
    """A head without a status has status 0."""
    message = ProcessingRequest(response_headers=HttpHeaders(headers=header_map(())))
    event = decode(encoded(message)).event

    assert isinstance(event, ResponseHead)
    assert event.status == 0


@pytest.mark.parametrize("ended", [True, False])
def test_response_body(ended: bool) -> None:
    """A piece comes with whether it was the last."""
    event = decode(response_body(b"data", ended=ended)).event

    assert event == ResponseChunk(b"data", ended)


@pytest.mark.parametrize(
    ("message", "phase"),
    [
        (request_trailers(), Phase.REQUEST_TRAILERS),
        (response_trailers(), Phase.RESPONSE_TRAILERS),
    ],
)
def test_trailers(message: bytes, phase: Phase) -> None:
    """Trailers tell nothing, but want an answer."""
    assert decode(message) == Incoming(phase, None)


@pytest.mark.parametrize("message", [b"", b"\xff", b"garbage", b"\x12\x05ab"])
def test_no_message(message: bytes) -> None:
    """What is no message of Envoy's raises ValueError, which quotes nothing of it."""
    with pytest.raises(ValueError, match=r"^(not a|a) ProcessingRequest"):
        decode(message)


@given(st.binary(max_size=200))
def test_any_bytes(message: bytes) -> None:
    """Whatever bytes come: a message, or ValueError, and nothing else."""
    try:
        decode(message)
    except ValueError as error:
        assert "ProcessingRequest" in str(error)  # noqa: PT017 - either is right


# === what is answered =============================================================


def case(answer: ProcessingResponse) -> str:
    """Return which kind of answer it is."""
    kind: str = answer.WhichOneof("response")
    return kind


@pytest.mark.parametrize("phase", Phase)
def test_answer_belongs_to_its_message(phase: Phase) -> None:
    """Each message is answered by the answer of its own kind."""
    answer = parsed(encode(Mutation(phase)))

    assert case(answer) == phase


@pytest.mark.parametrize("phase", Phase)
def test_plain_answer_changes_nothing(phase: Phase) -> None:
    """An answer that says nothing has neither mutations nor metadata nor a mode."""
    answer = parsed(encode(Mutation(phase)))

    assert [field.name for field, _ in answer.ListFields()] == [phase]
    assert getattr(answer, phase).ListFields() == []


HEADER_PHASES = [
    Phase.REQUEST_HEADERS,
    Phase.REQUEST_BODY,
    Phase.RESPONSE_HEADERS,
    Phase.RESPONSE_BODY,
]


@pytest.mark.parametrize("phase", HEADER_PHASES)
def test_headers(phase: Phase) -> None:
    """
    A header is sent raw only, and overwrites.

    With a text beside it Envoy answers 500; the defaults for appending differ between
    versions and would send the header twice.
    """
    mutation = Mutation(
        phase,
        set_headers=(("x-a", "plain"), ("authorization", Secret("Bearer s"))),
        remove_headers=("x-b", "x-c"),
    )
    response = getattr(parsed(encode(mutation)), phase).response

    assert list(response.header_mutation.set_headers) == [
        HeaderValueOption(
            header=HeaderValue(key=name, raw_value=value),
            append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        )
        for name, value in (("x-a", b"plain"), ("authorization", b"Bearer s"))
    ]
    assert list(response.header_mutation.remove_headers) == ["x-b", "x-c"]


def test_body() -> None:
    """A body replaces the old one, also by an empty one; None leaves it alone."""
    bodies = [
        parsed(encode(Mutation(Phase.REQUEST_BODY, body=body))).request_body.response
        for body in (b"\x00new", b"", None)
    ]

    assert bodies[0].body_mutation.body == b"\x00new"
    assert bodies[1].body_mutation.WhichOneof("mutation") == "body"
    assert not bodies[2].HasField("body_mutation")


def test_reroute() -> None:
    """Only an answer that asks for it has Envoy choose the route again."""
    routes = [
        parsed(encode(Mutation(Phase.REQUEST_BODY, reroute=reroute)))
        for reroute in (True, False)
    ]

    assert [route.request_body.response.clear_route_cache for route in routes] == [
        True,
        False,
    ]


def test_metadata() -> None:
    """Metadata goes into our namespace, and keeps its types."""
    mutation = Mutation(
        Phase.REQUEST_BODY, metadata={"ticket": "é\n", "strip_usage": True}
    )
    answer = parsed(encode(mutation))

    fields = answer.dynamic_metadata.fields
    assert list(fields) == ["tokenweir"]
    assert dict(fields["tokenweir"].struct_value) == {
        "ticket": "é\n",
        "strip_usage": True,
    }


def test_changes_in_metadata() -> None:
    """What another filter is to change is told in metadata, and not to Envoy itself."""
    mutation = Mutation(
        Phase.REQUEST_BODY,
        set_headers=(("x-a", "plain"), ("authorization", Secret("Bearer é"))),
        remove_headers=("x-b",),
        body=b"new",
        metadata={"tenant": "acme"},
        changes_in_metadata=True,
    )
    answer = parsed(encode(mutation))

    response = answer.request_body.response
    assert not response.HasField("header_mutation")
    assert response.body_mutation.body == b"new"
    assert MessageToDict(answer.dynamic_metadata) == {
        "tokenweir": {
            "tenant": "acme",
            "request": {
                "set": {"x-a": "plain", "authorization": "Bearer é"},
                "remove": {"x-b": True},
            },
        }
    }


def test_metadata_with_nothing_in_it() -> None:
    """What is told to be empty is there all the same: Lua reads it as a table."""
    mutation = Mutation(Phase.REQUEST_BODY, metadata={"a": {}, "b": {"c": {"d": "e"}}})

    told = MessageToDict(parsed(encode(mutation)).dynamic_metadata)
    assert told == {"tokenweir": {"a": {}, "b": {"c": {"d": "e"}}}}


@pytest.mark.parametrize("phase", [Phase.REQUEST_HEADERS, Phase.RESPONSE_HEADERS])
def test_skip_body(phase: Phase) -> None:
    """The body of a direction that nobody reads is not sent."""
    mode = parsed(encode(Mutation(phase, skip_body=True))).mode_override

    assert mode.request_body_mode == ProcessingMode.NONE
    assert mode.response_body_mode == ProcessingMode.NONE
    assert mode.response_header_mode == (
        ProcessingMode.SKIP if phase is Phase.REQUEST_HEADERS else ProcessingMode.SEND
    )


def test_local_reply() -> None:
    """Envoy answers itself: with the status, the body, and headers once each."""
    reply = LocalReply(
        429,
        (("content-type", "application/json"), ("retry-after", "9")),
        b'{"error": {}}',
        details="tokenweir_quota_exhausted",
    )
    answer = parsed(encode(reply))

    immediate = answer.immediate_response
    assert case(answer) == "immediate_response"
    assert immediate.status.code == 429
    assert immediate.body == b'{"error": {}}'
    assert immediate.details == "tokenweir_quota_exhausted"
    assert [
        (option.header.key, option.header.raw_value, option.append_action)
        for option in immediate.headers.set_headers
    ] == [
        (
            "content-type",
            b"application/json",
            HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        ),
        ("retry-after", b"9", HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD),
    ]
    assert not any(option.header.value for option in immediate.headers.set_headers)
    assert not answer.HasField("dynamic_metadata")


def test_local_reply_with_metadata() -> None:
    """A refusal, too, can say something to the access log."""
    reply = LocalReply(429, (), b"", metadata={"tenant": "acme"})
    fields = parsed(encode(reply)).dynamic_metadata.fields

    assert dict(fields["tokenweir"].struct_value) == {"tenant": "acme"}
