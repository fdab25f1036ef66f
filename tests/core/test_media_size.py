"""Sizes out of headers."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.media_size import pixel_size

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02"
GIF = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\xf7"


def segment(kind: int, content: bytes) -> bytes:
    """Return one JPEG segment."""
    return bytes((0xFF, kind)) + struct.pack(">H", len(content) + 2) + content


FRAME = segment(0xC2, b"\x08" + struct.pack(">HH", 480, 640) + b"\x03")
JPEG = (
    b"\xff\xd8"
    + segment(0xE0, b"JFIF\0\x01\x01")
    + segment(0xC4, b"a Huffman table is no frame")
    + b"\xff\x01\xff"  # a bare marker, then a fill byte
    + FRAME
)


def webp(chunk: bytes) -> bytes:
    """Return a WebP file of one chunk."""
    return b"RIFF\0\0\0\0WEBP" + chunk


VP8 = webp(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 1 << 14, 480))
VP8L = webp(b"VP8L\0\0\0\0\x2f" + struct.pack("<I", 639 | 479 << 14))
VP8X = webp(b"VP8X\x0a\0\0\0\x10\0\0\0" + (639).to_bytes(3, "little") + b"\xdf\x01\0")


def boxes(brand: bytes, *sizes: tuple[int, int]) -> bytes:
    """Return the beginning of a HEIC or AVIF file: its pictures' sizes."""
    head = b"\0\0\0\x18ftyp" + brand + b"\0" * 12 + b"meta\0\0\0\0ipco"
    return head + b"".join(
        b"\0\0\0\x14ispe\0\0\0\0" + struct.pack(">II", *size) for size in sizes
    )


AVIF = boxes(b"avif", (640, 480))
# A tile, the whole, a preview.
HEIC = boxes(b"heic", (512, 512), (640, 480), (320, 240)).replace(
    struct.pack(">II", 512, 512), struct.pack(">II", 512, 480)
)
BMP = b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 640, -480)

FORMATS = pytest.mark.parametrize(
    "head",
    [PNG, GIF, JPEG, VP8, VP8L, VP8X, AVIF, BMP],
    ids=["png", "gif", "jpg", "8", "L", "X", "avif", "bmp"],
)


@FORMATS
def test_size_is_read(head: bytes) -> None:
    """Each format says 640 x 480, and what follows does not matter."""
    assert pixel_size(head) == (640, 480)
    assert pixel_size(head + b"\xff" * 100) == (640, 480)


@FORMATS
def test_a_header_that_is_cut_has_no_size(head: bytes) -> None:
    """Wherever a header ends too early, the size is unknown or right, never wrong."""
    sizes = {pixel_size(head[:length]) for length in range(len(head))}

    assert sizes <= {None, (640, 480)}
    assert pixel_size(head[:9]) is None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"BM\0\0",
        b"\0\0\0\x18ftypisom" + AVIF[12:],
        boxes(b"heic", (0, 480)),
        b"%PDF-1.7",
        webp(b"ICCP" + b"\1" * 40),
        PNG.replace(struct.pack(">I", 640), bytes(4)),
        b"\xff\xd8" + b"\0" * 100,
        b"\xff\xd8" + segment(0xE0, b"") * 2_000 + FRAME,
    ],
    ids=[
        "empty",
        "bmp",
        "film",
        "heic",
        "pdf",
        "webp",
        "width 0",
        "no marker",
        "endless",
    ],
)
def test_what_is_no_picture_has_no_size(head: bytes) -> None:
    """Other formats, nonsense and headers that are made to keep us busy: unknown."""
    assert pixel_size(head) is None


@given(
    st.sampled_from(
        (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"BM", AVIF[:40])
    ),
    st.binary(),
)
def test_any_bytes_are_read(magic: bytes, rest: bytes) -> None:
    """Whatever bytes: a size above 0 or none."""
    size = pixel_size(magic + rest)

    assert size is None or min(size) > 0


def test_the_largest_picture_of_a_file_counts() -> None:
    """Not a tile of it, nor its preview; of thousands, only the first are looked at."""
    assert pixel_size(HEIC) == (640, 480)
    assert pixel_size(boxes(b"heic", *[(1, 1)] * 64, (640, 480))) == (1, 1)


def test_a_head_that_ends_in_metadata_has_no_size() -> None:
    """A camera's 60 KB before the frame hide it: whoever asks assumes the worst."""
    exif = segment(0xE1, b"Exif\0\0" + b"\0" * 60_000)
    photo = b"\xff\xd8" + exif + FRAME

    assert pixel_size(photo) == (640, 480)
    assert pixel_size(photo[: 48 * 1024]) is None
