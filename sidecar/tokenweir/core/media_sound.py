"""
How long a sound or a film is, from its first bytes and its size.

Pure readers of headers: WAV, FLAC, Ogg (Vorbis, Opus), MP3, AAC, MP4. Nothing is decoded,
nothing raises. WAV, FLAC and MP4 say how long they are, the others how many bytes a second
has, more or less. What says neither has the lowest byte rate that is common.

Headers may lie. So no length is believed that its size contradicts: nothing is stored in
fewer than `MIN_BYTES_PER_SECOND`, nor sound in more than `MAX_BYTES_PER_SECOND`.
"""

from __future__ import annotations

MIN_BYTES_PER_SECOND = 750  # 6 kbit/s: Opus at its lowest
MAX_BYTES_PER_SECOND = 384_000  # two channels of 48,000 floats of 32 bits
COMMON_BYTES_PER_SECOND = 8_000  # 64 kbit/s
VOICE_BYTES_PER_SECOND = 3_000  # 24 kbit/s: what Opus is used for
# Films are seldom smaller: 250 kbit/s, a screen that stands still.
FILM_BYTES_PER_SECOND = 32_000
_FILM_MIN_BYTES_PER_SECOND = 4_000

_EBML = b"\x1a\x45\xdf\xa3"
# kbit/s of MPEG 1 and of MPEG 2, layer III, by index.
_MP3_V1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
_MP3_V2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)
_MP3_SYNC_BYTES = 4_096
_MAX_CHUNKS = 32


def sound_seconds(head: bytes, size_bytes: int) -> float:
    """Return how long the sound of *size_bytes* is that begins with *head*."""
    claimed = _claimed(head, size_bytes)
    if claimed is None:
        return size_bytes / (_byte_rate(head) or COMMON_BYTES_PER_SECOND)
    return _believed(claimed, size_bytes, MIN_BYTES_PER_SECOND)


def film_seconds(head: bytes, size_bytes: int) -> float:
    """Return how long the film of *size_bytes* is that begins with *head*."""
    claimed = _movie(head) if head[4:8] == b"ftyp" else None
    if claimed is None:
        return size_bytes / FILM_BYTES_PER_SECOND
    return min(claimed, size_bytes / _FILM_MIN_BYTES_PER_SECOND)


def is_film(head: bytes) -> bool:
    """Tell if a file that begins with *head* is a film: MP4, WebM, AVI, MPEG."""
    if head[4:8] == b"ftyp":
        return head[8:11] != b"M4A" and not is_picture_brand(head[8:12])
    return head.startswith((_EBML, b"\0\0\1\xba")) or (
        head[:4] == b"RIFF" and head[8:12] == b"AVI "
    )


def is_sound(head: bytes) -> bool:
    """Tell if a file that begins with *head* is a sound."""
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return True
    return head.startswith((b"fLaC", b"OggS", b"ID3")) or head[4:11] == b"ftypM4A"


def is_picture_brand(brand: bytes) -> bool:
    """Tell if *brand*, of a file of boxes, is that of a picture: HEIC or AVIF."""
    return brand in (b"avif", b"avis", b"heic", b"heix", b"hevc", b"mif1", b"msf1")


def _believed(claimed: float, size_bytes: int, least_rate: int) -> float:
    least, most = size_bytes / MAX_BYTES_PER_SECOND, size_bytes / least_rate
    return min(max(claimed, least), most)


def _claimed(head: bytes, size_bytes: int) -> float | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return _wav(head, size_bytes)
    if head.startswith(b"fLaC"):
        return _flac(head)
    if head[4:8] == b"ftyp":
        return _movie(head)
    return None


def _wav(head: bytes, size_bytes: int) -> float | None:
    """Look for the format, behind whatever chunks; the rest of the file is sound."""
    position = 12
    for _ in range(_MAX_CHUNKS):
        length = int.from_bytes(head[position + 4 : position + 8], "little")
        if head[position : position + 4] == b"fmt ":
            rate = _little(head, position + 16)
            return size_bytes / rate if rate else None
        position += 8 + length + length % 2
    return None


def _flac(head: bytes) -> float | None:
    """Read STREAMINFO: 20 bits of sample rate, and 36 of samples behind eight more."""
    if len(head) < 26:
        return None
    rate = int.from_bytes(head[18:21], "big") >> 4
    samples = int.from_bytes(head[21:26], "big") & (1 << 36) - 1
    return samples / rate if rate and samples else None


def _movie(head: bytes) -> float | None:
    """Read the movie header, if it stands at the beginning: time scale and length."""
    place = head.find(b"mvhd")
    if place < 0:
        return None
    is_long = head[place + 4 : place + 5] == b"\1"
    scale_at, length = (place + 24, 8) if is_long else (place + 16, 4)
    scale = int.from_bytes(head[scale_at : scale_at + 4], "big")
    field = head[scale_at + 4 : scale_at + 4 + length]
    units = int.from_bytes(field, "big")
    is_known = len(field) == length and 0 < units < (1 << 8 * length) - 1
    return units / scale if scale and is_known else None


def _byte_rate(head: bytes) -> int | None:
    if head.startswith(b"OggS"):
        return _ogg(head)
    if head.startswith(_EBML):  # WebM
        return VOICE_BYTES_PER_SECOND
    return _mp3(head)


def _ogg(head: bytes) -> int | None:
    if head.find(b"OpusHead", 0, 128) >= 0:
        return VOICE_BYTES_PER_SECOND
    vorbis = head.find(b"\1vorbis", 0, 128)
    if vorbis < 0:
        return None
    nominal = _little(head, vorbis + 20)
    if not 8 * MIN_BYTES_PER_SECOND <= nominal <= 8 * MAX_BYTES_PER_SECOND:
        return None
    return nominal // 8


def _mp3(head: bytes) -> int | None:
    """Read the first frame's bit rate: all have it, or it is near the mean."""
    start = 0
    if head.startswith(b"ID3") and len(head) >= 10:
        # Four times seven bits. A picture in there may be longer than what we see.
        for byte in head[6:10]:
            start = start << 7 | byte & 0x7F
        start += 10
    for place in range(start, min(start + _MP3_SYNC_BYTES, len(head) - 3)):
        if head[place] == 0xFF and head[place + 1] & 0xE6 == 0xE2:  # layer III
            table = _MP3_V1 if head[place + 1] & 0x18 == 0x18 else _MP3_V2
            kilobits = table[head[place + 2] >> 4]
            if kilobits:
                return kilobits * 125
    return None


def _little(head: bytes, start: int) -> int:
    field = head[start : start + 4]
    return int.from_bytes(field, "little") if len(field) == 4 else 0
