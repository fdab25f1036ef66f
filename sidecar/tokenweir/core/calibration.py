"""
How far estimates of tokens are off, learned from what providers report.

Each exchange that a provider reports whole is a sample: the logarithm of reported by
estimated tokens, where the estimate is the one before any correction. Its weight is its
size, up to a bound, for in short texts frames count more than words. Samples of a few
seconds make a batch, and batches a moving mean that forgets: what was learned long ago
weighs no more than `MEMORY_WEIGHT`. So the mean is in the middle of the samples, as the
estimates are, and not above them.

Nobody moves it far at once. A sample beyond `ABSURD` is none, all others are clipped to
`LEAST` and `MOST`, a batch weighs at most `BATCH_WEIGHT` and, once there is something to
compare it with, is at most a factor of two away from that. A correction is used from
`MIN_SAMPLES` and `MIN_WEIGHT` on, and for texts that are at most `REACH` times as large as those that it
was learned from: what is beyond counts as if nothing was known.

All arithmetic is on whole numbers that a double holds exactly, in micro-nats (millionths
of a natural logarithm). So `ledger/lua/calibration.lua`, which does the same, comes to
the same.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tokenweir.core.usage import TokenUsage

MICRO = 1_000_000
# The smallest and the largest factor that is learned: one half, and three.
LEAST = -693_147
MOST = 1_098_612
# Reports above eight times the estimate, or below an eighth: not the same text.
ABSURD = 2_079_442
# Once something is known: how far from it a batch may be. A factor of two.
STEP = 693_147

# Tokens of a sample that count: with more of them it would outweigh the others.
SAMPLE_WEIGHT = 2_000
# Tokens of all samples of one batch.
BATCH_WEIGHT = 10_000
# What has been learned weighs as much as so many tokens, at most: twenty large prompts.
MEMORY_WEIGHT = 40_000
# Before it is used: few texts, or short ones, tell of frames more than of words.
MIN_SAMPLES = 5
MIN_WEIGHT = 1_000
MAX_SAMPLES = 10**9
# Sizes of prompts that are told apart.
MAX_SIZE = 100_000
# How many times the size of what it was learned from a text may have.
REACH = 16

# What counts exactly is only corrected if it is off by more than a tenth: by text that
# a server adds, or because the model is not what its name says.
EXACT_TOLERANCE = 95_310
# And on more evidence than what is an estimate anyway.
EXACT_SAMPLES = 20
EXACT_WEIGHT = 4_000


class Side(enum.StrEnum):
    """What was estimated."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where estimates are alike.

    Attributes:
        tenant: Who pays, and chooses the texts: nobody learns from another's.
        provider: As the policy calls it.
        model: As the provider calls it.
        route: Such as ``"chat_completions"``.
    """

    tenant: str
    provider: str
    model: str
    route: str


@dataclass(frozen=True, slots=True)
class Correction:
    """
    What a count is multiplied by.

    Attributes:
        factor: Of the first tokens.
        reach_tokens: How many of them.
    """

    factor: float = 1.0
    reach_tokens: int = 0

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return self.factor != 1.0 and self.reach_tokens > 0

    def of(self, tokens: float) -> float:
        """Return what *tokens* are with it."""
        return tokens + (self.factor - 1.0) * min(tokens, self.reach_tokens)


NO_CORRECTION = Correction()


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Samples of one place and side.

    Attributes:
        samples: How many.
        weight: Of all together, in tokens.
        log_sum: Of their logarithms in micro-nats, each times its weight.
        size_sum: Of their estimated tokens, ditto.
    """

    samples: int
    weight: int
    log_sum: int
    size_sum: int

    def __add__(self, other: Batch) -> Batch:
        return Batch(
            self.samples + other.samples,
            self.weight + other.weight,
            self.log_sum + other.log_sum,
            self.size_sum + other.size_sum,
        )

    @property
    def mean(self) -> int:
        """The logarithm, in micro-nats."""
        return self.log_sum // self.weight

    @property
    def size(self) -> int:
        """The size of a text, in estimated tokens."""
        return self.size_sum // self.weight


@dataclass(frozen=True, slots=True)
class Learned:
    """
    What is known of one place and side.

    Attributes:
        samples: How many there were.
        weight: Of them, up to `MEMORY_WEIGHT`.
        mean: The logarithm of the factor, in micro-nats.
        size: Of the texts that it was learned from, in estimated tokens.
        at_ms: When it was last learned, by the ledger's clock.
    """

    samples: int
    weight: int
    mean: int
    size: int
    at_ms: int

    @property
    def factor(self) -> float:
        """Reported by estimated tokens."""
        return math.exp(self.mean / MICRO)

    @property
    def is_ready(self) -> bool:
        """Whether there is enough of it to correct an estimate."""
        return self.samples >= MIN_SAMPLES and self.weight >= MIN_WEIGHT

    @property
    def is_proof(self) -> bool:
        """Whether there is enough to doubt what was counted exactly."""
        return self.samples >= EXACT_SAMPLES and self.weight >= EXACT_WEIGHT


def ratio_of(estimated: int, reported: int) -> float | None:
    """Return *reported* by *estimated* tokens; None: that can't be told."""
    return reported / estimated if estimated > 0 and reported > 0 else None


def sample_of(estimated: int, reported: int) -> Batch | None:
    """
    Return what is learned if *estimated* tokens were *reported*; None: nothing.

    That is so if one of them is 0, or the report is absurd.
    """
    ratio = ratio_of(estimated, reported)
    if ratio is None:
        return None
    log = round(math.log(ratio) * MICRO)
    if abs(log) > ABSURD:
        return None
    weight = min(estimated, SAMPLE_WEIGHT)
    size = min(estimated, MAX_SIZE)
    return Batch(1, weight, weight * clamp(log, LEAST, MOST), weight * size)


def merged(held: Learned | None, batch: Batch, now_ms: int) -> Learned:
    """Return what is known with *batch*, which is not empty, if *held* was known."""
    mean = clamp(batch.mean, LEAST, MOST)
    size = clamp(batch.size, 1, MAX_SIZE)
    weight = clamp(batch.weight, 1, BATCH_WEIGHT)
    if held is None:
        held = Learned(0, 0, 0, 0, 0)
    if held.samples >= MIN_SAMPLES:
        mean = clamp(mean, held.mean - STEP, held.mean + STEP)
    total = held.weight + weight
    return Learned(
        min(MAX_SAMPLES, held.samples + batch.samples),
        min(MEMORY_WEIGHT, total),
        held.mean + weight * (mean - held.mean) // total,
        held.size + weight * (size - held.size) // total,
        now_ms,
    )


def correction_of(learned: Learned | None, *, exact: bool) -> Correction:
    """Return what follows from what is *learned*; *exact*: a tokenizer counts."""
    if learned is None or not learned.is_ready:
        return NO_CORRECTION
    mean = clamp(learned.mean, LEAST, MOST)
    if exact and (abs(mean) <= EXACT_TOLERANCE or not learned.is_proof):
        return NO_CORRECTION
    return Correction(math.exp(mean / MICRO), REACH * learned.size)


def reported_input(usage: TokenUsage) -> int:
    """
    Return what of *usage* is the text that was sent; 0: that can't be told.

    What came from a cache, or went there, was sent too. Where sound or pictures were
    read, text alone has no figure.
    """
    if usage.audio_input_tokens or usage.image_input_tokens:
        return 0
    return usage.total_input_tokens


def reported_output(usage: TokenUsage) -> int:
    """
    Return what of *usage* is the text that was generated; 0: that can't be told.

    Some show their reasoning and some do not, so where there is any nothing is told.
    """
    unseen = (
        usage.reasoning_tokens + usage.audio_output_tokens + usage.image_output_tokens
    )
    return 0 if unseen else usage.output_tokens


def clamp(value: int, least: int, most: int) -> int:
    """Return *value*, or the bound that it is beyond."""
    return min(max(value, least), most)
