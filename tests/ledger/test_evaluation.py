"""One call of a script, as it is sent."""

from __future__ import annotations

import hiredis

from tokenweir.ledger.evaluation import Evaluation
from tokenweir.ledger.scripts import LEASE, RESERVE


def parts(command: bytes) -> list[bytes]:
    """Read a command as a server does."""
    reader = hiredis.Reader()
    reader.feed(command)
    return list(reader.gets())


def test_a_call_by_name_and_in_full() -> None:
    """A rooted script is told its guard, too; numbers are whole, however large."""
    call = Evaluation(RESERVE, "{tw:017}", ["ä", 10**15], 1.0)
    rest = [b"2", b"{tw:017}", b"{tw:017}:e", "ä".encode(), b"1000000000000000"]

    assert parts(call.by_name()) == [b"EVALSHA", RESERVE.sha.encode(), *rest]
    assert parts(call.in_full()) == [b"EVAL", RESERVE.source.encode(), *rest]
    assert call.command == ["EVALSHA", RESERVE.sha, "2", *rest[1:]]


def test_text_that_is_no_text_goes_out_all_the_same() -> None:
    """Half of a surrogate pair, out of a request, is a question mark."""
    call = Evaluation(LEASE, "k", ["a\ud800", 5], 1.0)

    assert parts(call.by_name())[2:] == [b"1", b"k", b"a?", b"5"]
