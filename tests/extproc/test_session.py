"""Streams of messages, as bytes in and bytes out."""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest
from envoy.config.core.v3.base_pb2 import HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingResponse
from hypothesis import given
from hypothesis import strategies as st

from tests.driver.fakes import Gate, Kit
from tests.examples import ACME_KEY, CHAT, MESSAGES, PROVIDER_KEY, policy, ticket
from tests.extproc.envoy_messages import (
    parsed,
    request_body,
    request_headers,
    request_trailers,
    response_body,
    response_headers,
    response_trailers,
)
from tests.wire import DONE, JSON, REPLY, STREAM, USAGE_EVENT, chat, delta
from tokenweir.core.events import Headers
from tokenweir.core.request_side import Arrival
from tokenweir.core.response_path import ResponsePath, Responses
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import TokenUsage
from tokenweir.extproc.session import (
    ADMISSION,
    OBSERVE,
    RESPONSE,
    ObserveSession,
    Session,
    Sessions,
)
from tokenweir.telemetry.hooks import ExchangeDetails

OPENAI_CLUSTER = policy().providers["openai"].cluster.encode()


@pytest.fixture
def kit() -> Kit:
    """Return services over fakes."""
    return Kit()


@pytest.fixture
def sessions(kit: Kit) -> Sessions:
    """Return what opens sessions."""
    return Sessions(
        kit.services, kit.handoff, lambda _: Arrival(policy(), kit.hold_id())
    )


def opened(sessions: Sessions, role: str) -> Session:
    """Return a session for *role*."""
    session = sessions.open(role)
    assert session is not None
    assert not isinstance(session, ObserveSession)
    return session


async def answer_of(session: Session, message: bytes) -> ProcessingResponse:
    """Return the answer, as Envoy reads it."""
    answer = session.receive(message)
    if isinstance(answer, Awaitable):
        answer = await answer
    return parsed(answer)


def request_head(
    body: bytes | None,
    *,
    method: str = "POST",
    path: str = CHAT,
    key: str = ACME_KEY,
    framed: bool = True,
) -> bytes:
    """Return a request's head; with a body's length if it is *framed* so."""
    headers: Headers = (
        (":method", method),
        (":path", path),
        ("authorization", f"Bearer {key}"),
    )
    if body is not None and framed:
        headers += (("content-length", str(len(body))),)
    return request_headers(headers, ended=body is None)


async def admitted(
    sessions: Sessions, body: bytes, *, path: str = CHAT, framed: bool = True
) -> ProcessingResponse:
    """Return the answer to the body of a request that is admitted."""
    session = opened(sessions, ADMISSION)
    await answer_of(session, request_head(body, path=path, framed=framed))
    answer = await answer_of(session, request_body(body))
    assert session.finished
    session.closed()
    return answer


def mutations(answer: Any) -> dict[str, bytes]:
    """Return the headers that are set, by a response that has them."""
    options = list(answer.response.header_mutation.set_headers)
    for option in options:
        assert option.append_action == HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
        assert not option.header.value
        assert option.header.raw_value
    found = {option.header.key: bytes(option.header.raw_value) for option in options}
    assert len(found) == len(options)
    return found


def metadata_of(answer: ProcessingResponse) -> dict[str, Any]:
    """Return the dynamic metadata in our namespace, and no other."""
    fields = answer.dynamic_metadata.fields
    if not fields:
        return {}
    assert list(fields) == ["tokenweir"]
    return dict(fields["tokenweir"].struct_value)


# === admission ====================================================================


async def test_head_is_answered_at_once(sessions: Sessions) -> None:
    """The head of a model call is let go on, unchanged, so that the body comes."""
    session = opened(sessions, ADMISSION)
    answer = await answer_of(session, request_head(chat()))

    assert answer.WhichOneof("response") == "request_headers"
    assert not answer.request_headers.HasField("response")
    assert not answer.HasField("mode_override")
    assert not session.finished
    session.closed()


async def test_admitted(sessions: Sessions, kit: Kit) -> None:
    """An admitted request is routed by our headers, with the provider's credential."""
    answer = await admitted(sessions, chat())

    assert answer.WhichOneof("response") == "request_body"
    response = answer.request_body.response
    assert response.clear_route_cache
    assert not response.HasField("body_mutation")
    assert mutations(answer.request_body) == {
        "x-tokenweir-cluster": OPENAI_CLUSTER,
        "x-tokenweir-timeout": b"slow",
        "authorization": f"Bearer {PROVIDER_KEY}".encode(),
    }
    assert set(response.header_mutation.remove_headers) == {
        "x-api-key",
        "api-key",
        "x-goog-api-key",
    }
    assert not answer.HasField("mode_override")
    assert kit.handoff.size == 1
    kit.handoff.claim(metadata_of(answer)["hold"])


async def test_metadata(sessions: Sessions, kit: Kit) -> None:
    """What crosses to the other filter is a ticket and labels, and no secret."""
    metadata = metadata_of(await admitted(sessions, chat(user="ann")))

    assert set(metadata) == {"ticket", "strip_usage", "tenant", "model", "hold"}
    assert metadata["strip_usage"] is False
    assert metadata["tenant"] == "acme"
    assert metadata["model"] == "gpt-4o-mini"
    found = Ticket.from_text(metadata["ticket"])
    assert found.hold.id == metadata["hold"]
    assert found.hold.subject.user == "ann"
    assert found.started_ms == kit.now_ms
    assert "CANARY" not in json.dumps(metadata)
    kit.handoff.claim(metadata["hold"])


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (chat("fast"), {"model": "gpt-4o-mini"}),
        (chat(stream=True), {"stream_options": {"include_usage": True}}),
    ],
)
@pytest.mark.parametrize("framed", [True, False])
async def test_edited_body(
    sessions: Sessions, kit: Kit, body: bytes, edited: dict[str, object], framed: bool
) -> None:
    """
    A changed body comes with its new length if the client had announced one.

    With the old length Envoy would answer 500. A request that came without one, in
    chunks, stays as it was framed.
    """
    answer = await admitted(sessions, body, framed=framed)
    new = answer.request_body.response.body_mutation.body

    assert json.loads(new) == {**json.loads(body), **edited}
    length = mutations(answer.request_body).get("content-length")
    assert length == (str(len(new)).encode() if framed else None)
    metadata = metadata_of(answer)
    assert metadata["strip_usage"] is ("stream_options" in edited)
    kit.handoff.claim(metadata["hold"])


async def test_unchanged_body_keeps_its_length(sessions: Sessions, kit: Kit) -> None:
    """Where the body stays, its length is not touched."""
    answer = await admitted(sessions, chat())

    assert "content-length" not in mutations(answer.request_body)
    kit.handoff.claim(metadata_of(answer)["hold"])


async def test_bodiless(sessions: Sessions, kit: Kit) -> None:
    """A request without a body needs one message, and no body is waited for."""
    session = opened(sessions, ADMISSION)
    message = request_head(None, method="GET", path="/v1/models")
    answer = await answer_of(session, message)
    session.closed()

    assert answer.WhichOneof("response") == "request_headers"
    assert session.finished
    assert answer.request_headers.response.clear_route_cache
    assert answer.mode_override.request_body_mode == ProcessingMode.NONE
    assert mutations(answer.request_headers)["x-tokenweir-cluster"] == OPENAI_CLUSTER
    assert metadata_of(answer)["model"] == ""
    kit.handoff.claim(metadata_of(answer)["hold"])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (request_head(chat(), key="sk-CANARY-unknown"), 401),
        (request_head(None), 400),
        (request_head(chat(), path="/v1/vector_stores"), 403),
    ],
)
async def test_rejected_at_the_head(
    sessions: Sessions, head: bytes, status: int
) -> None:
    """Who is turned away at the head is answered by Envoy: the body is not read."""
    session = opened(sessions, ADMISSION)
    answer = await answer_of(session, head)
    session.closed()

    assert answer.immediate_response.status.code == status
    assert session.finished
    assert "CANARY" not in str(answer)


@pytest.mark.parametrize(("path", "kind"), [(CHAT, "openai"), (MESSAGES, "anthropic")])
async def test_rejected_at_the_body(sessions: Sessions, path: str, kind: str) -> None:
    """A rejection is JSON, in the dialect of the path; each header comes once."""
    answer = await admitted(sessions, b"{", path=path)

    immediate = answer.immediate_response
    assert immediate.status.code == 400
    body = json.loads(immediate.body)
    assert ("type" in body) is (kind == "anthropic")
    assert body["error"]["tokenweir"]["refusal"] == "malformed_request"
    names = [option.header.key for option in immediate.headers.set_headers]
    assert sorted(set(names)) == sorted(names)
    assert "x-tokenweir-refusal" in names
    assert immediate.details == "tokenweir_malformed_request"


@pytest.mark.parametrize(
    "message",
    [
        response_headers(),
        response_body(b""),
        request_trailers(),
        response_trailers(),
        b"garbage",
        b"",
    ],
)
async def test_no_message_of_this_stream(sessions: Sessions, message: bytes) -> None:
    """What is no request's head or body is a fault of the peer, and nothing is held."""
    session = opened(sessions, ADMISSION)

    with pytest.raises(ValueError, match=r".+"):
        await answer_of(session, message)
    session.closed()


async def test_left_while_counting(sessions: Sessions, kit: Kit) -> None:
    """A client that leaves meanwhile is told by the transport."""
    gate = Gate()
    kit.counter.point = gate
    session = opened(sessions, ADMISSION)
    await answer_of(session, request_head(chat()))
    task = asyncio.ensure_future(answer_of(session, request_body(chat())))
    await gate.reached.wait()
    task.cancel()
    await asyncio.wait([task])
    session.closed()

    await kit.quiet()
    assert await kit.ledger.reserved() == {}
    assert kit.recorder.exchanges[0].settlement is None


# === response =====================================================================


def begun(sessions: Sessions, text: str | None = None) -> Session:
    """Return a response session that has its ticket."""
    session = opened(sessions, RESPONSE)
    session.receive(request_headers(ticket=text or ticket().to_text()))
    assert not session.finished
    return session


async def test_response(sessions: Sessions, kit: Kit) -> None:
    """A response is answered message by message, and settled after its last piece."""
    session = begun(sessions)
    head = await answer_of(session, response_headers(200, STREAM))
    assert head.WhichOneof("response") == "response_headers"
    assert mutations(head.response_headers)["x-ratelimit-remaining-tokens"] == b"9000"
    assert not head.HasField("mode_override")
    for piece in (delta("Hello"), USAGE_EVENT):
        answer = await answer_of(session, response_body(piece))
        assert answer.WhichOneof("response") == "response_body"
        assert not answer.response_body.HasField("response")
        assert not session.finished
    await answer_of(session, response_body(DONE, ended=True))
    assert session.finished
    session.closed()

    await kit.quiet()
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_a_copy_of_a_response(sessions: Sessions, kit: Kit) -> None:
    """It is read as if it were in line, and nothing is ever answered."""
    session = sessions.open(OBSERVE)
    assert isinstance(session, ObserveSession)
    long = b"".join(delta("word") for _ in range(2_000))
    messages = (
        request_headers(ticket=ticket().to_text()),
        response_headers(200, STREAM),
        *map(response_body, (delta("Hello"), long, USAGE_EVENT)),
        response_body(DONE, ended=True),
    )
    for message in messages:
        assert not session.finished
        answer = session.receive(message)
        if answer is not None:
            await answer
    assert session.finished
    session.closed()

    await kit.quiet()
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert kit.handoff.size == 0


@pytest.mark.parametrize("path", ["native", "observe", "inspect"])
async def test_what_the_other_filters_are_told(kit: Kit, path: str) -> None:
    """Where the processor can set no header of the answer, Envoy is told which."""
    responses = Responses(ResponsePath(path))
    told = replace(policy(), responses=responses)
    sessions = Sessions(
        kit.services, kit.handoff, lambda _: Arrival(told, kit.hold_id())
    )
    session = opened(sessions, ADMISSION)
    await answer_of(session, request_head(chat()))
    answer = await answer_of(session, request_body(chat()))
    session.closed()

    ours = answer.dynamic_metadata.fields["tokenweir"].struct_value.fields
    assert ("path" in ours) is (path != "inspect")
    assert (kit.services.natives.size, kit.handoff.size) == (
        (1, 0) if path == "native" else (0, 1)
    )
    if path == "inspect":
        return
    assert ours["path"].string_value == path
    reply = ours["reply"].struct_value.fields["set"].struct_value.fields
    assert reply["x-ratelimit-limit-tokens"].string_value
    sent = mutations(answer.request_body)
    assert sent["x-tokenweir-path"] == path.encode()
    for claimed in tuple(kit.handoff._waiting):
        kit.handoff.claim(claimed)


async def test_an_answer_that_nobody_reads(kit: Kit) -> None:
    """Envoy is told so: it need not keep what passes."""
    told = replace(policy(), responses=Responses(ResponsePath.NATIVE))
    sessions = Sessions(
        kit.services, kit.handoff, lambda _: Arrival(told, kit.hold_id())
    )
    session = opened(sessions, ADMISSION)
    answer = await answer_of(
        session, request_head(None, method="GET", path="/v1/models")
    )
    session.closed()

    ours = answer.dynamic_metadata.fields["tokenweir"].struct_value.fields
    assert ours["path"].string_value == "native"
    assert ours["unread"].bool_value


async def test_attributes(sessions: Sessions, kit: Kit) -> None:
    """What Envoy knows of the attempts reaches the settlement."""
    session = begun(sessions)
    attributes: dict[str, str | float] = {
        "upstream.request_attempt_count": 3,
        "response.code_details": "via_upstream",
    }
    await answer_of(session, response_headers(200, JSON, attributes=attributes))
    await answer_of(session, response_body(REPLY, ended=True))
    session.closed()

    await kit.quiet()
    assert kit.ledger.settlements[0].requests == 3


async def test_claim(sessions: Sessions, kit: Kit) -> None:
    """A response session claims the hold of its ticket at once."""
    of = ticket()
    details = ExchangeDetails(of.hold.subject, "POST", of.hold.id, None, None)
    kit.handoff.offer(of.hold, details)
    session = begun(sessions)

    assert kit.handoff.size == 0
    assert kit.ledger.count("extend") == 0
    session.closed()
    await kit.quiet()


async def test_claim_from_another_process(sessions: Sessions, kit: Kit) -> None:
    """Where another process waits for the claim, the ledger has it at once."""
    session = begun(sessions)
    await kit.quiet()

    assert kit.ledger.count("extend") == 1
    assert not await kit.ledger.cancel(ticket().hold, unclaimed_only=True)
    session.closed()
    await kit.quiet()


async def test_answer_to_the_ticket_changes_nothing(sessions: Sessions) -> None:
    """The request's head is let go on as it is: it only brings the ticket."""
    session = opened(sessions, RESPONSE)
    message = request_headers(ticket=ticket().to_text())
    answer = await answer_of(session, message)

    assert answer.WhichOneof("response") == "request_headers"
    assert not answer.request_headers.HasField("response")
    session.closed()


@pytest.mark.parametrize(
    "message",
    [
        request_headers(),
        request_headers(ticket=""),
        response_headers(200, JSON),
        response_body(b"x"),
        response_trailers(),
    ],
)
async def test_no_ticket(sessions: Sessions, kit: Kit, message: bytes) -> None:
    """Without a ticket there is nothing to settle: the stream ends after an answer."""
    session = opened(sessions, RESPONSE)
    answer = await answer_of(session, message)

    assert not answer.HasField("immediate_response")
    assert session.finished
    session.closed()
    await kit.quiet()
    assert kit.ledger.verbs == []
    assert kit.recorder.faults == []


async def test_unreadable_ticket(sessions: Sessions, kit: Kit) -> None:
    """A ticket that can't be read is a fault of ours: the response still passes."""
    session = opened(sessions, RESPONSE)
    await answer_of(session, request_headers(ticket='{"hold": 1}'))

    assert session.finished
    assert [where for where, _ in kit.recorder.faults] == ["ticket"]
    session.closed()


@pytest.mark.parametrize("status", [429, 503])
async def test_refused_upstream(sessions: Sessions, kit: Kit, status: int) -> None:
    """A provider's refusal is over with its head: its body is not asked for."""
    session = begun(sessions)
    answer = await answer_of(session, response_headers(status, JSON))
    session.closed()

    assert session.finished
    assert answer.mode_override.response_body_mode == ProcessingMode.NONE
    await kit.quiet()
    assert kit.ledger.settlements[0].usage == TokenUsage()


async def test_head_that_ends(sessions: Sessions, kit: Kit) -> None:
    """A response without a body is over with its head."""
    session = begun(sessions)
    await answer_of(session, response_headers(204, ended=True))

    assert session.finished
    session.closed()
    await kit.quiet()
    assert len(kit.ledger.settlements) == 1


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (response_trailers(), "response_trailers"),
        (request_trailers(), "request_trailers"),
        (request_body(b"x"), "request_body"),
    ],
)
async def test_messages_that_tell_nothing(
    sessions: Sessions, kit: Kit, message: bytes, kind: str
) -> None:
    """What was not asked for is answered all the same, and changes nothing."""
    session = begun(sessions)
    answer = await answer_of(session, message)

    assert answer.WhichOneof("response") == kind
    assert not session.finished
    assert kit.recorder.faults == []
    session.closed()


@pytest.mark.parametrize("role", [ADMISSION, RESPONSE])
async def test_closed_before_anything(sessions: Sessions, kit: Kit, role: str) -> None:
    """A stream that carried nothing leaves nothing."""
    session = opened(sessions, role)
    session.closed()

    await kit.quiet()
    assert kit.ledger.verbs == []


async def test_drain(sessions: Sessions, kit: Kit) -> None:
    """After a drain the stream ends with its next message: the rest is Envoy's."""
    session = begun(sessions)
    await answer_of(session, response_headers(200, STREAM))
    await answer_of(session, response_body(delta("Hello")))
    [drainable] = kit.services.responding
    drainable.drain()
    await kit.quiet()
    await answer_of(session, response_body(delta(" there!")))

    assert session.finished
    session.closed()
    assert len(kit.ledger.settlements) == 1


async def test_drain_before_the_head(sessions: Sessions, kit: Kit) -> None:
    """After a drain a response's head still shows our limits, and ends the stream."""
    session = begun(sessions)
    [drainable] = kit.services.responding
    drainable.drain()
    answer = await answer_of(session, response_headers(200, STREAM))
    session.closed()

    assert session.finished
    assert "x-ratelimit-remaining-tokens" in mutations(answer.response_headers)
    assert answer.mode_override.response_body_mode == ProcessingMode.NONE
    await kit.quiet()


# Tiny events: much work for their size.
MUCH = b"data: {}\n\n" * 20_000


async def reading(
    sessions: Sessions, piece: bytes
) -> tuple[Session, asyncio.Task[Any]]:
    """Return a session that is reading *piece*, and the task that waits for it."""
    session = begun(sessions)
    await answer_of(session, response_headers(200, STREAM))
    task = asyncio.create_task(answer_of(session, response_body(piece)))
    await asyncio.sleep(0)
    assert not task.done()
    return session, task


async def test_much_is_read_in_turns(sessions: Sessions, kit: Kit) -> None:
    """Others have the loop while a large piece is read; then it is answered."""
    session, task = await reading(sessions, MUCH)
    rounds = 0
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    answer = await task

    assert rounds > 50
    assert answer.WhichOneof("response") == "response_body"
    assert not session.finished
    await answer_of(session, response_body(USAGE_EVENT + DONE, ended=True))
    assert session.finished
    session.closed()
    await kit.quiet()
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_much_at_the_end(sessions: Sessions, kit: Kit) -> None:
    """The last piece is read in turns, too, before the rest is settled."""
    session = begun(sessions)
    await answer_of(session, response_headers(200, STREAM))
    await answer_of(session, response_body(MUCH + USAGE_EVENT, ended=True))

    assert session.finished
    session.closed()
    await kit.quiet()
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_left_while_reading(sessions: Sessions, kit: Kit) -> None:
    """What had passed when the client left is read to its end, and settled once."""
    session, task = await reading(sessions, MUCH + USAGE_EVENT + DONE)
    task.cancel()
    await asyncio.wait([task])
    session.closed()
    at_once = list(kit.ledger.settlements)
    await kit.quiet()

    assert at_once == []
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_drained_while_reading(sessions: Sessions, kit: Kit) -> None:
    """A drain settles what had passed, whatever of it had been read."""
    session, task = await reading(sessions, MUCH + USAGE_EVENT)
    [drainable] = kit.services.responding
    drainable.drain()
    await task
    session.closed()
    await kit.quiet()

    assert session.finished
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_broken_piece(sessions: Sessions) -> None:
    """A message that can't be decoded is a fault of the peer."""
    session = begun(sessions)

    with pytest.raises(ValueError, match="ProcessingRequest"):
        session.receive(b"garbage")
    session.closed()


# === both =========================================================================


@pytest.mark.parametrize("role", ["", "admin", "Admission", "response "])
def test_unknown_role(sessions: Sessions, role: str) -> None:
    """There is no session for a role that no filter of ours has."""
    assert sessions.open(role) is None


def test_what_envoy_was_rendered_from(kit: Kit) -> None:
    """What Envoy says of itself goes to whoever makes arrivals, with each exchange."""
    heard: list[str] = []

    def arrival(rendered: str) -> Arrival:
        heard.append(rendered)
        return Arrival(policy(), kit.hold_id())

    sessions = Sessions(kit.services, kit.handoff, arrival)
    for rendered in ("a,b", ""):
        assert sessions.open(ADMISSION, rendered) is not None
        assert sessions.open(RESPONSE, "c") is not None

    assert heard == ["a,b", ""]


async def test_across_both(sessions: Sessions, kit: Kit) -> None:
    """A ticket of one filter settles the hold in the other, to the last token."""
    answer = await admitted(sessions, chat(max_tokens=100))
    assert await kit.ledger.reserved() != {}
    session = begun(sessions, metadata_of(answer)["ticket"])
    await answer_of(session, response_headers(200, JSON))
    await answer_of(session, response_body(REPLY, ended=True))
    session.closed()

    await kit.quiet()
    assert kit.handoff.size == 0
    assert await kit.ledger.reserved() == {}
    [record] = (await kit.ledger.store.snapshot("tw:087")).records
    assert (record["input_tokens"], record["output_tokens"]) == ("11", "7")


async def test_policy_of_its_beginning(kit: Kit) -> None:
    """An exchange keeps the policy that it began with, whatever is loaded meanwhile."""
    arrivals = [Arrival(policy(), kit.hold_id())]
    sessions = Sessions(kit.services, kit.handoff, lambda _: arrivals[-1])
    session = opened(sessions, ADMISSION)
    await answer_of(session, request_head(chat()))
    arrivals.append(Arrival(replace(policy(), models={}), kit.hold_id()))
    answer = await answer_of(session, request_body(chat()))

    assert answer.WhichOneof("response") == "request_body"
    kit.handoff.claim(metadata_of(answer)["hold"])
    session.closed()


# === whatever comes ===============================================================

texts = st.text(max_size=8) | st.sampled_from(["\ud800", "\x00", "é", "gpt-4o-mini"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=5,
)
members = st.sampled_from(
    [
        "model",
        "user",
        "n",
        "max_tokens",
        "stream",
        "stream_options",
        "messages",
        "tools",
    ]
)
bodies = st.dictionaries(members | texts, values, max_size=5).map(
    lambda odd: json.dumps({**json.loads(chat()), **odd}).encode()
) | st.binary(max_size=50)
header_texts = st.text(st.characters(max_codepoint=255), max_size=20)
headers_of_apps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                ":method",
                ":path",
                "authorization",
                "x-api-key",
                "content-encoding",
                "content-length",
                "x-request-id",
                "anthropic-version",
                "x",
            ]
        ),
        st.sampled_from(["POST", "GET", CHAT, MESSAGES, f"Bearer {ACME_KEY}", "gzip"])
        | header_texts,
    ),
    max_size=8,
)


async def conversation(kit: Kit, role: str, messages: list[bytes]) -> None:
    """Feed *messages* to a session until it ends; each gets an answer."""
    session = opened(
        Sessions(kit.services, kit.handoff, lambda _: Arrival(policy(), kit.hold_id())),
        role,
    )
    for message in messages:
        answer = await answer_of(session, message)
        assert answer.WhichOneof("response") is not None
        if answer.HasField("immediate_response"):
            assert 400 <= answer.immediate_response.status.code < 500
            assert "CANARY" not in str(answer)
        if session.finished:
            break
    session.closed()
    await kit.quiet()
    assert kit.recorder.faults == []


@given(bodies)
def test_any_body(body: bytes) -> None:
    """Whatever a body holds: it is admitted or refused, and never a fault of ours."""
    asyncio.run(
        conversation(Kit(), ADMISSION, [request_head(body), request_body(body)])
    )


@given(headers_of_apps, st.booleans())
def test_any_head(headers: list[tuple[str, str]], ended: bool) -> None:
    """Whatever a head holds: it is let go on or refused, and never a fault of ours."""
    head = request_headers(tuple(headers), ended=ended)
    asyncio.run(conversation(Kit(), ADMISSION, [head, request_body(chat())]))


@given(
    st.integers(0, 999),
    st.sampled_from(["application/json", "text/event-stream", "", "text/html", "\xff"]),
    st.sampled_from(["", "gzip", "br", "zstd", "deflate", "x", "br, gzip"]),
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from([delta("Hello"), USAGE_EVENT, DONE, REPLY, REPLY[:50]]),
        max_size=5,
    ),
)
def test_any_response(
    status: int, media_type: str, encoding: str, pieces: list[bytes]
) -> None:
    """Whatever a provider answers: it passes, and is settled once."""
    kit = Kit()
    headers = (("content-type", media_type), ("content-encoding", encoding))
    messages = [
        request_headers(ticket=ticket().to_text()),
        response_headers(status, headers),
        *(response_body(piece) for piece in pieces),
        response_body(b"", ended=True),
    ]
    asyncio.run(conversation(kit, RESPONSE, messages))

    [settlement] = kit.ledger.settlements
    assert settlement.usage.total_tokens >= 0
