"""What it means that a server gives no answer, or one that is an error."""

from __future__ import annotations

import ssl

from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from tokenweir.ledger.credentials import PasswordFileError

# What a server says that is in no state to answer, or that does not answer us: one node
# of a cluster (a MovedError is an AskError), or one with other ideas of our rights.
# Anything else is our mistake, and a fault.
_UNAVAILABLE = (
    AskError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
# The same, and more, as servers before Redis 7 wrap it into a script's error.
_UNAVAILABLE_WORDS = (
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
)

# Why a greeting came to nothing.
_UNGREETED = (ssl.SSLError, AuthenticationError, PasswordFileError)

# What our scripts say of a tag that a newer version has written.
NEWER_FORMAT = "NEWFORMAT"


def reason_of(error: BaseException) -> str:
    """Return what to call *error*: its type, or the word that the server has for it."""
    if type(error) is ResponseError:
        text = str(error)
        words = (NEWER_FORMAT, *_UNAVAILABLE_WORDS)
        return next((word for word in words if word in text), "ResponseError")
    cause: BaseException | None = error
    while cause is not None:  # redis-py takes whatever ends a handshake for the same
        if isinstance(cause, _UNGREETED):
            return type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def is_state(error: Exception) -> bool:
    """Tell if *error* says in which state the server is, and not what we did wrong."""
    return isinstance(error, _UNAVAILABLE) or any(
        word in str(error) for word in _UNAVAILABLE_WORDS
    )


def is_readonly(error: Exception | None) -> bool:
    """Tell if *error* says that the server is a replica."""
    return isinstance(error, ReadOnlyError) or "READONLY" in str(error)
