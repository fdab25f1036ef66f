"""What an exchange teaches about estimates, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.examples import SUBJECT, ticket
from tokenweir.core.calibration import Place
from tokenweir.core.dialects.base import (
    Media,
    MediaKind,
    Message,
    Prompt,
    ResponseFacts,
    Tool,
)
from tokenweir.core.dialects.facts import MAX_RETAINED_BYTES
from tokenweir.core.hold import Outcome, Settlement
from tokenweir.core.lesson import (
    MAX_NAME_CHARS,
    Lesson,
    is_comparable,
    lesson_of,
    place_of,
)
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage

USAGE = TokenUsage(input_tokens=40, cached_input_tokens=10, output_tokens=7)
SETTLED = Settlement(USAGE, Source.REPORTED, Outcome.COMPLETED)
PLACE = Place(SUBJECT.tenant, SUBJECT.provider, "upstream", SUBJECT.route)


def asked(**changes: object) -> Ticket:
    """Return the ticket of a prompt of 30 tokens of text."""
    made = replace(
        ticket(), counting_model="upstream", text_tokens=30, tokenizer="qwen"
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def facts(**changes: object) -> ResponseFacts:
    """Return what is known of a whole answer."""
    made = ResponseFacts(usage=USAGE, texts=["Hi", " you"], text_bytes=6)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_whole_exchange() -> None:
    """Input is compared with the estimate before corrections, output with its text."""
    lesson = lesson_of(asked(), facts(), SETTLED)

    assert lesson == Lesson(PLACE, 30, 30, 50, ("Hi", " you"), 7, "qwen")
    assert "Hi" not in repr(lesson)
    assert place_of(SUBJECT, "upstream") == PLACE


@pytest.mark.parametrize(
    ("of", "known", "settled"),
    [
        (asked(counting_model=""), facts(), SETTLED),
        (asked(calibrated=False), facts(), SETTLED),
        (asked(), facts(), replace(SETTLED, source=Source.COUNTED)),
        (asked(), facts(), replace(SETTLED, outcome=Outcome.CUT)),
        (asked(), facts(), replace(SETTLED, flags=(IMPLAUSIBLE_REPORT,))),
        (asked(), facts(usage=None), SETTLED),
        (asked(), facts(hidden=True), SETTLED),
        (asked(text_tokens=0), facts(texts=[]), SETTLED),
        (
            asked(text_tokens=0),
            facts(),
            replace(SETTLED, usage=TokenUsage(input_tokens=5)),
        ),
    ],
)
def test_nothing_is_learned(
    of: Ticket, known: ResponseFacts, settled: Settlement
) -> None:
    """Without a whole report, or if there is what no text accounts for."""
    assert lesson_of(of, known, settled) is None


def test_of_one_side_alone() -> None:
    """A prompt with pictures teaches output only, a long answer input only."""
    of_output = lesson_of(asked(text_tokens=0), facts(), SETTLED)
    tried = lesson_of(asked(choices=2), facts(), SETTLED)
    of_input = lesson_of(asked(), facts(text_bytes=MAX_RETAINED_BYTES + 1), SETTLED)
    heard = replace(SETTLED, usage=replace(USAGE, audio_input_tokens=3))
    of_sound = lesson_of(asked(), facts(), heard)

    assert of_output is not None
    assert (of_output.estimated_input, of_output.reported_output) == (0, 7)
    assert of_input is not None
    assert (of_input.estimated_input, of_input.texts) == (30, ())
    assert of_input.reported_output == 0
    assert tried is not None
    assert (tried.estimated_input, tried.texts) == (30, ())
    assert of_sound is not None
    assert of_sound.estimated_input == 0


HELLO = (Message("user", ("hello",)),)
WEATHER = Tool("weather", "Tells it.", {"type": "object"})


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(HELLO),
        Prompt((Message("tool", ("x",), "a" * MAX_NAME_CHARS),)),
        Prompt(HELLO, (WEATHER, Tool("now", "Tells it."))),
        Prompt(HELLO, (WEATHER,), "weather"),
        Prompt(HELLO, (), "none"),
    ],
)
def test_prompts_that_can_be_compared(prompt: Prompt) -> None:
    """Texts, and tools that are defined here."""
    assert is_comparable(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(HELLO, token_ids=1),
        Prompt(HELLO, is_partial=True),
        Prompt(HELLO, extra_texts=("{}",)),
        Prompt(HELLO, (WEATHER,), "none"),
        Prompt(HELLO, (WEATHER, Tool("web_search"))),
        Prompt((Message("user", ("x",), media=(Media(MediaKind.IMAGE),)),)),
        Prompt((Message("user", ("x",), "a" * (MAX_NAME_CHARS + 1)),)),
        Prompt((*HELLO, Message("", is_guessed=True))),
    ],
)
def test_prompts_that_can_not_be_compared(prompt: Prompt) -> None:
    """The model may read less than is here, or more."""
    assert not is_comparable(prompt)
