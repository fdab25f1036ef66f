"""What it means that a server gives no answer, or one that is an error."""

from __future__ import annotations

import ssl

import pytest
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as NotConnectedError

from tokenweir.ledger.faults import NEWER_FORMAT, is_readonly, is_state, reason_of


def greeted(cause: Exception) -> NotConnectedError:
    """What redis-py makes of a greeting that failed for *cause*."""
    error = NotConnectedError("no")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "TimeoutError"),
        (MovedError("1 h:1"), "MovedError"),
        (ResponseError("MISCONF can't write"), "MISCONF"),
        (ResponseError(f"{NEWER_FORMAT} 1"), NEWER_FORMAT),
        (ResponseError("something else"), "ResponseError"),
        (greeted(AuthenticationError("no")), "AuthenticationError"),
        (greeted(ssl.SSLError("no")), "SSLError"),
    ],
)
def test_reasons_have_short_names(error: Exception, reason: str) -> None:
    """The server's own word, or why a greeting came to nothing."""
    assert reason_of(error) == reason


def test_states_are_no_faults_of_ours() -> None:
    """A server that can't is told from one that was asked nonsense."""
    assert is_state(MovedError("1 h:1"))
    assert is_state(ResponseError("Error running script: -LOADING wait"))
    assert not is_state(ResponseError("unknown command"))


def test_a_replica_says_so_in_two_ways() -> None:
    """As itself, and inside of a script's error."""
    assert is_readonly(ReadOnlyError("no"))
    assert is_readonly(ResponseError("Error running script: -READONLY no"))
    assert not is_readonly(ResponseError("no"))
    assert not is_readonly(None)
