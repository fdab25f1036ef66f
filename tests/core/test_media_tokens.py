"""Prices of pictures, sounds and files, in tokens."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import FAITHFUL, Media, MediaKind
from tokenweir.core.dialects.media import media_from_url
from tokenweir.core.media_size import PixelSize
from tokenweir.core.media_tokens import (
    CellRule,
    ImageRule,
    PatchLimit,
    PatchRule,
    Rates,
    ResolutionRule,
    SquareRule,
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
SQUARES = SquareRule()
LEVELS = ResolutionRule()
DRAWING = TileRule(65, 129, short=512, faithful=6_240)
RATES = Rates(TILES)


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
        (SQUARES, (384, 384), None, 258),
        (SQUARES, (385, 384), None, 1032),
        (SQUARES, (960, 540), None, 1548),  # the guide's example: six squares
        (SQUARES, (1024, 1024), "MEDIA_RESOLUTION_HIGH", 1032),
        (SQUARES, (4096, 4096), None, 4128),
        (SQUARES, (60_000, 2), None, 3096),
        (SQUARES, (4096, 4096), "MEDIA_RESOLUTION_LOW", 258),
        (SQUARES, None, None, 6192),
        (LEVELS, None, None, 1120),
        (LEVELS, (9, 9), "MEDIA_RESOLUTION_LOW", 280),
        (LEVELS, (9, 9), "media_resolution_ultra_high", 2240),
        (LEVELS, None, "MEDIA_RESOLUTION_UNSPECIFIED", 1120),
        (DRAWING, (1024, 1024), None, 194),
        (DRAWING, (1024, 1536), FAITHFUL, 6563),
        (DRAWING, None, FAITHFUL, 6821),
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
    for rule in (TILES, SMALL_PATCHES, CELLS, SQUARES, LEVELS, DRAWING):
        tokens = rule.tokens(PixelSize(width, height), None)

        assert 0 < tokens <= rule.tokens(None, None)


def image(width: int, height: int) -> bytes:
    """Return the beginning of a PNG."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


WAV = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHII", 16, 1, 1, 16_000, 32_000)
PDF = b"%PDF-1.7\nplain, as the first lines often are"
TEXT = b"A letter,\nand then another.\n"
FLAC = b"fLaC\0\0\0\x22" + b"\0" * 10 + (16_000 << 44 | 160_000).to_bytes(8, "big")
FILM = (
    b"\0\0\0\x10ftypisom\0\0\0\0" + b"mvhd" + struct.pack(">IIIII", 0, 0, 0, 600, 6_000)
)


def pdf(pages: int, form: bytes = b"<</Type /Pages /Kids [1 0 R] /Count %d>>") -> bytes:
    """Return the beginning of a PDF that tells its pages."""
    return PDF + form % pages


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
        (Media(MediaKind.AUDIO, FLAC, 100_000), 100),
        (Media(MediaKind.VIDEO, FILM, 1_000_000), 600),
        (Media(MediaKind.VIDEO), 3_600),
        (Media(MediaKind.VIDEO, b"?", 320_000), 600),
        # What it is shows, whatever it was sent as.
        (Media(MediaKind.FILE, image(1024, 1024), 2_000_000), 765),
        (Media(MediaKind.FILE, FLAC, 100_000), 100),
        (Media(MediaKind.FILE, FILM, 1_000_000), 600),
        # A page: eight hundred pixels wide in six tiles, and six hundred of text.
        (Media(MediaKind.FILE, pdf(3), 100_000), 3 * (765 + 600)),
        (Media(MediaKind.FILE, pdf(3, b"<</Count %d/Type/Pages>>"), 10_000), 4_095),
        (Media(MediaKind.FILE, pdf(3) + pdf(2), 100_000), 4_095),
        (Media(MediaKind.FILE, pdf(0), 1_024_000), 2_000),
        (Media(MediaKind.FILE, pdf(999_999), 1_000), 6 * 1_365),
        (Media(MediaKind.FILE, pdf(999_999), 10**8), 1_000 * 1_365),
    ],
)
def test_media_cost_by_what_they_are(media: Media, tokens: int) -> None:
    """Pictures by pixels, sounds by seconds, files by bytes; nothing is free."""
    assert media_tokens(media, RATES) == tokens


def test_media_never_cost_their_base64() -> None:
    """Two megabytes of whatever cost some thousand tokens at most."""
    for kind in MediaKind:
        media = Media(kind, bytes(48 * 1024), 1_500_000)

        assert 85 <= media_tokens(media, RATES) <= 3_000


def test_a_family_may_have_a_price_for_a_page() -> None:
    """Gemini charges a page as one picture; others for its picture and its text."""
    media = Media(MediaKind.FILE, pdf(10), 100_000)

    assert media_tokens(media, Rates(SQUARES, page=258)) == 2_580
    assert Rates(CELLS).page_tokens == 1568 + 600


@given(
    st.sampled_from(MediaKind),
    st.sampled_from((b"", PDF, WAV, FILM, FLAC, b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")),
    st.binary(max_size=100),
    st.integers(0, 10**7),
    st.sampled_from((None, "low", "high", "original", "MEDIA_RESOLUTION_LOW", "?")),
)
def test_whatever_is_sent_costs_something_within_bounds(
    kind: MediaKind, magic: bytes, rest: bytes, size_bytes: int, detail: str | None
) -> None:
    """Broken, cut or made up: never nothing, never without bounds, never an error."""
    media = Media(kind, magic + rest, max(size_bytes, len(magic + rest)), detail)
    for images in (TILES, PATCHES, CELLS, SQUARES, LEVELS, DRAWING):
        assert 1 <= media_tokens(media, Rates(images)) <= 20_000 + size_bytes


def photo(before: int) -> bytes:
    """Return a JPEG of 1024 x 1024 with so many bytes of metadata before its size."""
    metadata = b"\xff\xe1" + struct.pack(">H", before + 2) + b"\0" * before
    return (
        b"\xff\xd8" + metadata + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 1024, 1024)
    )


GIF = b"GIF89a" + struct.pack("<HH", 1024, 1024) + b"\xf7\0\0" + b"\x21\xf9\x04" * 900
WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x12\0\0\0" + b"\xff\x03\0" * 2 + b"ANIM"
AVIF = (
    b"\0\0\0\x18ftypavis"
    + b"\0" * 12
    + b"ispe\0\0\0\0"
    + struct.pack(">II", 1024, 1024)
)
USUAL, MOST = 765, 1445  # of 1024 x 1024, and of whatever can't be read


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        (image(1024, 1024), USUAL),
        (GIF, USUAL),  # moving pictures: the first
        (WEBP, USUAL),
        (AVIF, USUAL),
        (photo(40_000), USUAL),
        (photo(60_000), MOST),  # its size lies beyond what is looked at
        (image(1 << 31, 1 << 31), USUAL),
        (image(1 << 31, 1), USUAL),
        (image(0, 1024), MOST),
        (image(1024, 1024)[:20], MOST),
        (b"\xff\xd8\xff", MOST),
        (b"<svg/>", MOST),
        (b"", MOST),
    ],
)
@pytest.mark.parametrize(
    "header",
    [
        "data:image/png;base64,{}",
        "data:;base64,{}",
        " data: image/png ; x=1 ;base64,\n {}",
        "DATA:IMAGE/PNG;BASE64,{}",
    ],
)
@pytest.mark.parametrize("encoding", ["plain", "urlsafe", "escaped", "in lines"])
def test_hostile_pictures_cost_what_they_are_or_the_most(
    data: bytes, tokens: int, header: str, encoding: str
) -> None:
    """However it is written: its true price, or the highest; nothing raises."""
    plain = base64.b64encode(data).decode()
    text = {
        "plain": plain,
        "urlsafe": base64.urlsafe_b64encode(data).decode().rstrip("="),
        "escaped": plain.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        "in lines": base64.encodebytes(data).decode(),
    }[encoding]

    media = media_from_url(header.format(text), MediaKind.IMAGE)

    assert media_tokens(media, RATES) == tokens
