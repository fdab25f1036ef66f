"""
Writing `ResponseFacts`, with care for what providers send.

Whatever comes out of a response is checked here before anybody counts, labels
or logs it. Nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.fields import MAX_MODEL_CHARS, MAX_TOKENS

# Generated text that is kept to be counted if no report comes: some 60,000 tokens,
# twice what models commonly generate at most. Beyond it only bytes are counted.
MAX_RETAINED_BYTES = 256 * 1024

# Types of events that say nothing.
KEEP_ALIVE = ("ping", "keepalive", "heartbeat")

_END = b"[DONE]"
_KEEP_ALIVE_WORDS = frozenset(
    {
        *(b"", b"null", b'""', b"[]", b"{}"),
        *(b"ping", b"pong", b"keepalive", b"keep-alive", b"heartbeat"),
    }
)

_LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def add_texts(facts: ResponseFacts, texts: Iterable[object]) -> None:
    """
    Add the generated *texts* of one event; what is no string, or empty, is none.

    No report covers text that comes after it, and the answer goes on: another
    choice may have been finished before.
    """
    before = facts.text_bytes
    for text in texts:
        if isinstance(text, str) and text:
            _add_text(facts, text)
    if facts.text_bytes > before:
        facts.deltas += 1
        facts.usage_final = False
        facts.finished = facts.ended = False


def note_strange(
    facts: ResponseFacts, members: Mapping[str, object], known: AbstractSet[str]
) -> None:
    """
    Take note if *members*, of which nothing was read, have more than *known* ones.

    What is empty, a flag or a number is no text. Nor is there any in what only keeps a
    connection alive.
    """
    if members.get("type") in KEEP_ALIVE:
        return
    facts.strange = facts.strange or any(
        name not in known and isinstance(value, str | list | dict) and bool(value)
        for name, value in members.items()
    )


def note_strange_data(facts: ResponseFacts, data: bytes) -> None:
    """Take note of an event's *data* that is no object, if it is more than a ping."""
    data = data.strip()
    nothing = data.lower() in _KEEP_ALIVE_WORDS or _END.startswith(data)
    if not nothing and not data.startswith(b":"):
        facts.strange = True


def name_model(facts: ResponseFacts, name: object) -> None:
    """Take *name* as the provider's name for the model, if it can be a label."""
    if (
        isinstance(name, str)
        and 0 < len(name) <= MAX_MODEL_CHARS
        and name.isprintable()
    ):
        facts.model = name


def name_tier(facts: ResponseFacts, name: object) -> None:
    """
    Take *name* as the tier of service; null says nothing.

    What can't be a label is ``"other"``: a tier that nobody has prices for, and not
    the default one.
    """
    if name is not None:
        is_label = isinstance(name, str) and _LABEL.fullmatch(name)
        facts.service_tier = str(name) if is_label else "other"


def name_error(facts: ResponseFacts, *names: object) -> None:
    """
    Take the first of *names* that can be a label, else just ``"error"``.

    Providers put prose and requests' own words into errors: none of it is kept.
    """
    for name in names:
        if isinstance(name, str) and _LABEL.fullmatch(name):
            facts.error = name
            return
    facts.error = "error"


def figure(value: object) -> int | None:
    """
    Return *value* if it is a number of tokens, else None: unknown.

    Strings, booleans, fractions, NaN and what no answer can use are unknown.
    """
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    return None


def is_absurd(report: Mapping[str, object]) -> bool:
    """Tell if *report* or its details count more tokens than any answer can use."""
    details = (value for value in report.values() if isinstance(value, dict))
    return any(
        type(value) is int and value > MAX_TOKENS
        for figures in (report, *details)
        for name, value in figures.items()
        if name.endswith("_tokens")  # beside them may be prices and times
    )


def _add_text(facts: ResponseFacts, text: str) -> None:
    text, size_bytes = _encodable(text)
    room = MAX_RETAINED_BYTES - facts.text_bytes
    if size_bytes <= room:
        facts.texts.append(text)
    elif room > 0:
        facts.texts.append(text.encode()[:room].decode("utf-8", "ignore"))
    facts.text_bytes += size_bytes


def _encodable(text: str) -> tuple[str, int]:
    """Return *text* with its size; half surrogate pairs, from JSON escapes, go."""
    if text.isascii():
        return text, len(text)
    encoded = text.encode("utf-8", "replace")
    return encoded.decode(), len(encoded)
