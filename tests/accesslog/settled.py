"""What is settled of one body, by each path: without Envoy, but by all of our code."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace

from tests.accesslog.entries import entry, message
from tests.driver.fakes import Kit
from tests.envoyconf.told_bodies import Body
from tests.envoyconf.watched import Watch
from tests.examples import ticket
from tests.extproc.envoy_messages import (
    request_headers,
    response_body,
    response_headers,
)
from tokenweir.accesslog.session import LogSession
from tokenweir.core.dialects import dialect_of
from tokenweir.core.hold import Settlement
from tokenweir.core.ticket import Ticket
from tokenweir.driver.services import Services
from tokenweir.extproc.session import ObserveSession, ResponseSession
from tokenweir.tokenizers.counter import TokenCounter


@dataclass(frozen=True)
class Settled:
    """
    What was charged, and what was counted for it: texts, and bytes of further ones.

    Times are left out: they are different clocks'.
    """

    settlement: Settlement
    asked: tuple[object, ...]


def ticket_for(body: Body) -> Ticket:
    """Return the ticket of a request that *body* answers."""
    dialect = dialect_of(body.path)
    assert dialect is not None
    return replace(
        ticket(output_tokens=100_000), dialect=dialect.route, max_output_tokens=None
    )


async def native(
    watch: Watch,
    body: Body,
    pieces: Sequence[bytes],
    cut_after: int | None = None,
    counter: TokenCounter | None = None,
) -> Settled:
    """
    Return what is settled if Envoy reads it; *cut_after* so many *pieces*.

    *counter*: the real one.
    """
    watched = watch.reply(pieces, content_type=body.content_type, cut_after=cut_after)
    passed = pieces if cut_after is None else pieces[:cut_after]
    told = entry(
        ticket_for(body),
        watched.notes,
        headers={"content-type": body.content_type},
        body_bytes=sum(map(len, passed)),
        details="via_upstream" if cut_after is None else "downstream_remote_disconnect",
        sent_all=cut_after is None,
    )
    kit = Kit()
    LogSession(_services(kit, counter)).receive(message(told))
    return await _settled(kit)


async def in_line(
    body: Body,
    pieces: Sequence[bytes],
    cut_after: int | None = None,
    counter: TokenCounter | None = None,
) -> Settled:
    """Return what is settled if the processor reads it in line."""
    kit = Kit()
    session = ResponseSession(_services(kit, counter), kit.handoff)
    return await _shown(kit, session, body, pieces, cut_after)


async def observed(
    body: Body,
    pieces: Sequence[bytes],
    cut_after: int | None = None,
    counter: TokenCounter | None = None,
) -> Settled:
    """Return what is settled if the processor reads a copy."""
    kit = Kit()
    session = ObserveSession(_services(kit, counter), kit.handoff)
    return await _shown(kit, session, body, pieces, cut_after)


def _services(kit: Kit, counter: TokenCounter | None) -> Services:
    return replace(kit.services, counter=counter) if counter else kit.services


async def _shown(
    kit: Kit,
    session: ResponseSession | ObserveSession,
    body: Body,
    pieces: Sequence[bytes],
    cut_after: int | None,
) -> Settled:
    head = (("content-type", body.content_type),)
    messages = [
        request_headers(ticket=ticket_for(body).to_text()),
        response_headers(200, head),
        *map(response_body, pieces if cut_after is None else pieces[:cut_after]),
    ]
    if cut_after is None:
        messages.append(response_body(b"", ended=True))
    for each in messages:
        if session.finished:
            break
        answer = session.receive(each)
        if isinstance(answer, Awaitable):
            await answer
    session.closed()
    return await _settled(kit)


async def _settled(kit: Kit) -> Settled:
    await kit.quiet()
    assert kit.recorder.faults == []
    [settlement] = kit.ledger.settlements
    [details] = kit.recorder.exchanges
    assert details.settlement == settlement
    untimed = replace(settlement, duration_ms=0, first_token_ms=None)
    return Settled(untimed, tuple(map(_joined, kit.counter.asked)))


def _joined(asked: tuple[object, ...]) -> tuple[object, ...]:
    texts, *more = asked
    assert isinstance(texts, tuple)
    return ("".join(texts), *more)
