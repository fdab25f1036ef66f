"""Requests that come whole are answered as those whose head comes first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingResponse
from google.protobuf.json_format import MessageToDict

from tests.driver.fakes import Kit
from tests.examples import ACME_KEY, CHAT, FRUGAL_KEY, MESSAGES, PROVIDER_KEY, policy
from tests.extproc.envoy_messages import (
    parsed,
    request_body,
    request_headers,
    whole_request,
)
from tests.wire import chat, messages
from tokenweir.core.events import Headers
from tokenweir.core.request_side import Arrival
from tokenweir.core.ticket import Ticket
from tokenweir.extproc.session import ADMISSION, AdmissionSession, Session, Sessions

JSON = ("content-type", "application/json")


@pytest.fixture
def kit() -> Kit:
    """Return services over fakes."""
    return Kit()


def opened(kit: Kit, *, draining: bool = False) -> Session:
    """Return a session of the admission filter."""

    def arrival(_: str) -> Arrival:
        return Arrival(policy(), kit.hold_id(), draining=draining)

    session = Sessions(kit.services, kit.handoff, arrival).open(ADMISSION)
    assert isinstance(session, AdmissionSession)
    return session


async def answered(session: Session, *asked: bytes) -> ProcessingResponse:
    """Return the answer to the last of the messages; with it the session is over."""
    for message in asked:
        assert not session.finished
        answer = session.receive(message)
        assert not isinstance(answer, bytes)
        last = parsed(await answer)
    assert session.finished
    session.closed()
    return last


def head_of(path: str, key: str, headers: Headers) -> Headers:
    """Return a request's head."""
    own = ((":method", "POST"), (":path", path), ("authorization", f"Bearer {key}"))
    return (*own, *headers)


def normal(answer: ProcessingResponse) -> dict[str, Any]:
    """Return *answer* as it is however the request came, the hold's name left out."""
    told: dict[str, Any] = MessageToDict(answer)
    ours = told.get("dynamicMetadata", {}).get("tokenweir", {})
    ours.pop("hold", None)
    told.pop("requestBody", None)
    told["body"] = answer.request_body.response.body_mutation
    mutation = answer.request_body.response.header_mutation
    told["changes"] = ours.pop("request", None) or {
        "set": {
            option.header.key: option.header.raw_value.decode()
            for option in mutation.set_headers
        },
        "remove": dict.fromkeys(mutation.remove_headers, True),
    }
    if "ticket" in ours:
        ticket = json.loads(ours.pop("ticket"))
        told["ticket"] = {
            name: value
            for name, value in ticket.items()
            if name not in ("hold", "governor_ms", "ledger_ms")
        }
    return told


ASKED: dict[str, tuple[str, str, Headers, bytes]] = {
    "a chat": (CHAT, ACME_KEY, (JSON,), chat()),
    "another model": (CHAT, ACME_KEY, (JSON,), chat("fast")),
    "a stream": (CHAT, ACME_KEY, (), chat(stream=True)),
    "a message": (MESSAGES, FRUGAL_KEY, (("x-request-id", "r"),), messages("claude")),
    "a strange key": (CHAT, "sk-CANARY-x", (), chat()),
    "two keys": (CHAT, ACME_KEY, (("x-api-key", FRUGAL_KEY),), chat()),
    "no JSON": (MESSAGES, ACME_KEY, (), b"{"),
    "nothing": (CHAT, ACME_KEY, (), b""),
    "a coding": (CHAT, ACME_KEY, (("content-encoding", "x"),), chat()),
    "a coding that lies": (CHAT, ACME_KEY, (("content-encoding", "gzip"),), chat()),
    "a strange model": (MESSAGES, ACME_KEY, (), messages("nobody")),
    "what is never held": (CHAT, ACME_KEY, (), chat(max_tokens=400, n=100)),
    "too long a path": (f"{CHAT}?{'x' * 9_000}", ACME_KEY, (), chat()),
    "counting": ("/v1/messages/count_tokens", ACME_KEY, (), messages("claude")),
}


@pytest.mark.parametrize("name", ASKED)
async def test_either_way_is_the_same(name: str) -> None:
    """Answer, body, ticket and changes of headers are those of the other way."""
    path, key, headers, body = ASKED[name]
    head = head_of(path, key, headers)
    session = opened(Kit())
    first = session.receive(request_headers(head))
    assert not isinstance(first, bytes)
    expected = parsed(await first)
    if not session.finished:
        expected = await answered(session, request_body(body))

    actual = await answered(opened(Kit()), whole_request(body, head))

    assert normal(actual) == normal(expected)
    assert "CANARY" not in str(actual).replace(PROVIDER_KEY, "")
    assert actual.WhichOneof("response") == expected.WhichOneof("response")


async def test_changes_of_the_head(kit: Kit) -> None:
    """They are told to the filter behind: Envoy would not make them any more."""
    head = head_of(CHAT, ACME_KEY, ())
    answer = await answered(opened(kit), whole_request(chat("fast"), head))

    assert answer.WhichOneof("response") == "request_body"
    response = answer.request_body.response
    assert not response.HasField("header_mutation")
    assert not response.clear_route_cache
    assert json.loads(response.body_mutation.body)["model"] == "gpt-4o-mini"
    ours = MessageToDict(answer.dynamic_metadata)["tokenweir"]
    assert ours.pop("request") == {
        "set": {
            "x-tokenweir-cluster": policy().providers["openai"].cluster,
            "x-tokenweir-timeout": "quick",
            "authorization": f"Bearer {PROVIDER_KEY}",
        },
        "remove": {"x-api-key": True, "api-key": True, "x-goog-api-key": True},
    }
    assert "CANARY" not in str(ours)
    assert Ticket.from_text(ours["ticket"]).hold.id == ours["hold"]
    kit.handoff.claim(ours["hold"])


async def test_draining(kit: Kit) -> None:
    """A processor that leaves says so, without a look at the body."""
    head = head_of(CHAT, ACME_KEY, ())
    answer = await answered(opened(kit, draining=True), whole_request(b"{", head))

    assert answer.immediate_response.status.code == 503
    assert answer.immediate_response.details == "tokenweir_draining"
