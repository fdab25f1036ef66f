"""What an exchange asks for is done, and whoever keeps it alive is told when to stop."""

from __future__ import annotations

import pytest

from tests.driver.fakes import Kit
from tests.examples import NOW_MS, ticket
from tests.wire import DONE, STREAM, USAGE_EVENT
from tokenweir.core.commands import PassChunk, PassHead
from tokenweir.core.events import (
    NothingSent,
    RequestBody,
    ResponseChunk,
    ResponseHead,
    StreamClosed,
    Tick,
)
from tokenweir.core.step import State
from tokenweir.driver.performing import Performer


async def made(kit: Kit) -> tuple[Performer, list[str]]:
    """Return a performer, and a list that grows when it is over."""
    await kit.ledger.reserve(ticket().hold)
    over: list[str] = []
    return Performer(ticket(), kit.services, lambda: over.append("over")), over


async def test_an_answer_and_its_settlement() -> None:
    """Each event has its answer, and the last one is settled once."""
    kit = Kit()
    performer, over = await made(kit)

    assert isinstance(performer.handle(ResponseHead(200, STREAM)), PassHead)
    assert performer.handle(ResponseChunk(USAGE_EVENT)) == PassChunk()
    assert performer.handle(Tick()) is None
    assert over == []
    assert performer.handle(ResponseChunk(DONE, ended=True), NOW_MS + 9) == PassChunk()
    await kit.quiet()

    assert over == ["over"]
    assert performer.state is State.DONE
    assert not performer.behind
    [settlement] = kit.ledger.settlements
    assert settlement.duration_ms == NOW_MS + 9 - ticket().started_ms
    assert kit.ledger.count("extend") == 1


async def test_nothing_was_sent() -> None:
    """The hold is given back."""
    kit = Kit()
    performer, over = await made(kit)
    performer.handle(NothingSent())
    await kit.quiet()

    assert over == ["over"]
    assert kit.ledger.count("cancel") == 1
    assert await kit.ledger.reserved() == {}


async def test_faults() -> None:
    """An event that nobody expects is one; at the end nobody is to wait any longer."""
    kit = Kit()
    performer, over = await made(kit)
    stray = RequestBody(b"")

    with pytest.raises(KeyError):
        performer.handle(stray)
    assert not performer.handle_safely(stray)
    assert over == []
    performer.end(stray)
    assert over == ["over"]
    performer.end(StreamClosed())
    await kit.quiet()

    assert [where for where, _ in kit.recorder.faults] == ["response"] * 2
    assert len(kit.ledger.settlements) == 1
