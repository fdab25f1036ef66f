"""
What pictures, sounds and files cost, in input tokens.

Pictures: by the providers' published rules, from the size in pixels. A picture
whose size is unknown (a URL is never fetched) costs the most that its rule gives.

Sounds and films: seconds (`tokenweir.core.media_sound`) by the model's rate.

Files: a PDF that says at its beginning how many pages it has costs that many: the
picture of a page, and its text. Otherwise its bytes, mostly fonts and pictures, say
little about its pages. A page, and a token for each KiB, is a middle that refuses no
request that would have fitted; what it is short of becomes debt once the usage is
reported. Plain text, which does show, costs a token for each three bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tokenweir.core.dialects.base import FAITHFUL, Media, MediaKind
from tokenweir.core.media_pages import pages_in
from tokenweir.core.media_size import PixelSize, pixel_size
from tokenweir.core.media_sound import (
    film_seconds,
    is_film,
    is_sound,
    sound_seconds,
)

# Of a sound or a film behind a URL or an id: one minute.
_UNKNOWN_SECONDS = 60

# One page of a PDF, as text and as a picture, where there is only the file's size.
_PAGE_TOKENS = 1_000
# A page as most are shown: 150 dots per inch of letter paper; and its text.
_PAGE_SIZE = PixelSize(1_275, 1_650)
_PAGE_TEXT_TOKENS = 600
# No page is smaller, and no provider takes more pages.
_LEAST_PAGE_BYTES = 200
_MAX_PAGES = 1_000
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

    Attributes:
        base: Tokens of any picture.
        tile: And of each tile.
        short: The short side, in pixels.
        faithful: More tokens, where a model that makes pictures keeps to a given one.
    """

    base: int
    tile: int
    short: int = 768
    faithful: int = 0

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture."""
        if detail == "low":
            return self.base
        base = self.base + (self.faithful if detail == FAITHFUL else 0)
        if size is None:
            return base + 4 * math.ceil(self.short / 512) * self.tile
        scale = min(1.0, 2048 / max(size), self.short / min(size))
        across, down = (max(1, math.floor(side * scale)) for side in size)
        return base + math.ceil(across / 512) * math.ceil(down / 512) * self.tile


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


@dataclass(frozen=True, slots=True)
class SquareRule:
    """
    Gemini until 2.5: so much for a small picture, and for each square of a larger one.

    A picture of more than 384 pixels is cut into squares as wide as two thirds of its
    shorter side, between 256 and 768 pixels, and each is shown at 768. It is first made
    to fit into 3072 x 3072, so there are 24 squares at most.
    """

    each: int = 258

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture."""
        if detail is not None and detail.upper().endswith("_LOW"):
            return self.each
        if size is None:
            return self.each * 24
        if max(size) <= 384:
            return self.each
        fit = min(1.0, 3072 / max(size))
        width, height = (max(1, math.floor(side * fit)) for side in size)
        unit = min(768, max(256, math.floor(min(width, height) / 1.5)))
        return self.each * math.ceil(width / unit) * math.ceil(height / unit)


# Gemini's, by the resolution that is asked for.
_RESOLUTIONS = {"LOW": 280, "MEDIUM": 560, "HIGH": 1_120, "ULTRA_HIGH": 2_240}


@dataclass(frozen=True, slots=True)
class ResolutionRule:
    """Gemini since 3: so much for a picture, *usual* unless a resolution is asked for."""

    usual: int = 1_120

    def tokens(self, size: PixelSize | None, detail: str | None) -> int:
        """Return the tokens of one picture. Its size changes nothing."""
        del size
        name = (detail or "").upper().removeprefix("MEDIA_RESOLUTION_")
        return _RESOLUTIONS.get(name, self.usual)


@dataclass(frozen=True, slots=True)
class Rates:
    """
    What a family charges for what is no text.

    Attributes:
        images: The rule for pictures.
        audio: Tokens a second of sound.
        video: Tokens a second of film, its sound included. Most families take none: the
            provider refuses, so little is reserved.
        page: Tokens of a page of a PDF, or None: those of a picture of it, and a text.
    """

    images: ImageRule
    audio: int = 10
    video: int = 60
    page: int | None = None

    @property
    def page_tokens(self) -> int:
        """What a page of a PDF costs."""
        if self.page is not None:
            return self.page
        return self.images.tokens(_PAGE_SIZE, "high") + _PAGE_TEXT_TOKENS


def media_tokens(media: Media, rates: Rates) -> int:
    """Return the input tokens of one part that is no text; at least 1."""
    match _kind_of(media):
        case MediaKind.IMAGE:
            tokens = rates.images.tokens(pixel_size(media.head), media.detail)
        case MediaKind.AUDIO:
            tokens = math.ceil(_seconds(media, sound_seconds) * rates.audio)
        case MediaKind.VIDEO:
            tokens = math.ceil(_seconds(media, film_seconds) * rates.video)
        case _:
            tokens = _file_tokens(media, rates)
    return max(1, tokens)


def _kind_of(media: Media) -> MediaKind:
    """Return what it is; a file, such as one in a tool's result, shows it itself."""
    if media.kind is not MediaKind.FILE:
        return media.kind
    if pixel_size(media.head):
        return MediaKind.IMAGE
    if is_film(media.head):
        return MediaKind.VIDEO
    return MediaKind.AUDIO if is_sound(media.head) else MediaKind.FILE


def _seconds(media: Media, read: Callable[[bytes, int], float]) -> float:
    if not media.size_bytes:
        return _UNKNOWN_SECONDS
    return read(media.head, media.size_bytes)


def _file_tokens(media: Media, rates: Rates) -> int:
    if _is_text(media.head):
        return math.ceil(media.size_bytes / _TEXT_BYTES_PER_TOKEN)
    pages = _pages(media)
    if pages:
        return pages * rates.page_tokens
    return _PAGE_TOKENS + media.size_bytes // _FILE_BYTES_PER_TOKEN


def _pages(media: Media) -> int:
    """Return how many pages a PDF says that it has, as far as its size can be true."""
    if not media.head.startswith(b"%PDF"):
        return 0
    most = min(_MAX_PAGES, 1 + media.size_bytes // _LEAST_PAGE_BYTES)
    return min(pages_in(media.head), most)


def _is_text(head: bytes) -> bool:
    if not head or head.startswith(b"%PDF") or head.translate(None, _CONTROLS) != head:
        return False
    spaces = len(head) - len(head.translate(None, b" \n"))
    return spaces * _BYTES_PER_SPACE >= len(head)
