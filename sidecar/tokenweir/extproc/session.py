"""
One ext_proc stream, as bytes in and bytes out.

A session is a call in the words of `tokenweir.transport.base`; it knows no gRPC.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from tokenweir.core.commands import Answer, AwaitBody, Forward, PassHead, Reject
from tokenweir.core.dialects import by_route
from tokenweir.core.events import (
    RequestBody,
    RequestHead,
    ResponseChunk,
    ResponseHead,
    header_value,
)
from tokenweir.core.request_side import Arrival
from tokenweir.core.response_path import ResponsePath
from tokenweir.core.ticket import Ticket
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.request import RequestDriver
from tokenweir.driver.response import ResponseDriver
from tokenweir.driver.services import Services
from tokenweir.extproc.codec import decode, encode
from tokenweir.extproc.messages import Incoming, Mutation, Phase, Told
from tokenweir.extproc.respond import respond
from tokenweir.transport.base import Call

ROLE_HEADER = "x-tokenweir-role"
RENDERED_HEADER = "x-tokenweir-rendered"
ADMISSION, RESPONSE, OBSERVE = "admission", "response", "observe"


class Session(Call, Protocol):
    """A call that answers each message."""

    def receive(self, message: bytes) -> bytes | Awaitable[bytes]:
        """See `Call`."""


class AdmissionSession:
    """
    The stream of the admission filter: a request's head and body.

    They come one after the other, or both in one message: see `Incoming.head`.
    """

    def __init__(self, arrival: Arrival, services: Services, handoff: Handoff) -> None:
        self._driver = RequestDriver(arrival, services, handoff)
        self._announced_length = False
        self._whole = False
        self._finished = False

    @property
    def finished(self) -> bool:
        """See `Call`."""
        return self._finished

    async def receive(self, message: bytes) -> bytes:
        """See `Call`."""
        incoming = decode(message)
        event = incoming.event
        if not isinstance(event, RequestHead | RequestBody):
            raise ValueError(f"{incoming.phase} on the admission stream")  # noqa: TRY004
        if isinstance(event, RequestHead):
            length = header_value(event.headers, "content-length")
            self._announced_length = bool(length)
        if incoming.head is not None:
            answer = await self._advance_whole(incoming.head, event)
        else:
            answer = await self._driver.advance(event)
        self._finished = not isinstance(answer, AwaitBody)
        return self._encode(incoming.phase, answer)

    def closed(self) -> None:
        """See `Call`."""
        self._driver.closed()

    async def _advance_whole(
        self, head: RequestHead, event: RequestHead | RequestBody
    ) -> Answer:
        self._whole = True
        answer = await self._driver.advance(head)
        if isinstance(answer, AwaitBody):
            return await self._driver.advance(event)
        return answer

    def _encode(self, phase: Phase, answer: Answer) -> bytes:
        match answer:
            case Forward():
                return encode(self._forward(phase, answer))
            case Reject(why, dialect):
                reply = respond(why, by_route(dialect))
                return encode(reply)
            case _:
                return encode(Mutation(phase))

    def _forward(self, phase: Phase, answer: Forward) -> Mutation:
        headers = answer.set_headers
        if answer.body is not None and self._announced_length:
            # Envoy answers 500 if the old length stands beside a changed body. A
            # request without one stays as it was framed.
            headers = (*headers, ("content-length", str(len(answer.body))))
        subject = answer.ticket.hold.subject
        return Mutation(
            phase,
            headers,
            answer.remove_headers,
            answer.body,
            reroute=not self._whole,
            skip_body=phase is Phase.REQUEST_HEADERS,
            metadata={
                "ticket": answer.ticket.to_text(),
                "strip_usage": answer.strip_usage,
                "tenant": subject.tenant,
                "model": subject.model,
                "hold": answer.ticket.hold.id,
                **_path_metadata(answer),
            },
            changes_in_metadata=self._whole,
        )


def _path_metadata(answer: Forward) -> Mapping[str, Told]:
    """Return what the filters behind are told of who reads the answer."""
    path = answer.ticket.hold.subject.path
    if path == ResponsePath.INSPECT:
        return {}
    told: dict[str, Told] = {"path": path, "reply": {"set": dict(answer.reply)}}
    if not answer.ticket.dialect:
        told["unread"] = True
    return told


class ResponseSession:
    """The stream of the response filter: open while the response flows."""

    def __init__(self, services: Services, handoff: Handoff) -> None:
        self._services = services
        self._handoff = handoff
        self._driver: ResponseDriver | None = None
        self._finished = False

    @property
    def finished(self) -> bool:
        """See `Call`."""
        return self._finished

    def receive(self, message: bytes) -> bytes | Awaitable[bytes]:
        """See `Call`."""
        incoming = decode(message)
        if self._driver is None:
            return self._begin(incoming)
        event = incoming.event
        if isinstance(event, ResponseChunk):
            return self._read(self._driver, event)
        if not isinstance(event, ResponseHead):
            return encode(Mutation(incoming.phase))
        answer = self._driver.advance(event)
        if isinstance(answer, PassHead):
            self._finished = not answer.watch_body
            return encode(
                Mutation(
                    incoming.phase,
                    answer.set_headers,
                    answer.remove_headers,
                    skip_body=not answer.watch_body,
                )
            )
        return encode(Mutation(incoming.phase))

    def closed(self) -> None:
        """See `Call`."""
        if self._driver is None:
            return
        if self._driver.behind:
            # Whoever has left, what passed before that is read all the same.
            self._services.background.spawn(self._close_later(self._driver))
        else:
            self._driver.closed()

    def _read(
        self, driver: ResponseDriver, chunk: ResponseChunk
    ) -> bytes | Awaitable[bytes]:
        driver.advance(ResponseChunk(chunk.data))
        if driver.behind:
            return self._read_on(driver, chunk)
        return self._pass(driver, chunk)

    async def _read_on(self, driver: ResponseDriver, chunk: ResponseChunk) -> bytes:
        """Read what is much step by step, so that others are served meanwhile."""
        await self._catch_up(driver)
        return self._pass(driver, chunk)

    def _pass(self, driver: ResponseDriver, chunk: ResponseChunk) -> bytes:
        if chunk.ended:
            driver.advance(ResponseChunk(b"", ended=True))
        # Also after a drain: the rest of the stream is Envoy's alone.
        self._finished = driver.over or chunk.ended
        return encode(Mutation(Phase.RESPONSE_BODY))

    async def _catch_up(self, driver: ResponseDriver) -> None:
        while driver.behind:
            await self._services.turns.next()
            driver.advance(ResponseChunk(b""))

    async def _close_later(self, driver: ResponseDriver) -> None:
        await self._catch_up(driver)
        driver.closed()

    def _begin(self, incoming: Incoming) -> bytes:
        """Take the ticket; without one this is not an exchange of ours to settle."""
        ticket = self._ticket_in(incoming)
        if ticket is None:
            self._finished = True
        else:
            made_here = self._handoff.claim(ticket.hold.id)
            self._driver = ResponseDriver(ticket, self._services, made_here=made_here)
        return encode(Mutation(incoming.phase))

    def _ticket_in(self, incoming: Incoming) -> Ticket | None:
        if incoming.phase is not Phase.REQUEST_HEADERS or not incoming.ticket:
            return None
        try:
            return Ticket.from_text(incoming.ticket)
        except ValueError as error:
            # Its exchange goes unmetered, so somebody has to hear of it.
            self._services.events.fault("ticket", error)
            return None


class ObserveSession:
    """The stream of the observing filter: copies come in, and nobody waits for a word."""

    def __init__(self, services: Services, handoff: Handoff) -> None:
        self._inner = ResponseSession(services, handoff)

    @property
    def finished(self) -> bool:
        """See `Call`."""
        return self._inner.finished

    def receive(self, message: bytes) -> Awaitable[None] | None:
        """See `Call`: there is no answer."""
        answer = self._inner.receive(message)
        return None if isinstance(answer, bytes) else _unsaid(answer)

    def closed(self) -> None:
        """See `Call`."""
        self._inner.closed()


async def _unsaid(answer: Awaitable[bytes]) -> None:
    await answer


class Sessions:
    """Opens a session for each stream, by the role that Envoy's filter tells."""

    def __init__(
        self,
        services: Services,
        handoff: Handoff,
        arrival: Callable[[str], Arrival],
    ) -> None:
        self._services = services
        self._handoff = handoff
        self._arrival = arrival

    def open(self, role: str, rendered: str = "") -> Session | ObserveSession | None:
        """
        Return a session for *role*, or None if there is no such role.

        *rendered* is what Envoy says that it was made from; it goes to *arrival*.
        """
        if role == ADMISSION:
            arrival = self._arrival(rendered)
            return AdmissionSession(arrival, self._services, self._handoff)
        if role == RESPONSE:
            return ResponseSession(self._services, self._handoff)
        if role == OBSERVE:
            return ObserveSession(self._services, self._handoff)
        return None
