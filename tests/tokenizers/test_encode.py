"""What encoders have in common."""

from __future__ import annotations

import pytest

from tokenweir.tokenizers.encode import is_the_encoders, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("日本 👩‍🔬", "日本 👩‍🔬"),
        ("a\ud83d", "a\ufffd"),
        ("\udc00\ud800b", "\ufffd\ufffdb"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_whole(text: str, expected: str) -> None:
    """Half a surrogate pair is marked, and two halves that fit are one character."""
    assert whole(text) == expected
    assert whole(text).encode()


def test_whose_fault_it_is() -> None:
    """A panic of Rust's is no Exception, and yet the encoder's; Ctrl-C is nobody's."""
    panic = type("PanicException", (BaseException,), {})

    assert is_the_encoders(ValueError())
    assert is_the_encoders(panic())
    assert not is_the_encoders(KeyboardInterrupt())
