"""What a message is made of, as it is collected part by part."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from tokenweir.core.dialects.base import Media, MediaKind, Message
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.media import (
    is_data_url,
    media_from_base64,
    media_from_url,
)

# Members of parts that nobody here knows which the model does not read, or not
# by these characters.
_NO_TEXT = frozenset(
    {
        "type",
        "id",
        "tool_use_id",
        "file_id",
        "cache_control",
        "signature",
        "authorization_token",
    }
)
# A longer name of a member is no word of an API: it may be a prompt as well.
_MAX_NAME_CHARS = 64
# Members that hold base64, if it looks like that: with some they hold text.
_ENCODED = frozenset({"data", "file_data", "encrypted_content", "encrypted_index"})
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\r\n-]*")
_SHOWN_CHARS = 256


class Content:
    """
    Texts and media of one message.

    Attributes:
        texts: What the model reads, in order.
        media: Parts that are no text.
        calls: How many tools were called.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.media: list[Media] = []
        self.calls = 0

    def add_text(self, text: str) -> None:
        """Add *text*, unless it's empty."""
        if text:
            self.texts.append(text)

    def add_json(self, value: object) -> None:
        """Add *value* as the model reads it: as JSON; strings are taken for JSON."""
        if isinstance(value, str):
            self.add_text(value)
        elif value is not None:
            self.add_text(json_of(value))

    def add_url(self, url: str, kind: MediaKind, detail: object = None) -> None:
        """Add what is behind *url*; a data URL is looked into."""
        known = detail if isinstance(detail, str) else None
        self.media.append(media_from_url(url, kind, known))

    def add_encoded(self, data: str, kind: MediaKind, detail: object = None) -> None:
        """Add the part that *data* holds, as base64 or as a data URL."""
        if is_data_url(data):
            self.add_url(data, kind, detail)
        else:
            known = detail if isinstance(detail, str) else None
            self.media.append(media_from_base64(data, kind, known))

    def add_unknown(self, part: object, *, names: bool = False) -> None:
        """
        Add all strings of a *part* that nobody here knows: it must not be free.

        Data URLs and what is encoded become media. With *names* those of members are
        read as well, as in a schema; long ones are in any case.
        """
        most_chars = 0 if names else _MAX_NAME_CHARS
        waiting: list[tuple[str, Any]] = [("", part)]
        while waiting:
            name, value = waiting.pop()
            if isinstance(value, dict):
                self.texts += (
                    known
                    for known in value
                    if len(known) > most_chars and known not in _NO_TEXT
                )
                waiting.extend(reversed(value.items()))
            elif isinstance(value, list):
                waiting.extend((name, item) for item in reversed(value))
            elif isinstance(value, str) and name not in _NO_TEXT:
                self._add_string(name, value)

    def add_rest(self, holder: Members, known: AbstractSet[str]) -> None:
        """Add what *holder* has beside its *known* members: it must not be free."""
        if holder.keys() <= known:
            return
        for name, value in holder.items():
            if name not in known:
                structured = isinstance(value, dict | list)
                self.add_unknown({name: value}, names=structured)

    def message(self, role: str, name: str | None = None) -> Message:
        """Return it all as a message of *role*."""
        return Message(role, tuple(self.texts), name, tuple(self.media), self.calls)

    def _add_string(self, name: str, value: str) -> None:
        encoded = name in _ENCODED and _BASE64.fullmatch(value, 0, _SHOWN_CHARS)
        if encoded or is_data_url(value):
            self.add_encoded(value, MediaKind.FILE)
        else:
            self.add_text(value)


def json_of(value: object) -> str:
    """Write *value* as JSON."""
    return msgspec.json.encode(value).decode()
