"""
What pictures, sounds and files cost, in input tokens.

Pictures: by the providers' published rules, from the size in pixels. A picture
whose size is unknown (a URL is never fetched) costs the most that its rule gives.

Sounds: seconds by the model's rate. WAV says how many bytes a second has; for
what is compressed, 64 kbit/s are assumed, the lowest rate that is common.

Files: a PDF's bytes are mostly fonts and pictures, so they say little about its
pages. A page, and a token for each KiB, is a middle that refuses no request that
would have fitted; what it is short of becomes debt once the usage is reported.
Plain text, which does show, costs a token for each three bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from tokenweir.core.dialects.base import Media, MediaKind
from tokenweir.core.media_size import PixelSize, bytes_per_second, pixel_size

# Of a sound whose header does not tell.
_COMPRESSED_BYTES_PER_SECOND = 8_000
# Of a sound behind a URL or an id: one minute.
_UNKNOWN_SECONDS = 60

# One page of a PDF, as text and as a picture.
_PAGE_TOKENS = 1_000
_FILE_BYTES_PER_TOKEN = 1_024
_TEXT_BYTES_PER_TOKEN = 3
# Text has white space at least this often. A run of one letter is padding.
_BYTES_PER_SPACE = 100
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\x0c\r"))


class ImageRule(Protocol):
    """How a family of models charges pictures."""

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture; *size* None: the most it can cost."""


@dataclass(frozen=True, slots=True)
class TileRule:
    """
    OpenAI until GPT-5.1: a base, and so much for each tile of 512 pixels.

    The picture is first made to fit into 2048 x 2048 with a short side of 768. So
    there are eight tiles at most.
    """

    base: int
    tile: int

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture."""
        if detail == "low":
            return self.base
        if size is None:
            return self.base + 8 * self.tile
        scale = min(1.0, 2048 / max(size), 768 / min(size))
        across, down = (max(1, math.floor(side * scale)) for side in size)
        return self.base + math.ceil(across / 512) * math.ceil(down / 512) * self.tile


@dataclass(frozen=True, slots=True)
class PatchLimit:
    """A picture is made to fit: *side* pixels, and *patches* of 32 x 32 pixels."""

    side: int
    patches: int


@dataclass(frozen=True, slots=True)
class PatchRule:
    """
    OpenAI since GPT-5.2, and its small models: patches of 32 x 32, times a factor.

    Attributes:
        factor: Tokens per patch.
        high: The limit unless *detail* says otherwise.
        low: For ``"low"``.
        original: For ``"original"``, if the model knows it.
        full: ``"auto"`` means ``"original"``.
    """

    factor: float
    high: PatchLimit
    low: PatchLimit
    original: PatchLimit | None = None
    full: bool = False

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture."""
        if size is None:
            return math.ceil(self.factor * self._most(detail))
        return math.ceil(self.factor * _patches(size, self._limit(detail)))

    def _limit(self, detail: str | None) -> PatchLimit:
        if detail == "low":
            return self.low
        wants_original = detail == "original" or (self.full and detail != "high")
        return self.original if self.original and wants_original else self.high

    def _most(self, detail: str | None) -> int:
        # A picture of unknown size is not taken for one of the largest, which cost
        # ten times as much, unless the caller asks for them by name.
        named = detail if detail in ("low", "original") else "high"
        limit = self._limit(named)
        return min(limit.patches, math.ceil(limit.side / 32) ** 2)


def _patches(size: PixelSize, limit: PatchLimit) -> int:
    """Count the patches after both reductions, as OpenAI's vision guide does."""
    fit = min(1.0, limit.side / max(size))
    width, height = (max(1, round(side * fit)) for side in size)
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    if patches <= limit.patches:
        return patches
    shrink = math.sqrt(32 * 32 * limit.patches / (width * height))
    across, down = width * shrink / 32, height * shrink / 32
    if min(across, down) < 1:
        return limit.patches
    shrink *= min(math.floor(across) / across, math.floor(down) / down)
    across, down = math.floor(width * shrink), math.floor(height * shrink)
    return math.ceil(across / 32) * math.ceil(down / 32)


@dataclass(frozen=True, slots=True)
class CellRule:
    """
    Anthropic: a token for each cell of 28 x 28 pixels.

    The picture is first made to fit: *side* pixels, and *most* tokens.
    """

    side: int
    most: int

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture. *detail* changes nothing."""
        del detail
        if size is None:
            return self.most
        fit = min(1.0, self.side / max(size))
        across, down = (math.ceil(max(1, side * fit) / 28) for side in size)
        return min(self.most, across * down)


def media_tokens(media: Media, images: ImageRule, audio_tokens_per_second: int) -> int:
    """Return the input tokens of one part that is no text; at least 1."""
    if media.kind is MediaKind.IMAGE:
        tokens = images.tokens(pixel_size(media.head), media.detail)
    elif media.kind is MediaKind.AUDIO:
        tokens = math.ceil(_seconds(media) * audio_tokens_per_second)
    else:
        tokens = _file_tokens(media)
    return max(1, tokens)


def _seconds(media: Media) -> float:
    if not media.size_bytes:
        return _UNKNOWN_SECONDS
    rate = bytes_per_second(media.head) or _COMPRESSED_BYTES_PER_SECOND
    return media.size_bytes / rate


def _file_tokens(media: Media) -> int:
    if _is_text(media.head):
        return math.ceil(media.size_bytes / _TEXT_BYTES_PER_TOKEN)
    return _PAGE_TOKENS + media.size_bytes // _FILE_BYTES_PER_TOKEN


def _is_text(head: bytes) -> bool:
    if not head or head.startswith(b"%PDF") or head.translate(None, _CONTROLS) != head:
        return False
    spaces = len(head) - len(head.translate(None, b" \n"))
    return spaces * _BYTES_PER_SPACE >= len(head)
