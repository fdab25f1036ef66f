"""
Why a stack could not be run.

    StackError
     +- MissingPackagesError   the demo's packages are not installed
     +- PortsTakenError        another program listens where the stack should
     +- LedgerSilentError      the ledger that the user named does not answer
     +- NobodyCanCallError     the policy has no key, and says of nobody who calls
     +- LogFolderError         the logs' folder can't be made
     +- ChildFailedError       a child did not start, or died too often

The text of each is what the user reads: what happened, and what to do.
"""

from __future__ import annotations

from tokenweir.core.errors import TokenweirError


class StackError(TokenweirError):
    """The stack can't be run."""


class MissingPackagesError(StackError):
    """Programs that come as Python packages are not there."""


class PortsTakenError(StackError):
    """A port can't be listened on."""


class LedgerSilentError(StackError):
    """The ledger that was named gives no answer."""


class NobodyCanCallError(StackError):
    """The policy knows no key, so every request would get 401."""


class LogFolderError(StackError):
    """The folder for logs can't be made."""


class ChildFailedError(StackError):
    """A child did not become ready, or died too often."""
