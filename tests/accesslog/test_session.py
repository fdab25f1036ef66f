"""A stream of the access log settles what is over, and nothing in it ends it."""

from __future__ import annotations

from tests.accesslog.entries import PERIODIC, entry, message, whole
from tests.driver.fakes import Kit
from tests.examples import ticket
from tests.wire import DONE, USAGE_EVENT, delta
from tokenweir.accesslog.session import LogSession
from tokenweir.core.usage import TokenUsage

BODY = delta("Hello") + USAGE_EVENT + DONE


async def test_entries_are_taken_in_order() -> None:
    """An exchange is kept alive while it goes on, and settled at its end."""
    kit = Kit()
    await kit.ledger.reserve(ticket().hold)
    session = LogSession(kit.services)

    session.receive(message(entry(None, None, status=0, kind=PERIODIC)))
    session.receive(message(entry(None, whole(BODY))))
    await kit.quiet()

    assert [verb for verb, _ in kit.ledger.verbs] == ["reserve", "extend", "settle"]
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert not session.finished
    session.closed()


async def test_faults_are_told() -> None:
    """What can't be read is a fault, and what stands beside it is settled."""
    kit = Kit()
    await kit.ledger.reserve(ticket().hold)
    session = LogSession(kit.services)

    session.receive(b"\xff")
    session.receive(message(entry("forged"), entry(None, whole(BODY))))
    await kit.quiet()

    assert [where for where, _ in kit.recorder.faults] == ["access_log"] * 2
    assert len(kit.ledger.settlements) == 1
