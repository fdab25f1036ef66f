"""Prices of pictures, sounds and files, in tokens."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import Media, MediaKind
from tokenweir.core.media_size import PixelSize
from tokenweir.core.media_tokens import (
    CellRule,
    ImageRule,
    PatchLimit,
    PatchRule,
    TileRule,
    media_tokens,
)

TILES = TileRule(85, 170)
PATCHES = PatchRule(
    1.2,
    high=PatchLimit(2048, 2_500),
    low=PatchLimit(512, 256),
    original=PatchLimit(6_000, 10_000),
    full=True,
)
SMALL_PATCHES = PatchRule(1.62, PatchLimit(2048, 6_144), PatchLimit(2048, 6_144))
CELLS = CellRule(1568, 1568)


@pytest.mark.parametrize(
    ("rule", "size", "detail", "tokens"),
    [
        # The first three are the examples of OpenAI's guide.
        (TILES, (1024, 1024), "high", 765),
        (TILES, (2048, 4096), "high", 1105),
        (TILES, (4096, 8192), "low", 85),
        (TILES, (1024, 1024), "auto", 765),
        (TILES, (10, 10), None, 255),
        (TILES, (1, 100_000), None, 765),
        (TILES, None, None, 1445),
        (TILES, None, "low", 85),
        (SMALL_PATCHES, (1024, 1024), None, 1659),
        (SMALL_PATCHES, None, None, 6636),
        (SMALL_PATCHES, (1024, 1024), "original", 1659),
        # Figures that were measured at the provider.
        (PATCHES, (256, 256), "auto", 77),
        (PATCHES, (2560, 1440), "auto", 4320),
        (PATCHES, (3840, 2160), "original", 9792),
        (PATCHES, (4032, 3024), None, 11868),
        (PATCHES, (4032, 3024), "high", 2942),
        (PATCHES, (4032, 3024), "low", 231),
        (PATCHES, (60_000, 7), "high", 77),
        (PATCHES, None, None, 3000),
        (PATCHES, None, "original", 12_000),
        (PATCHES, None, "low", 308),
        (PatchRule(1, PatchLimit(9_000, 10), PatchLimit(1, 1)), (9_000, 1), None, 10),
        (CELLS, (1024, 1024), None, 1369),
        (CELLS, (256, 256), "low", 100),
        (CELLS, (4032, 3024), None, 1568),
        (CELLS, (100_000, 1), None, 56),
        (CELLS, None, None, 1568),
    ],
)
def test_pictures_cost_what_is_published(
    rule: ImageRule, size: tuple[int, int] | None, detail: str | None, tokens: int
) -> None:
    """Each rule gives the published figure for a size and a detail."""
    assert rule.tokens(PixelSize(*size) if size else None, detail) == tokens


@given(st.integers(1, 1 << 32), st.integers(1, 1 << 32))
def test_no_picture_costs_more_than_one_of_unknown_size(
    width: int, height: int
) -> None:
    """An unknown size is the upper bound, and every picture costs something."""
    for rule in (TILES, SMALL_PATCHES, CELLS):
        tokens = rule.tokens(PixelSize(width, height), None)

        assert 0 < tokens <= rule.tokens(None, None)


def image(width: int, height: int) -> bytes:
    """Return the beginning of a PNG."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


WAV = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHII", 16, 1, 1, 16_000, 32_000)
PDF = b"%PDF-1.7\nplain, as the first lines often are"
TEXT = b"A letter,\nand then another.\n"


@pytest.mark.parametrize(
    ("media", "tokens"),
    [
        (Media(MediaKind.IMAGE, image(1024, 1024), 2_000_000), 765),
        (Media(MediaKind.IMAGE, image(1024, 1024), 2_000_000, "low"), 85),
        (Media(MediaKind.IMAGE, b"\0" * 100, 2_000_000), 1445),
        (Media(MediaKind.IMAGE), 1445),
        (Media(MediaKind.AUDIO, WAV, 320_000), 100),
        (Media(MediaKind.AUDIO, b"ID3", 80_000), 100),
        (Media(MediaKind.AUDIO), 600),
        (Media(MediaKind.AUDIO, b"ID3", 1), 1),
        (Media(MediaKind.FILE), 1_000),
        (Media(MediaKind.FILE, PDF, 1_024_000), 2_000),
        (Media(MediaKind.FILE, TEXT, 3_000), 1_000),
        (Media(MediaKind.FILE, b"x" * 1_000, 1_024_000), 2_000),
        (Media(MediaKind.FILE, b"a b\0", 1_024_000), 2_000),
    ],
)
def test_media_cost_by_what_they_are(media: Media, tokens: int) -> None:
    """Pictures by pixels, sounds by seconds, files by bytes; nothing is free."""
    assert media_tokens(media, TILES, 10) == tokens


def test_media_never_cost_their_base64() -> None:
    """Two megabytes of whatever cost some thousand tokens at most."""
    for kind in MediaKind:
        media = Media(kind, bytes(48 * 1024), 1_500_000)

        assert 85 <= media_tokens(media, TILES, 10) <= 3_000
