"""What an exchange can be told. Its counterpart is `tokenweir.core.commands`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.hold import Denied, Granted
from tokenweir.core.prompt_part import PromptParts
from tokenweir.core.rejection import BodyTooLarge
from tokenweir.core.usage import Source

if TYPE_CHECKING:  # dialects know headers, which are defined below
    from tokenweir.core.dialects.base import ModelRequest

Headers = tuple[tuple[str, str], ...]
"""Names in lower case with values, in the order in which they came."""


def header_value(headers: Headers, name: str) -> str:
    """Return the first value of the header *name* (lower case), or ``""``."""
    return next((value for key, value in headers if key == name), "")


def header_list(headers: Headers, name: str) -> str:
    """Return all values of the header *name* (lower case) as one list, or ``""``."""
    return ", ".join(value for key, value in headers if key == name)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """
    The request's head came. *ended*: there will be no body.

    *path* is as the client wrote it, with the query.
    """

    method: str
    path: str
    headers: Headers
    ended: bool = False


@dataclass(frozen=True, slots=True)
class RequestBody:
    """
    The whole request body came.

    *read* is what it says, or why it can't be read, if somebody has looked already.
    *decoded*: it came encoded, and *body* is what that was made of;
    *prompt* what of it can repeat, if the policy asks for that; and *kept_texts* what
    may be kept of its text, by digest.
    """

    body: bytes
    read: ModelRequest | MalformedRequestError | BodyTooLarge | None = None
    prompt: PromptParts | None = None
    kept_texts: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """
    The count that was asked for is *tokens*.

    *text_tokens* are those of a prompt that is all text, before any correction; 0:
    nothing can be learned from it. *uncorrected* are those of any prompt.
    """

    tokens: int
    source: Source
    text_tokens: int = 0
    uncorrected: int = 0


NOT_COUNTED = Counted(0, Source.COUNTED)


@dataclass(frozen=True, slots=True)
class Reserved:
    """The ledger granted the hold."""

    granted: Granted


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger denied the hold; nothing was taken."""

    denied: Denied


@dataclass(frozen=True, slots=True)
class WindowsTurned:
    """The ledger's clock reads *now_ms*, which the hold's windows do not cover."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class LedgerFailed:
    """The ledger gave no answer in time; the reserve may have been applied."""


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """Envoy is about to stop waiting for an answer, or something of ours broke."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """
    The response's head came.

    Attributes:
        status: HTTP status.
        headers: Without pseudo headers.
        attempts: Requests that Envoy sent to providers, or None if it didn't say.
        details: Envoy's response code details; ``"via_upstream"`` or ``""`` if the
            response is the provider's own.
        ended: There will be no body.
    """

    status: int
    headers: Headers
    attempts: int | None = None
    details: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ResponseChunk:
    """A piece of the response body passed. *ended*: it was the last."""

    data: bytes
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ResponseKept:
    """
    Of a body that passed unseen, *data* comes next; empty: read on in what came before.

    *elided_bytes* of long texts in it were left out.
    """

    data: bytes
    elided_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ResponseMissed:
    """Of a body that passed unseen, *size_bytes* come next that nobody has kept."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class ResponsePassed:
    """
    That is what is known of a body that passed unseen.

    Attributes:
        size_bytes: Of the body so far.
        ended: It is over, and its end was clean.
        fault: Some of it was neither kept nor told as missing.
    """

    size_bytes: int
    ended: bool = False
    fault: bool = False


@dataclass(frozen=True, slots=True)
class NothingSent:
    """The exchange is over, and nothing of it was sent to any provider."""


@dataclass(frozen=True, slots=True)
class Tick:
    """It is time to renew the hold."""


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """Envoy closed the stream: the client left, the provider reset, or it is over."""


@dataclass(frozen=True, slots=True)
class DrainDeadline:
    """This processor must leave now; the rest of the response passes unseen."""


Event = (
    RequestHead
    | RequestBody
    | Counted
    | Reserved
    | Refused
    | WindowsTurned
    | LedgerFailed
    | OutOfTime
    | ResponseHead
    | ResponseChunk
    | ResponseKept
    | ResponseMissed
    | ResponsePassed
    | NothingSent
    | Tick
    | StreamClosed
    | DrainDeadline
)
