"""What people are told to do about a ledger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as NotConnectedError

from tokenweir.core.errors import LedgerUnavailableError, NewerFormatError
from tokenweir.ledger import advice as module
from tokenweir.ledger.advice import advice


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        (AuthenticationError("WRONGPASS"), "password_file"),
        (ReadOnlyError("READONLY"), "redis+sentinel://"),
        (ResponseError("ERR Error running script: -READONLY You can't"), "primary"),
        (MovedError("1 127.0.0.1:7000"), "redis+cluster://"),
        (ResponseError("BUSY Redis is busy running a script"), "SCRIPT KILL"),
        (ResponseError("OOM command not allowed"), "memory"),
    ],
)
def test_what_a_server_says_is_known(cause: Exception, word: str) -> None:
    """Directly, as the cause of ours, and in words of servers before Redis 7."""
    ours = LedgerUnavailableError("no answer")
    ours.__cause__ = cause

    assert word in advice(ours)
    assert advice(cause) == advice(ours)


def test_who_is_too_old_is_told_so() -> None:
    """Whatever it was that met a newer format."""
    assert "newest processors" in advice(NewerFormatError("newer"))


def test_who_knows_nothing_says_nothing() -> None:
    """A connection that was refused may have any reason."""
    assert advice(NotConnectedError("refused")) == ""
    assert advice(LedgerUnavailableError("no answer")) == ""


def test_the_runbook_has_the_same_reasons() -> None:
    """What a log names is explained there as well."""
    page = Path("docs/runbook.md").read_text()
    told = set(re.findall(r"`(\w+)`", page))

    assert set(module._ADVICE) <= told
