"""Brotli gives what was encoded, and what stands behind it takes nothing from that."""

from __future__ import annotations

import random

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.codings.base import CodingError
from tokenweir.core.codings.br import Brotli

TEXT = b'data: {"a":1}\n\n' * 20 + bytes(range(256))
BODY = brotli.compress(TEXT)
NOISE = random.Random(5).randbytes(400_000)


def came_of(coding: Brotli, body: bytes, step_bytes: int = 4_096) -> tuple[bytes, bool]:
    """Return what *body* decodes to, and whether it was Brotli to its end."""
    came = b""
    try:
        for at in range(0, len(body), step_bytes):
            for part in coding.decode(body[at : at + step_bytes]):
                came += part
    except CodingError:
        return came, False
    return came, True


@pytest.mark.parametrize("step_bytes", [1, 7, 4_096])
def test_whole(step_bytes: int) -> None:
    """However it is cut, it is whole with its last byte and no sooner."""
    coding = Brotli()

    came, fine = came_of(coding, BODY[:-1], step_bytes)
    assert fine
    assert (coding.streams, coding.whole) == (0, False)
    assert came + came_of(coding, BODY[-1:])[0] == TEXT
    assert (coding.streams, coding.whole) == (1, True)
    assert came_of(Brotli(), BODY, step_bytes) == (TEXT, True)


def test_nothing() -> None:
    """No bytes are no Brotli yet; and none behind the end are no fault."""
    coding = Brotli()

    assert came_of(coding, b"") == (b"", True)
    assert list(coding.decode(b"")) == []
    assert not coding.whole
    assert came_of(coding, BODY) == (TEXT, True)
    assert list(coding.decode(b"")) == []
    assert coding.whole


@pytest.mark.parametrize("quality", [1, 5])
@pytest.mark.parametrize("text", [NOISE, b"a" * 1_000_000, NOISE[:9] * 9_000])
def test_much(text: bytes, quality: int) -> None:
    """What is much comes in pieces, all of it."""
    coding = Brotli()
    body = brotli.compress(text, quality=quality)
    pieces = [
        part
        for at in range(0, len(body), 4_096)
        for part in coding.decode(body[at : at + 4_096])
    ]

    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 64 * 1024
    assert coding.whole


@given(st.binary(min_size=1, max_size=9), st.integers(1, 900))
def test_what_stands_behind(rest: bytes, step_bytes: int) -> None:
    """What stands behind the end is told, and what stood before it has come."""
    assert came_of(Brotli(), BODY + rest, step_bytes) == (TEXT, False)


def test_what_stands_behind_much() -> None:
    """Above some size nothing is read twice: the last piece is lost with its fault."""
    body = brotli.compress(NOISE, quality=1)
    came, fine = came_of(Brotli(), body + b"garbage")

    assert not fine
    assert len(NOISE) - 5_000 < len(came) < len(NOISE)
    assert NOISE.startswith(came)


def test_another_fault() -> None:
    """What goes wrong in the middle is told, and what stood before it has come."""
    body = brotli.compress(NOISE[:5_000], quality=1)
    came, fine = came_of(Brotli(), body[:4_500] + b"\xff" * 600)

    assert not fine
    assert NOISE.startswith(came[:4_000])


@given(st.binary(max_size=200))
def test_nothing_else_is_raised(body: bytes) -> None:
    """No bytes whatever make it raise anything else."""
    came_of(Brotli(), body)
    came_of(Brotli(), BODY[:30] + body)
