"""
OpenAI's APIs that make or read pictures and sound.

They are metered by what they report. Newer models report tokens; older ones are sold by
the picture, the minute or the character, which nobody here counts: their exchanges are
flagged as unpriced, and refused where a budget of money applies. What is reserved for a
picture is the most that one of its quality has; for speech, twice what it commonly is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import (
    FAITHFUL,
    Edits,
    Media,
    MediaKind,
    ModelRequest,
    Prompt,
    ResponseFacts,
)
from tokenweir.core.dialects.content import Content
from tokenweir.core.dialects.facts import (
    add_texts,
    name_error,
    name_model,
    note_strange,
)
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.form import (
    Part,
    check_type,
    head_of,
    is_form,
    parts_of,
    text_of,
    with_text,
)
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.openai_usage import read_usage
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers, header_list
from tokenweir.core.json_edit import set_member

# OpenAI's limit is ten.
MAX_PICTURES = 10
# Tokens of a picture by quality, at its largest size.
# https://platform.openai.com/docs/guides/image-generation
_PICTURE_TOKENS = {"low": 408, "medium": 1_584}
_MOST_PICTURE_TOKENS = 6_240
# A second of speech has some 15 characters, and some 20 tokens.
_SPEECH_TOKENS_PER_CHAR = 3
_LEAST_SPEECH_TOKENS = 64
# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *("model", "prompt", "input", "instructions", "n", "size", "quality", "style"),
        *("user", "stream", "response_format", "background", "moderation", "voice"),
        *("output_format", "output_compression", "partial_images", "speed"),
        *("input_fidelity", "language", "temperature", "stream_format"),
        *("timestamp_granularities", "include", "chunking_strategy"),
    }
)
# Members of a reply that are read, or that are no text.
_OF_REPLY = frozenset(
    {
        *("data", "text", "delta", "usage", "error", "model", "id", "object"),
        *("words", "segments", "language", "logprobs", "background", "size"),
        *("quality", "output_format"),
    }
)
# Of those, what is no single text in a form.
_SEVERAL = frozenset({"timestamp_granularities", "include", "chunking_strategy"})
# Figures in forms are text.
_DIGITS = re.compile(r"[0-9]{1,9}")
_READ = ("prompt", "input", "instructions")
_PICTURES = frozenset({"image", "mask"})
_FILES = "files"
# Events of streams end so.
_LAST = (".completed", ".done")
_FILE_KINDS = {
    "file": MediaKind.AUDIO,
    "image": MediaKind.IMAGE,
    "mask": MediaKind.IMAGE,
}


class OpenAIMedia(OpenAIApi):
    """
    One of them.

    *route* is the class of its paths; *default_model* answers where a request names
    none, or None: it must. *content_type* is the request's.
    """

    def __init__(
        self, route: str, default_model: str | None = None, content_type: str = ""
    ) -> None:
        self.route = route
        self._default_model = default_model
        self._content_type = content_type

    def sent_with(self, headers: Headers) -> OpenAIMedia:
        """See `OpenAIApi`: the type of a body names the boundary of a form."""
        kind = header_list(headers, "content-type")
        if kind == self._content_type:
            return self
        return OpenAIMedia(self.route, self._default_model, kind)

    def read_members(self, body: bytes) -> Members:
        """Read a form, or JSON. Raises: MalformedRequestError."""
        check_type(body, self._content_type)
        members = _form(body) if is_form(body) else super().read_members(body)
        if members.get("model") is None and self._default_model is not None:
            members["model"] = self._default_model
        return members

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        choices = fields.integer(members, "n", high=MAX_PICTURES) or 1
        return ModelRequest(
            model=model,
            stream=members.get("stream") in (True, "true"),
            output_cap=self._most_tokens(members),
            choices=choices,
            user=fields.user_id(members, "user"),
            wants_usage=True,
            prompt=_prompt(members),
            can_be_capped=False,
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with the model of *edits*; nothing else can be asked for."""
        if edits.model is None:
            return body
        if is_form(body):
            return with_text(body, "model", edits.model)
        return set_member(body, "model", msgspec.json.encode(edits.model))

    def read_reply(self, reply: dict[str, Any], facts: ResponseFacts) -> None:
        """Take a whole reply, or an event; usage that counts seconds says nothing."""
        name_model(facts, reply.get("model"))
        error = reply.get("error")
        if error:
            told = error if isinstance(error, dict) else {}
            name_error(facts, told.get("code"), told.get("type"))
        add_texts(facts, [reply.get("delta")])
        if not facts.deltas:
            add_texts(facts, [reply.get("text")])
        if "type" not in reply:  # as each event has
            note_strange(facts, reply, _OF_REPLY)
        read_usage(reply.get("usage"), facts)
        kind = str(reply.get("type"))
        told_all = facts.usage_final or bool(reply.keys() & {"data", "text"})
        facts.finished = facts.error is None and (told_all or kind.endswith(_LAST))

    def _most_tokens(self, members: Members) -> int | None:
        if self.route == "images":
            quality = fields.string(members, "quality")
            return _PICTURE_TOKENS.get(quality, _MOST_PICTURE_TOKENS)
        if self.route == "speech":
            chars = len(fields.string(members, "input"))
            return _LEAST_SPEECH_TOKENS + chars * _SPEECH_TOKENS_PER_CHAR
        return None


def _form(body: bytes) -> Members:
    members: Members = {}
    files: list[Media] = []
    for part in parts_of(body):
        _check_part(part, members)
        if part.is_file:
            kind = _FILE_KINDS.get(part.name, MediaKind.FILE)
            files.append(Media(kind, head_of(body, part), part.end - part.start))
        else:
            members[part.name] = text_of(body, part)
    fields.check_names(members)
    if _DIGITS.fullmatch(members.get("n", "")):
        members["n"] = int(members["n"])
    members[_FILES] = files
    return members


def _check_part(part: Part, members: Members) -> None:
    """Refuse what is one text in JSON and is more, or a file, in a form."""
    name = part.name.partition("[")[0].lower()
    if name not in _OF_BODY or (name in _SEVERAL and not part.is_file):
        return
    if part.is_file or part.in_brackets or part.name in members:
        text = f"`{name}` must be there once, as a text, and without brackets."
        raise MalformedRequestError(text, name)


def _prompt(members: Members) -> Prompt:
    content = Content()
    for name in _READ:
        content.add_text(fields.string(members, name))
    content.media += members.get(_FILES, [])
    for url in _urls(members):
        content.add_url(url, MediaKind.IMAGE)
    if members.get("input_fidelity") == "high":
        content.media = [replace(one, detail=FAITHFUL) for one in content.media]
    content.add_rest(members, _OF_BODY | _PICTURES | {_FILES, "images", "file"})
    return Prompt((content.message(""),))


def _urls(members: Members) -> Iterator[str]:
    """Yield pictures that are given in JSON: by URL, inside of one, or by an id."""
    for name in ("image", "mask", "images"):
        found = members.get(name)
        for item in found if isinstance(found, list) else [found]:
            given = item
            if isinstance(item, dict):
                given = item.get("image_url") or item.get("file_id")
            if isinstance(given, str):
                yield given
