"""Lengths of sounds and films, out of headers."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.media_sound import (
    COMMON_BYTES_PER_SECOND,
    MAX_BYTES_PER_SECOND,
    MIN_BYTES_PER_SECOND,
    film_seconds,
    is_film,
    is_picture_brand,
    is_sound,
    sound_seconds,
)

FMT = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16)
WAV = b"RIFF\0\0\0\0WAVE" + FMT
JUNK_WAV = b"RIFF\0\0\0\0WAVEJUNK" + struct.pack("<I", 27) + b"\0" * 28 + FMT


def flac(rate: int, samples: int) -> bytes:
    """Return the beginning of a FLAC file."""
    figures = rate << 44 | 1 << 41 | 15 << 36 | samples
    return b"fLaC\0\0\0\x22" + b"\0" * 10 + figures.to_bytes(8, "big")


def movie(scale: int, length: int, brand: bytes = b"isom", version: int = 0) -> bytes:
    """Return the beginning of an MP4 file whose header comes first."""
    times = struct.pack(">QQIQ" if version else ">IIII", 0, 0, scale, length)
    header = b"mvhd" + bytes((version, 0, 0, 0)) + times
    return b"\0\0\0\x10ftyp" + brand + b"\0" * 8 + b"moov\0\0\0\x6c" + header


def mp3(second: int, third: int, before: bytes = b"") -> bytes:
    """Return the beginning of an MP3 file."""
    return before + bytes((0xFF, second, third, 0xC4)) + b"\0" * 100


ID3 = b"ID3\x04\0\0\0\0\x02\x01" + b"\xff\xfb" * 128 + b"\0"
OPUS = b"OggS" + b"\0" * 24 + b"OpusHead\1\2"
VORBIS = (
    b"OggS"
    + b"\0" * 24
    + b"\1vorbis"
    + struct.pack("<IBIiii", 0, 2, 48_000, 0, 96_000, 0)
)


@pytest.mark.parametrize(
    ("head", "size_bytes", "seconds"),
    [
        (WAV, 320_000, 10),
        (JUNK_WAV, 320_000, 10),
        (flac(44_100, 441_000), 500_000, 10),
        (movie(1_000, 10_000, b"M4A "), 100_000, 10),
        (movie(1_000, 10_000, b"M4A ", version=1), 100_000, 10),
        (mp3(0xFB, 0x90), 160_000, 10),  # 128 kbit/s
        (mp3(0xF3, 0x40), 40_000, 10),  # MPEG 2, 32 kbit/s
        (mp3(0xFB, 0x90, ID3), 160_000, 10),
        (OPUS, 30_000, 10),
        (VORBIS, 120_000, 10),
        (b"\x1a\x45\xdf\xa3webm", 30_000, 10),
    ],
)
def test_a_length_is_read(head: bytes, size_bytes: int, seconds: float) -> None:
    """Each format says ten seconds, or how many bytes those have."""
    assert sound_seconds(head, size_bytes) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"plain PCM",
        WAV[:24],
        b"RIFF\0\0\0\0WAVE" + b"JUNK\0\0\0\0" * 40 + FMT,
        WAV.replace(struct.pack("<I", 32_000), bytes(4)),
        flac(44_100, 0),
        flac(0, 7),
        flac(44_100, 7)[:25],
        movie(0, 7),
        movie(1_000, 0),
        movie(1_000, 0xFFFF_FFFF),
        movie(1_000, 7)[:-1],
        b"\0\0\0\x10ftypM4A \0\0\0\0mdat",
        mp3(0xFB, 0x00),
        mp3(0xFB, 0xF0),
        mp3(0xFD, 0x90),
        b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + mp3(0xFB, 0x90),
        b"ID3",
        b"OggS" + b"\0" * 24 + b"Speex",
        VORBIS.replace(struct.pack("<i", 96_000), struct.pack("<i", -1)),
        VORBIS[:40],
    ],
)
def test_what_does_not_say_is_taken_for_common(head: bytes) -> None:
    """Cut, broken or unknown headers: the lowest rate that is common."""
    assert sound_seconds(head, 80_000) == 80_000 / COMMON_BYTES_PER_SECOND


def test_no_length_is_believed_that_the_size_contradicts() -> None:
    """Neither years in a kilobyte, nor a moment in a hundred megabytes."""
    assert sound_seconds(flac(1, 10**9), 7_500) == 7_500 / MIN_BYTES_PER_SECOND
    assert sound_seconds(flac(655_350, 1), 10**8) == 10**8 / MAX_BYTES_PER_SECOND
    slow = WAV.replace(struct.pack("<I", 32_000), struct.pack("<I", 1))
    assert sound_seconds(slow, 7_500) == 10


def test_films_are_told_from_sounds_and_pictures() -> None:
    """By what the file says that it is."""
    films = (movie(1, 1), movie(1, 1, b"qt  "), b"\x1a\x45\xdf\xa3", b"\0\0\1\xba")
    others = (
        movie(1, 1, b"M4A "),
        movie(1, 1, b"avif"),
        movie(1, 1, b"heic"),
        WAV,
        b"",
    )

    assert all(map(is_film, (*films, b"RIFF\0\0\0\0AVI ")))
    assert not any(map(is_film, others))
    assert is_picture_brand(b"mif1")
    assert all(map(is_sound, (WAV, OPUS, ID3, flac(1, 1), movie(1, 1, b"M4A "))))
    assert not any(map(is_sound, (*films, b"RIFF\0\0\0\0WEBP", b"%PDF")))


def test_a_film_is_as_long_as_it_says() -> None:
    """Else as long as one that is hardly larger; at most what so few bytes can be."""
    assert film_seconds(movie(600, 6_000), 1_000_000) == 10
    assert film_seconds(movie(600, 6_000_000), 40_000) == 10
    assert film_seconds(b"\x1a\x45\xdf\xa3", 320_000) == 10
    assert film_seconds(b"\0\0\0\x10ftypisom", 320_000) == 10


@given(
    st.sampled_from(
        (b"", WAV[:16], b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\0\0\0\0ftypM4A mvhd")
    ),
    st.binary(max_size=200),
    st.integers(1, 1 << 40),
)
def test_any_bytes_have_a_length_within_bounds(
    magic: bytes, rest: bytes, size_bytes: int
) -> None:
    """Whatever bytes: more than nothing, no more than the size can hold."""
    most = size_bytes / MIN_BYTES_PER_SECOND

    assert 0 < sound_seconds(magic + rest, size_bytes) <= most
    assert 0 <= film_seconds(magic + rest, size_bytes) <= most
