"""What a message is made of, as it is collected part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
# Settings of compatible servers that say how is generated, and not what is read: as
# long as there is no text in them.
_SETTINGS = frozenset(
    {
        *("best_of", "dry_multiplier", "ignore_eos", "include_reasoning"),
        *("include_stop_str_in_output", "length_penalty", "min_p", "min_tokens"),
        *("mirostat", "mirostat_eta", "mirostat_tau", "parallel_tool_calls"),
        *("priority", "random_seed", "repetition_penalty", "return_token_ids"),
        *("return_tokens_as_token_ids", "skip_special_tokens", "stop_token_ids"),
        *("spaces_between_special_tokens", "thinking_budget", "top_a", "top_k"),
        *("typical_p", "use_beam_search", "enable_thinking"),
    }
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\r\n-]*")
_SHOWN_CHARS = 256


class Content:
    """
    Texts and media of one message.

    Attributes:
        texts: What the model reads, in order.
        media: Parts that are no text.
        calls: How many tools were called.
        is_guessed: Whether there is anything that nobody here knows.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.media: list[Media] = []
        self.calls = 0
        self.is_guessed = False

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
        self.is_guessed = True
        self._add_strings(part, names=names)

    def add_rest(
        self,
        holder: Members,
        known: AbstractSet[str],
        read: AbstractSet[str] = frozenset(),
    ) -> None:
        """
        Add what *holder* has beside its *known* members: it must not be free.

        Those that are *read* are no guess.
        """
        if holder.keys() <= known:
            return
        for name, value in holder.items():
            if name not in known:
                before = len(self.texts) + len(self.media)
                structured = isinstance(value, dict | list)
                self._add_strings({name: value}, names=structured)
                is_more = len(self.texts) + len(self.media) > before
                is_doubtful = value is not None and name not in _SETTINGS
                self.is_guessed |= name not in read and (is_more or is_doubtful)

    def message(self, role: str, name: str | None = None) -> Message:
        """Return it all as a message of *role*."""
        texts, media = tuple(self.texts), tuple(self.media)
        return Message(role, texts, name, media, self.calls, self.is_guessed)

    def rest(self) -> Iterator[Message]:
        """Yield what a body has besides: a text without a role, that has no frame."""
        if self.texts or self.media or self.is_guessed:
            yield self.message("")

    def _add_strings(self, part: object, *, names: bool) -> None:
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

    def _add_string(self, name: str, value: str) -> None:
        encoded = name in _ENCODED and _BASE64.fullmatch(value, 0, _SHOWN_CHARS)
        if encoded or is_data_url(value):
            self.add_encoded(value, MediaKind.FILE)
        else:
            self.add_text(value)


def json_of(value: object) -> str:
    """Write *value* as JSON."""
    return msgspec.json.encode(value).decode()
