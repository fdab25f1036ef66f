"""
Faults, by whose they are.

    TokenweirError
     +- MalformedRequestError    the client's: answered with 400 in its dialect
     +- LedgerUnavailableError   the ledger's: `on_ledger_failure` says what follows
     +- PolicyError              the operator's: lists every problem with its path

A refusal is no fault: see `tokenweir.core.rejection`.
"""

from __future__ import annotations

from collections.abc import Sequence


class TokenweirError(Exception):
    """Whatever is raised on purpose."""


class MalformedRequestError(TokenweirError):
    """
    The client sent what no provider could answer.

    Attributes:
        message: Safe to show to the client: says what is wrong, quotes no content.
        param: The body's member that is wrong, such as ``"model"``; or None.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class LedgerUnavailableError(TokenweirError):
    """The ledger gave no answer in time: whether the call was applied is unknown."""


class LedgerRefusedError(LedgerUnavailableError):
    """The ledger answered that it can't do this call; others may fare better."""


class NewerFormatError(LedgerRefusedError):
    """What the ledger has there was written by a newer version: it was left alone."""


class PolicyError(TokenweirError):
    """
    A policy can't be used.

    Attributes:
        problems: All of them, each beginning with the path of the value.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
