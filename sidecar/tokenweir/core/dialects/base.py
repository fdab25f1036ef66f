"""
What a wire format can be asked.

A dialect reads requests and responses of one API and writes that API's errors.
It knows nothing of quotas. What a provider does not say is None, not a missing
method.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage


class MediaKind(enum.StrEnum):
    """What a part that is no text holds."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"


# In place of a detail: a picture that is kept to when another is made of it.
FAITHFUL = "faithful"


@dataclass(frozen=True, slots=True)
class Media:
    """
    A part that is no text. It is never fetched, and its base64 is never counted.

    Attributes:
        kind: What it is.
        head: The first bytes (at most 48 KiB, decoded), b"" for a URL.
        size_bytes: Of the decoded data; 0 for a URL.
        detail: OpenAI's ``detail``, or Gemini's resolution; None: not said.
    """

    kind: MediaKind
    head: bytes = b""
    size_bytes: int = 0
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """
    One message of a prompt.

    Attributes:
        role: ``"system"``, ``"user"``, …
        texts: Every text that the model reads: content, tool calls' names and
            arguments, tool results, thinking.
        name: The participant's name, or None.
        media: Parts that are no text.
        calls: How many tools were called in it.
        is_guessed: It has what nobody here knows: the model may read less of it, or more.
    """

    role: str
    texts: tuple[str, ...] = ()
    name: str | None = None
    media: tuple[Media, ...] = ()
    calls: int = 0
    is_guessed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; *parameters* is its JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    What the input estimate is made from.

    Attributes:
        messages: In order; system prompts included.
        tools: Functions that the model may call.
        tool_choice: ``"none"``, the name of a forced function, or None.
        extra_texts: Other text that the model reads, such as a response schema.
        token_ids: Input that was given as token ids: their number.
        is_partial: The model reads more than is here: what the provider has kept.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: str | None = None
    extra_texts: tuple[str, ...] = ()
    token_ids: int = 0
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """
    The facts of a request body.

    Attributes:
        model: As the app named it; not empty, no control characters, bounded.
        stream: Whether an event stream was asked for.
        output_cap: The client's cap per choice in whatever spelling, or None.
        choices: How many answers were asked for (``n``), at least 1.
        user: The body's end-user id, or ``""``.
        wants_usage: The app itself asked for the usage event (or the dialect
            always sends one).
        prompt: What the input estimate is made from.
        service_tier: The tier of service that was asked for, or None.
        speaks: Whether an answer in sound was asked for.
        thinking_tokens: What of the cap may be used to think, or None: not said.
        can_be_capped: Whether the API has a cap on output; else `output_cap` is only
            what is expected at most.
    """

    model: str
    stream: bool
    output_cap: int | None
    choices: int
    user: str
    wants_usage: bool
    prompt: Prompt
    service_tier: str | None = None
    speaks: bool = False
    thinking_tokens: int | None = None
    can_be_capped: bool = True

    @property
    def hears(self) -> bool:
        """Whether there is sound in the prompt."""
        return any(
            media.kind is MediaKind.AUDIO
            for message in self.prompt.messages
            for media in message.media
        )


@dataclass(frozen=True, slots=True)
class Edits:
    """
    What is changed in a request body; the rest keeps every byte.

    Attributes:
        model: The provider's name for the model, or None.
        include_usage: Ask for the usage event of a stream.
        output_cap: The most output tokens of a choice, or None; it replaces the app's
            own cap in the spelling that the app used.
        output_cap_field: The spelling if the app used none, or None: the dialect's.
        thinking_tokens: What of the cap may be used to think, or None.
    """

    model: str | None = None
    include_usage: bool = False
    output_cap: int | None = None
    output_cap_field: str | None = None
    thinking_tokens: int | None = None

    def __bool__(self) -> bool:
        return self != Edits()


@dataclass(slots=True)
class ResponseFacts:
    """
    What is known of a response so far. Dialects write it, the exchange reads it.

    Attributes:
        usage: As reported; None until a report was seen. Figures are cumulative:
            a later one replaces an earlier one, null or absent erases nothing.
        usage_final: The report covers all that was generated so far: both sides are
            known, and no text came after it. Of a finished answer that is the whole;
            a stream that reports with every event stays right where it is cut.
        model: As the provider names it, or None.
        error: Type or code of an error inside the body, or None.
        texts: Generated text, in pieces, of all choices: content, reasoning,
            refusals, tool calls' names and arguments.
        text_bytes: Length of *texts* in UTF-8 so far, dropped pieces included.
        deltas: Events that carried generated text.
        hidden: Something was generated, or a tool of the provider's used, that is no
            text to be counted, such as encrypted thinking.
        finished: The provider said that the answer is complete.
        ended: The last event of a stream came, with no error before it: of all choices,
            and nothing but a late report may follow.
        unreadable: The body could not be read (encoding, size, syntax): its
            figures can't be trusted to be complete.
        strange: An event of a stream, or a member of one, came in which nothing that is
            read of answers was found, and which is none that says nothing: it may be
            text.
        absurd: A report was left out: it had figures that no count of tokens can be.
        service_tier: The tier that served it, in the provider's word, or None.
        at_cap: Choices that ended because they had reached their cap.
        by_choice: What was reported of single choices, where their reports are apart.
    """

    usage: TokenUsage | None = None
    usage_final: bool = False
    model: str | None = None
    error: str | None = None
    texts: list[str] = field(default_factory=list)
    text_bytes: int = 0
    deltas: int = 0
    hidden: bool = False
    finished: bool = False
    ended: bool = False
    unreadable: bool = False
    strange: bool = False
    absurd: bool = False
    service_tier: str | None = None
    at_cap: int = 0
    by_choice: dict[int, ResponseFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """
    An error as every dialect can tell it.

    Attributes:
        status: HTTP status.
        type: OpenAI's ``error.type`` (Anthropic has its own, by status).
        code: OpenAI's ``error.code``, or None.
        message: For people.
        param: The offending member, or None.
        detail: The machine-readable ``tokenweir`` object.
    """

    status: int
    type: str
    code: str | None
    message: str
    param: str | None
    detail: Mapping[str, object]


class Dialect(Protocol):
    """One wire format."""

    name: str  # such as "openai": which providers speak it
    route: str  # the class of paths, such as "chat_completions"

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*: key order, numbers, unknown fields stay."""

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path*, which may have a query, with those *edits* that are in it."""

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event of a streamed response into *facts*. Never raises."""

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON response into *facts*. Never raises."""

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as this API does, with the ``tokenweir`` object beside it."""
