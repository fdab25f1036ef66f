"""Entries become passages, and whatever is none is told apart from those that are."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry
from hypothesis import given
from hypothesis import strategies as st

from tests.accesslog.entries import (
    END,
    PERIODIC,
    entry,
    message,
    noted_head,
    whole,
)
from tests.examples import NOW_MS, ticket
from tests.wire import DONE, USAGE_EVENT, delta
from tokenweir.accesslog.codec import decode
from tokenweir.core.events import ResponseHead
from tokenweir.core.passage import Passage

BODY = delta("Hello") + USAGE_EVENT + DONE


def passage(*args: object, **more: object) -> Passage:
    """Return the only passage of a message with one entry."""
    decoded = decode(message(entry(*args, **more)))  # type: ignore[arg-type]
    assert decoded.faults == ()
    [found] = decoded.passages
    return found


def test_an_exchange_that_ended() -> None:
    """Everything that the response side needs is there."""
    found = passage(None, whole(BODY), took_ms=61_234)

    assert found.ticket == ticket()
    assert found.at_ms == NOW_MS + 61_234
    assert found.over
    assert found.sent
    assert found.head == ResponseHead(
        200, (("content-type", "text/event-stream"),), 1, "via_upstream"
    )
    assert found.ended
    assert found.excerpt is not None
    assert b"".join(unit.data for unit in found.excerpt.units) == BODY
    assert found.excerpt.whole


def test_an_exchange_that_goes_on() -> None:
    """It is not over, and there may be no answer yet."""
    found = passage(None, None, kind=PERIODIC, status=0, answered=False)

    assert not found.over
    assert found.sent
    assert found.head is None
    assert found.excerpt is None


def test_nothing_was_sent() -> None:
    """An exchange that ended before any attempt, and without an answer, was not sent."""
    left = {"status": 0, "details": "downstream_remote_disconnect", "answered": False}

    assert not passage(None, None, attempts=0, **left).sent
    assert passage(None, None, attempts=1, **left).sent
    assert passage(None, None, attempts=0, status=503, details="x").sent


@pytest.mark.parametrize(
    ("details", "status", "answered", "told"),
    [
        ("via_upstream", 429, True, "via_upstream"),
        ("downstream_remote_disconnect", 429, True, "via_upstream"),
        ("upstream_reset_after_response_started{x}", 200, True, "via_upstream"),
        ("stream_idle_timeout", 200, True, "via_upstream"),
        ("stream_idle_timeout", 504, True, "stream_idle_timeout"),
        ("downstream_remote_disconnect", 503, False, "downstream_remote_disconnect"),
        ("no_healthy_upstream", 503, False, "no_healthy_upstream"),
        (
            "upstream_reset_before_response_started{connection_timeout}",
            503,
            True,
            "upstream_reset_before_response_started{connection_timeout}",
        ),
    ],
)
def test_whose_the_status_is(
    details: str, status: int, told: str, *, answered: bool
) -> None:
    """What became of the answer later does not make it Envoy's own."""
    found = passage(None, None, details=details, status=status, answered=answered)

    assert found.head is not None
    assert found.head.details == told


@pytest.mark.parametrize("sent_all", [True, False])
def test_whether_it_ended_well(*, sent_all: bool) -> None:
    """It did if all of it went to the app, and nothing was said of it after that."""
    assert passage(None, None, sent_all=sent_all).ended is sent_all
    assert not passage(None, None, details="downstream_remote_disconnect").ended
    assert not passage(None, None, kind=PERIODIC).ended


def test_how_the_body_came() -> None:
    """The script has seen the head before any filter has changed it."""
    noted = passage(None, noted_head("text/event-stream", "gzip", "")).head
    unseen = passage(None, {}, headers={"Content-Type": "text/plain"}).head

    assert noted is not None
    assert noted.headers == (
        ("content-type", "text/event-stream"),
        ("content-encoding", "gzip"),
    )
    assert unseen is not None
    assert unseen.headers == (("content-type", "text/plain"),)


def test_how_much_passed() -> None:
    """Envoy counts it, and no count is absurd."""
    assert passage(None, None, body_bytes=70).body_bytes == 70
    assert passage(None, None, body_bytes=2**63).body_bytes == 2**50


def test_others_are_left_out() -> None:
    """Entries of other kinds, paths and exchanges are nobody's business."""
    stranger = entry()
    del stranger.common_properties.metadata.filter_metadata["tokenweir"]
    started = entry(kind=4)
    inspected = entry(path="inspect")

    decoded = decode(message(stranger, started, inspected))
    assert decoded == type(decoded)()


def test_requests_that_never_left() -> None:
    """Who left before any answer, and before Envoy knew whose it was, is told by id."""

    def left(**more: Any) -> HTTPAccessLogEntry:
        told = {"status": 0, "attempts": 0, "answered": False} | more
        made = entry(None, None, **told)
        del made.common_properties.metadata.filter_metadata["tokenweir"]
        made.request.request_id = "r-1"
        return made

    ours = entry(None, None, status=0, attempts=0)
    ours.request.request_id = "r-2"
    others = (left(kind=PERIODIC), left(attempts=1), left(status=400), ours)
    nameless = left()
    nameless.request.request_id = ""

    decoded = decode(message(left(), *others, nameless))
    assert decoded.never_left == ("r-1",)


def test_forged_and_broken_entries() -> None:
    """Each is a fault that says nothing of what was in it, and costs no other one."""
    forged = entry("CANARY")
    half = entry('{"hold": "CANARY"}')

    decoded = decode(message(forged, entry(None, whole(BODY)), half))
    assert [each.ticket for each in decoded.passages] == [ticket()]
    assert len(decoded.faults) == 2
    assert "CANARY" not in repr(decoded.faults)


def test_a_message_that_is_none() -> None:
    """It is one fault."""
    decoded = decode(b"\xff" * 9)

    assert decoded.passages == ()
    assert len(decoded.faults) == 1


@given(st.binary(max_size=200))
def test_whatever_comes(noise: bytes) -> None:
    """No bytes raise anything."""
    decode(noise)
    decode(message(entry(), entry(kind=END)) + noise)
