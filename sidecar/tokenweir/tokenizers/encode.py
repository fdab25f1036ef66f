"""What an encoder is, whoever makes it."""

from __future__ import annotations

from collections.abc import Callable, Sized

Encode = Callable[[str], Sized]
"""Turns a text into its tokens; special ones are text like any other."""


def is_the_encoders(fault: BaseException) -> bool:
    """Tell an error or a panic of an encoder from a wish to stop."""
    return isinstance(fault, Exception) or type(fault).__name__ == "PanicException"


def whole(text: str) -> str:
    """Return *text* with a mark in place of half a surrogate pair, as tiktoken has it."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
