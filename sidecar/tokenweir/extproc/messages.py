"""Envoy's messages in the words of the core: what the codec reads and writes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.core.events import (
    RequestBody,
    RequestHead,
    ResponseChunk,
    ResponseHead,
)
from tokenweir.core.policy import Secret

NAMESPACE = "tokenweir"
Told = str | bool | Mapping[str, "Told"]
"""What metadata can hold."""
# In it: changes of a request's headers. They may hold a credential, so `apply.lua`, which
# makes them, takes them out.
CHANGES = "request"


class Phase(enum.StrEnum):
    """Which of Envoy's messages this is, or is an answer to."""

    REQUEST_HEADERS = "request_headers"
    REQUEST_BODY = "request_body"
    REQUEST_TRAILERS = "request_trailers"
    RESPONSE_HEADERS = "response_headers"
    RESPONSE_BODY = "response_body"
    RESPONSE_TRAILERS = "response_trailers"


@dataclass(frozen=True, slots=True)
class Incoming:
    """
    A message from Envoy.

    Attributes:
        phase: Which one.
        event: What it tells; None for trailers.
        ticket: From the request side, with the request's head; else ``""``.
        head: That of a request which came whole, with the message of its body; else
            None.
    """

    phase: Phase
    event: RequestHead | RequestBody | ResponseHead | ResponseChunk | None
    ticket: str = ""
    head: RequestHead | None = None


@dataclass(frozen=True, slots=True)
class Mutation:
    """
    An answer that lets things go on, changed or not.

    Attributes:
        phase: Which message it answers.
        set_headers: Replace or add.
        remove_headers: Taken out.
        body: Replaces the body, or None.
        reroute: Have Envoy choose the route again.
        skip_body: Envoy need not send the body of this direction.
        metadata: For the namespace `NAMESPACE`.
        changes_in_metadata: Headers are changed by the filter behind, which is told by
            metadata: the head of a request that came whole has passed ours.
    """

    phase: Phase
    set_headers: tuple[tuple[str, str | Secret], ...] = ()
    remove_headers: tuple[str, ...] = ()
    body: bytes | None = None
    reroute: bool = False
    skip_body: bool = False
    metadata: Mapping[str, Told] = field(default_factory=dict)
    changes_in_metadata: bool = False


@dataclass(frozen=True, slots=True)
class LocalReply:
    """
    An answer that Envoy gives to the client itself.

    Attributes:
        status: HTTP status.
        headers: In lower case, one value each.
        body: Of the reply.
        details: Envoy's response code details: one word, for the access log.
        metadata: For the namespace `NAMESPACE`.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    details: str = ""
    metadata: Mapping[str, Told] = field(default_factory=dict)


Outgoing = Mutation | LocalReply
"""What can be answered."""
