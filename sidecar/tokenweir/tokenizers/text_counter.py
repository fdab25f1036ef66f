"""
Counting one text after the other, within one call's budgets.

Theory of operation: a text is fed to tiktoken in slices. It is quadratic in the
length of a run of one character, and a regular expression of its own gives up on
very long ones with a panic; slices bound both, and cost less than 0.1 % in
accuracy. Past a number of characters only samples are encoded and scaled up, and
past the deadline nothing is: arithmetic, upwards.

Samples are scaled by weight (`text_classes`), not by length, so that a megabyte
of kana behind a megabyte of source code is not taken for either. They lie at
multiples of the golden ratio within their strides: no period of a text falls into
step with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tokenweir.core.text_classes import expected_tokens, upper_tokens
from tokenweir.tokenizers.encode import Encode, is_the_encoders

# The worst characters take 2.5 ms a slice.
SLICE_CHARS = 10_000

# One sample of 1,000 characters in each 16,000: a megabyte in the time of 64 KB.
_SAMPLE_CHARS = 1_000
_STRIDE_CHARS = 16_000
_MIN_SAMPLES = 4
_GOLDEN_RATIO = 0.618_033_988_749_895

# What samples miss is on the safe side.
_SAMPLED_MARGIN = 1.05
_CHARS_PER_TOKEN_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class Budget:
    """
    What one call may spend.

    Attributes:
        deadline_s: By the clock of the counter: after it nothing is encoded.
        exact_chars: Encoded as a whole; what is beyond is sampled.
    """

    deadline_s: float
    exact_chars: int


class TextCounter:
    """
    The `count` of `tokenweir.core.estimate`, for one call in one thread.

    Attributes:
        estimated: Some text was not encoded, or not as a whole.
        fault: What the encoder raised, if it did; texts count upwards since then.
    """

    def __init__(
        self,
        encode: Encode | None,
        budget: Budget,
        clock: Callable[[], float],
    ) -> None:
        self._encode = encode
        self._deadline_s = budget.deadline_s
        self._exact_chars = budget.exact_chars
        self._clock = clock
        self.estimated = False
        self.fault: BaseException | None = None

    def __call__(self, text: str) -> int:
        """Return the tokens of *text*. Does not raise."""
        try:
            tokens = self._tokens(text)
        except BaseException as fault:
            if not is_the_encoders(fault):
                raise
            self.fault, self._encode, tokens = fault, None, None
        if tokens is None:
            self.estimated = True
            return upper_tokens(text)
        return tokens

    def is_late(self) -> bool:
        """Tell if the time is over."""
        return self._clock() >= self._deadline_s

    def _tokens(self, text: str) -> int | None:
        """Return the tokens, or None if there is no encoder or no time."""
        if len(text) <= self._exact_chars or len(text) <= _MIN_SAMPLES * _SAMPLE_CHARS:
            self._exact_chars -= len(text)
            return self._encoded(_slices(text))
        self.estimated = True
        return self._sampled(text)

    def _sampled(self, text: str) -> int | None:
        samples = list(_samples(text))
        encoded = self._encoded(samples)
        if encoded is None:
            return None
        weight = sum(map(expected_tokens, samples))
        scale = expected_tokens(text) / weight
        least = len(text) / _CHARS_PER_TOKEN_AT_MOST
        return math.ceil(max(encoded * scale * _SAMPLED_MARGIN, least))

    def _encoded(self, pieces: list[str] | Iterator[str]) -> int | None:
        tokens = 0
        for piece in pieces:
            if self._encode is None or self.is_late():
                return None
            tokens += len(self._encode(piece))
        return tokens


def _slices(text: str) -> Iterator[str]:
    for start in range(0, len(text), SLICE_CHARS):
        yield text[start : start + SLICE_CHARS]


def _samples(text: str) -> Iterator[str]:
    number = max(_MIN_SAMPLES, -(-len(text) // _STRIDE_CHARS))
    stride = len(text) / number
    for index in range(number):
        offset = index * _GOLDEN_RATIO % 1.0 * (stride - _SAMPLE_CHARS)
        start = int(index * stride + offset)
        yield text[start : start + _SAMPLE_CHARS]
