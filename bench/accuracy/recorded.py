"""Estimates beside usage that a provider has reported, in recorded exchanges."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.accuracy.measure import VOCABULARIES
from tests.recorded import Recording, recordings
from tokenweir.core.dialects import dialect_of
from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.estimate import estimate_input, text_tokens
from tokenweir.core.model_family import Family, family_for
from tokenweir.core.response import ResponseReader
from tokenweir.tokenizers.text_counter import Budget, TextCounter


@dataclass(frozen=True, slots=True)
class Compared:
    """
    One exchange.

    Attributes:
        name: Of the recording.
        estimated_input: From the request.
        input: As reported.
        counted_output: From the text of the answer.
        output: As reported.
        hidden: Those of it that are no text of the answer: thought, or said.
    """

    name: str
    estimated_input: int
    input: int
    counted_output: int
    output: int
    hidden: int


def compared() -> Iterator[Compared]:
    """Yield what was recorded at a provider, as far as usage was reported."""
    for recording in recordings():
        dialect = dialect_of(recording.path, ())
        # Requests are there only with what was recorded; the others are made up.
        if dialect is not None and recording.request:
            yield from _compared(recording, dialect)


def _compared(recording: Recording, dialect: Dialect) -> Iterator[Compared]:
    facts = _facts(recording, dialect)
    if facts.usage is None or not facts.usage_final:
        return
    usage = facts.usage
    try:
        request = dialect.parse_request(recording.request)
    except MalformedRequestError:
        return
    family = family_for(request.model)
    estimated = estimate_input(request.prompt, family, counter_of(family))
    counted = text_tokens("".join(facts.texts), family, counter_of(family))
    hidden = usage.reasoning_tokens + usage.audio_output_tokens
    yield Compared(
        recording.name,
        estimated,
        usage.total_input_tokens,
        counted,
        usage.total_output_tokens,
        hidden,
    )


def _facts(recording: Recording, dialect: Dialect) -> ResponseFacts:
    reader = ResponseReader(
        dialect,
        status=recording.status,
        content_type=recording.content_type,
        content_encoding="",
    )
    reader.feed(recording.response)
    while reader.behind:
        reader.feed(b"")
    reader.end()
    return reader.facts


def counter_of(family: Family) -> TextCounter:
    """Return a counter of texts for *family*, with time enough."""
    vocabulary = VOCABULARIES.get(family.vocabulary)
    return TextCounter(vocabulary, Budget(math.inf, 400_000), time.monotonic)
