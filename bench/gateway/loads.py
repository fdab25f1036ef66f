"""Which requests, on how many connections, and how fast."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

CHUNKS = 100
PROMPT_BYTES = 4_096
BODIES = 16
MAX_TOKENS = 150
MODEL = "gpt-4o-mini"
PATH = "/v1/chat/completions"
KEY = "sk-bench-{number}"
# What `upstream` reports, whatever it was asked.
INPUT_TOKENS, OUTPUT_TOKENS = 1_000, 100
# Of an open-loop load, in all.
PACED_PER_SECOND = 100
PACE_MS, FAST_MS = 10, 2


class Shape(enum.StrEnum):
    """The form of an answer."""

    JSON = "json"
    SSE = "sse"


@dataclass(frozen=True, slots=True)
class Load:
    """
    Attributes:
        name: By which it goes in results.
        shape: Of answers.
        connections: Each has one request at a time.
        per_second: Requests that are due in a second, on all connections together, and
            each is late from that moment on; None: the next one when one has ended.
        chunk_ms: Between the chunks of a stream.
        is_main: Every variant has it; others only those that are compared in full.
    """

    name: str
    shape: Shape
    connections: int
    per_second: float | None = None
    chunk_ms: int = 0
    is_main: bool = False


def _json(connections: int) -> tuple[Load, Load]:
    name = f"json-{connections}"
    return (
        Load(name, Shape.JSON, connections, is_main=connections == 16),
        Load(f"{name}-paced", Shape.JSON, connections, per_second=PACED_PER_SECOND),
    )


def _sse(connections: int) -> Load:
    is_main = connections == 16
    name = f"sse-{connections}-paced"
    return Load(name, Shape.SSE, connections, None, PACE_MS, is_main=is_main)


def _fast(connections: int) -> Load:
    return Load(f"sse-{connections}", Shape.SSE, connections, None, FAST_MS)


LOADS: tuple[Load, ...] = (
    *(load for connections in (1, 16, 64) for load in _json(connections)),
    *(_sse(connections) for connections in (1, 16, 64)),
    *(_fast(connections) for connections in (16, 64)),
)
BY_NAME = {load.name: load for load in LOADS}


def prompt(number: int, size_bytes: int = PROMPT_BYTES) -> str:
    """
    Return a text of *size_bytes* like a person's, the same for each *number*.

    Different ones, since a counter of tokens may know a text again.
    """
    dice = random.Random(number)
    words: list[str] = []
    size = 0
    while size < size_bytes:
        word = dice.choice(_WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:size_bytes]


_WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "that",
    "it",
    "is",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "at",
    "be",
    "this",
    "have",
    "from",
    "or",
    "had",
    "by",
    "not",
    "but",
    "what",
    "all",
    "were",
    "when",
    "we",
    "there",
    "can",
    "an",
    "your",
    "which",
    "their",
    "said",
    "if",
    "will",
    "each",
    "about",
    "how",
    "up",
    "out",
    "them",
    "then",
    "she",
    "many",
    "some",
    "so",
    "these",
    "would",
    "other",
    "into",
    "has",
    "more",
    "two",
    "reservation",
    "gateway",
    "quota",
    "latency",
    "throughput",
    "measurement",
    "administrator",
    "bucket",
    "accounting",
    "provider",
    "tenant",
    "settlement",
    "concurrency",
    "tokens",
    "stream",
    "response",
    "window",
    "observe,",
    "because",
    "therefore.",
    "However,",
    "although;",
    "meanwhile:",
    "yesterday",
    "(tomorrow)",
    "42",
    "1,000",
    "2026",
    "3.14",
    "e.g.",
    "i.e.",
    "naive",
    "cafe",
    "resume",
]
