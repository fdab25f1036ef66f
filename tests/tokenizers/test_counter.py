"""Counting prompts and texts, in time and without faults."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.examples import policy
from tests.recorded import NEEDS_RECORDINGS, recordings
from tests.tokenizers.files import write_tokenizer
from tokenweir.core.calibration import (
    Learned,
    Place,
    Side,
    correction_of,
    merged,
    sample_of,
)
from tokenweir.core.counting import Hints
from tokenweir.core.dialects import dialect_of
from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.estimate import InputEstimate, estimate_parts
from tokenweir.core.model_family import CL100K, O200K
from tokenweir.core.tokenize_server import TokenizeServer
from tokenweir.core.tokenizer_name import file_name
from tokenweir.core.usage import Source
from tokenweir.tokenizers import counter as counter_module
from tokenweir.tokenizers.counter import (
    Counted,
    CountLimits,
    TokenCounter,
    counted_with,
)
from tokenweir.tokenizers.encode import Encode
from tokenweir.tokenizers.tokenize_server import TokenizeServers
from tokenweir.tokenizers.vocabulary import Vocabularies

# The machine may be as slow as it likes, unless a test is about time.
NO_HURRY = CountLimits(time_s=120.0)


@pytest.fixture(scope="module")
def vocabularies() -> Vocabularies:
    """Both vocabularies, loaded."""
    loaded = Vocabularies(lambda *_: None)
    for name in (O200K, CL100K):
        assert loaded.get(name) is not None
    return loaded


@pytest.fixture
async def tokens(vocabularies: Vocabularies) -> AsyncIterator[TokenCounter]:
    """A counter that has its vocabularies."""
    counter = TokenCounter(limits=NO_HURRY)
    counter._vocabularies = vocabularies
    yield counter
    counter.close()


def ask(*texts: str) -> Prompt:
    """Return a prompt of one user message."""
    return Prompt((Message("user", texts),))


def system(text: str, name: str | None = None) -> Message:
    """Return a system message."""
    return Message("system", (text,), name)


# The example of OpenAI's cookbook, with the count that its API gave.
COOKBOOK = Prompt(
    (
        system(
            "You are a helpful, pattern-following assistant that translates corporate "
            "jargon into plain English."
        ),
        system("New synergies will help drive top-line growth.", "example_user"),
        system(
            "Things working well together will increase revenue.", "example_assistant"
        ),
        system(
            "Let's circle back when we have more bandwidth to touch base on "
            "opportunities for increased leverage.",
            "example_user",
        ),
        system(
            "Let's talk later when we're less busy about how to do better.",
            "example_assistant",
        ),
        *ask(
            "This late pivot means we don't have time to boil the ocean for the client "
            "deliverable."
        ).messages,
    )
)

WEATHER = Tool(
    "get_current_weather",
    "Get the current weather in a given location",
    {
        "type": "object",
        "properties": {
            "location": {
                "type": "string",
                "description": "The city and state, e.g. San Francisco, CA",
            },
            "unit": {
                "type": "string",
                "description": "The unit of temperature to return",
                "enum": ["celsius", "fahrenheit"],
            },
        },
        "required": ["location"],
    },
)
COOKBOOK_TOOLS = Prompt(
    (
        system(
            "You are a helpful assistant that can answer to questions about the "
            "weather."
        ),
        *ask("What's the weather like in San Francisco?").messages,
    ),
    (WEATHER,),
)


@pytest.mark.parametrize(
    ("prompt", "model", "expected"),
    [
        (COOKBOOK, "gpt-4-0613", 129),
        (COOKBOOK, "gpt-4o", 124),
        (COOKBOOK_TOOLS, "gpt-4", 105),
        (COOKBOOK_TOOLS, "gpt-4o-mini", 101),
    ],
)
async def test_published_counts(
    tokens: TokenCounter, prompt: Prompt, model: str, expected: int
) -> None:
    """The published examples have their published counts."""
    assert await tokens.count_prompt(prompt, model, None) == Counted(
        expected, Source.COUNTED
    )


SEARCH = Tool(
    "search",
    "Search the shop",
    {
        "type": "object",
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "description": "What to look for"},
            "limit": {"type": "integer", "description": "At most so many"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "enum": ["new", "used"]},
            },
        },
    },
)
SHIP = Tool(
    "ship",
    "Ship an order",
    {
        "type": "object",
        "properties": {
            "address": {
                "type": "object",
                "description": "Where to",
                "properties": {
                    "street": {"type": "string"},
                    "zip": {"type": "string"},
                    "country": {"type": "string", "enum": ["JP", "US", "DE"]},
                },
                "required": ["street", "zip"],
            },
            "express": {"type": "boolean"},
        },
        "required": ["address"],
    },
)


@pytest.mark.parametrize(
    ("tools", "plain", "with_system"),
    [
        ((SEARCH,), 71, 77),
        ((SHIP,), 78, 84),
        ((SEARCH, SHIP, Tool("cancel")), 127, 133),
    ],
)
async def test_tools_count_as_elsewhere(
    tokens: TokenCounter, tools: tuple[Tool, ...], plain: int, with_system: int
) -> None:
    """An independent implementation has the same counts for the same tools."""
    question = ask("Find me a used bicycle.").messages[0]
    rule = system("You help in a shop.")

    counts = [
        (await tokens.count_prompt(Prompt(messages, tools), "gpt-4o", None)).tokens
        for messages in ((question,), (rule, question))
    ]

    assert counts == [plain, with_system]


async def test_special_tokens_are_text(tokens: TokenCounter) -> None:
    """What looks like a special token in a text is counted as the text it is."""
    counted = await tokens.count_prompt(ask("<|endoftext|>"), "gpt-4o", None)

    assert counted == Counted(3 + 1 + 3 + 7, Source.COUNTED)


async def test_lone_surrogates_do_no_harm(tokens: TokenCounter) -> None:
    """Half a character, which JSON may carry, is counted, short or long."""
    short = await tokens.count_prompt(ask("\ud83d"), "claude-sonnet-4-5", None)
    long = await tokens.count_prompt(ask("\ud83d" * 500_000), "gpt-4o", None)

    assert short.tokens > 7
    assert long.tokens > 62_500


async def test_ids_are_exact(tokens: TokenCounter) -> None:
    """Token ids are counted, not estimated, for any family's input of ids only."""
    assert await tokens.count_prompt(Prompt(token_ids=5), "gpt-4o", None) == Counted(
        5, Source.COUNTED
    )


@pytest.mark.parametrize(
    ("prompt", "model", "tokenizer"),
    [
        (ask("hello"), "claude-sonnet-4-5", None),
        (ask("hello"), "gpt-4o", "qwen"),
        (
            Prompt((Message("user", media=(Media(MediaKind.IMAGE),)),)),
            "gpt-4o",
            None,
        ),
        (ask("word " * 100_000), "gpt-4o", None),
    ],
    ids=["ratio", "policy's ratio", "media", "samples"],
)
async def test_arithmetic_is_told(
    tokens: TokenCounter, prompt: Prompt, model: str, tokenizer: str | None
) -> None:
    """Ratios, media and samples make an estimate of a count."""
    counted = await tokens.count_prompt(prompt, model, tokenizer)

    assert counted.source is Source.ESTIMATED
    assert counted.tokens > 1


@pytest.mark.parametrize("size", [3_000, 12_000, 30_000, 300_000])
async def test_size_changes_the_way_but_not_the_count(
    tokens: TokenCounter, size: int
) -> None:
    """On the loop or in a thread, short or long: a text has the same count."""
    counted = await tokens.count_prompt(ask(" word" * (size // 5)), "gpt-4o", None)

    assert counted == Counted(size // 5 + 7, Source.COUNTED)


HOSTILE = {
    "carets": "^" * 1_000_000,
    "spaces": " " * 1_000_000 + "x",
    "letters": "a" * 1_000_000,
    "lines": "\n" * 1_000_000,
    "specials": "<|endoftext|>" * 80_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_texts_are_not_cheap(tokens: TokenCounter, text: str) -> None:
    """A megabyte of nonsense is at least a token for eight bytes."""
    counted = await tokens.count_prompt(ask(text), "gpt-4o", None)

    assert counted.source is Source.ESTIMATED
    assert counted.tokens >= len(text) / 8


async def test_hostile_texts_do_not_delay_others(tokens: TokenCounter) -> None:
    """Tiny and ordinary prompts are counted while sixteen megabytes wait."""
    release = threading.Event()
    tokens._long.submit(release.wait)
    hostile = [
        asyncio.ensure_future(
            tokens.count_prompt(ask(HOSTILE["letters"]), "gpt-4o", None)
        )
        for _ in range(16)
    ]
    await asyncio.sleep(0)

    tiny = await tokens.count_prompt(ask("hello"), "gpt-4o", None)
    ordinary = await tokens.count_prompt(ask("hello " * 4_000), "gpt-4o", None)
    waiting = sum(not task.done() for task in hostile)
    release.set()
    counts = [counted.tokens for counted in await asyncio.gather(*hostile)]

    assert tiny == Counted(8, Source.COUNTED)
    assert ordinary.source is Source.COUNTED
    assert waiting == 16
    assert min(counts) >= 125_000


async def test_deep_tools_are_counted(tokens: TokenCounter) -> None:
    """A tool schema of a thousand levels raises nothing, and is not free."""
    schema: dict[str, Any] = {}
    for _ in range(1_000):
        schema = {"type": "object", "properties": {"p": schema}}
    prompt = replace(ask("hello"), tools=(Tool("deep", parameters=schema),))

    for model in ("gpt-4o", "claude-sonnet-4-5", "some-model"):
        counted = await tokens.count_prompt(prompt, model, None)

        assert counted.tokens > 1_000


async def test_no_time_means_an_upper_estimate(tokens: TokenCounter) -> None:
    """What is not back in time is not waited for; small texts need no waiting."""
    tokens.limits = CountLimits(time_s=0.0)
    tool = Tool("f", "word " * 2_000)
    prompt = replace(ask("hello " * 2_000), tools=(tool,), token_ids=9)
    counted = await tokens.count_prompt(prompt, "gpt-4o", None)

    assert counted.source is Source.ESTIMATED
    assert 9 + 22_000 / 2 <= counted.tokens <= 9 + 23_000 / 2
    assert (await tokens.count_prompt(ask("hello"), "gpt-4o", None)).tokens >= 8


async def test_a_job_that_waited_too_long_is_estimated(tokens: TokenCounter) -> None:
    """A call's time runs from the call: who comes late to a thread is not encoded."""
    moments = iter([0.0])
    tokens.clock = lambda: next(moments, 1_000.0)

    counted = await tokens.count_prompt(ask("hello " * 4_000), "gpt-4o", None)

    assert counted.source is Source.ESTIMATED
    assert counted.tokens >= 4_000


@pytest.mark.parametrize(
    ("head_bytes", "number", "thread"),
    [(100, 1, "MainThread"), (48 * 1024, 1, "tokens-short"), (100, 30, "tokens-long")],
)
async def test_media_are_looked_into_in_a_thread(
    tokens: TokenCounter,
    monkeypatch: pytest.MonkeyPatch,
    head_bytes: int,
    number: int,
    thread: str,
) -> None:
    """They weigh what there is to be read, and the loop takes what is short."""
    threads = []

    def note(*args: Any) -> InputEstimate:
        threads.append(threading.current_thread().name)
        return estimate_parts(*args)

    monkeypatch.setattr(counter_module, "estimate_parts", note)
    file = Media(MediaKind.FILE, (b"%PDF" * head_bytes)[:head_bytes], head_bytes)
    prompt = Prompt((Message("user", media=(file,) * number),))
    await tokens.count_prompt(prompt, "gpt-4o", None)

    [name] = threads
    assert name.startswith(thread)


@pytest.mark.parametrize(
    ("size", "is_fast", "thread"),
    [
        (3_900, False, "MainThread"),
        (4_100, False, "tokens-short"),
        (15_900, True, "MainThread"),
        (16_100, True, "tokens-short"),
        (64_100, True, "tokens-long"),
    ],
)
async def test_what_takes_no_time_is_counted_on_the_loop(
    tokens: TokenCounter,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    is_fast: bool,
    thread: str,
) -> None:
    """A fast encoder gets through more of it; generated text likewise."""
    threads = []

    def note(*_: object) -> Encode:
        threads.append(threading.current_thread().name)
        return lambda text: range(len(text))

    monkeypatch.setattr(Vocabularies, "get", note)
    monkeypatch.setattr(Vocabularies, "is_fast", lambda *_: is_fast)
    await tokens.count_prompt(ask("a" * size), "gpt-4o", None)
    await tokens.count_texts(["a" * size], "gpt-4o", None)

    assert {name.rpartition("_")[0] or name for name in threads} == {thread}


async def test_media_that_come_too_late_cost_the_most(tokens: TokenCounter) -> None:
    """Once the time is over, nothing is looked into."""
    gif = Media(MediaKind.IMAGE, b"GIF89a\x10\0\x10\0" + b"\0" * 5_000, 10)
    prompt = Prompt((Message("user", media=(gif,)),))
    in_time = await tokens.count_prompt(prompt, "gpt-4o", None)
    moments = iter([0.0])
    tokens.clock = lambda: next(moments, 1_000.0)
    late = await tokens.count_prompt(prompt, "gpt-4o", None)

    assert late.tokens - in_time.tokens >= 1445 - 255


class PanicException(BaseException):
    """As pyo3 has it: no Exception."""


async def test_a_panic_is_an_estimate(
    vocabularies: Vocabularies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tokenizer breaks there still is a limit, and somebody is told."""
    faults: list[tuple[str, str]] = []

    def panic(text: str) -> list[int]:
        raise PanicException(len(text))

    def broken(name: str) -> Encode:
        assert name == O200K
        return panic

    counter = TokenCounter(
        limits=NO_HURRY,
        on_fault=lambda where, fault: faults.append((where, type(fault).__name__)),
    )
    monkeypatch.setattr(counter._vocabularies, "get", broken)

    counted = await counter.count_prompt(ask("hello " * 4_000), "gpt-4o", None)
    counter.close()

    assert counted.source is Source.ESTIMATED
    assert counted.tokens >= 4_000
    assert faults == [("counting tokens", "PanicException")]


async def test_a_fault_of_ours_is_an_estimate(
    tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks in the rules, the prompt is estimated by its size."""
    faults: list[tuple[str, BaseException]] = []
    tokens.on_fault = lambda where, fault: faults.append((where, fault))

    def broken(*_: object) -> int:
        raise RuntimeError

    monkeypatch.setattr(counter_module, "estimate_parts", broken)

    for words in (10, 10_000):
        counted = await tokens.count_prompt(ask("hello " * words), "gpt-4o", None)

        assert counted.source is Source.ESTIMATED
        assert counted.tokens >= 3 * words
    assert [where for where, _ in faults] == ["counting tokens"] * 2


async def test_a_closed_counter_estimates(tokens: TokenCounter) -> None:
    """After the end there is still an answer."""
    tokens.close()

    counted = await tokens.count_prompt(ask("hello " * 4_000), "gpt-4o", None)

    assert counted.source is Source.ESTIMATED
    assert counted.tokens >= 4_000


async def test_cancelling_is_not_swallowed(tokens: TokenCounter) -> None:
    """A caller that goes away takes its call with it."""
    call = asyncio.ensure_future(
        tokens.count_prompt(ask(HOSTILE["letters"]), "gpt-4o", None)
    )
    await asyncio.sleep(0)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_vocabulary_is_loaded_off_the_loop() -> None:
    """Who comes before the vocabulary is counted in a thread, once it is there."""
    counter = TokenCounter(limits=NO_HURRY)

    assert not counter._vocabularies.loaded(O200K)
    counted = await counter.count_prompt(ask("hello"), "gpt-4o", None)
    counter.close()

    assert counted == Counted(8, Source.COUNTED)
    assert counter._vocabularies.loaded(O200K)


def test_preloading_loads_what_models_need() -> None:
    """Names of families may end in a star; each vocabulary is loaded once."""
    counter = TokenCounter()
    counter.preload(["gpt-4-*"])

    assert counter._vocabularies.loaded(CL100K)
    assert not counter._vocabularies.loaded(O200K)
    counter.preload(["gpt-4", "claude-*"])
    counter.close()

    assert counter._vocabularies.loaded(O200K)


async def test_generated_text_has_no_frame(tokens: TokenCounter) -> None:
    """The pieces of a stream are one text, however they were cut."""
    whole = await tokens.count_texts(["Hello, world! How are you?"], "gpt-4o", None)
    pieces = await tokens.count_texts(
        ["Hel", "lo, wor", "ld! How ", "are you", "?"], "gpt-4o", None
    )

    assert whole == pieces == Counted(8, Source.COUNTED)
    assert await tokens.count_texts([], "gpt-4o", None) == Counted(0, Source.COUNTED)


async def test_generated_text_is_carried_over_too(tokens: TokenCounter) -> None:
    """Families without vocabulary have estimates, by ratio."""
    counted = await tokens.count_texts(["Hello, world!"], "claude-opus-4-8", None)

    assert counted.source is Source.ESTIMATED
    assert counted.tokens > 4


@pytest.mark.parametrize(
    ("texts", "dropped_bytes", "expected"),
    [([" word"] * 10, 50, 20), ([" word"] * 10, 1, 11), ([], 50, 17)],
)
async def test_dropped_text_costs_like_kept_text(
    tokens: TokenCounter, texts: list[str], dropped_bytes: int, expected: int
) -> None:
    """What was not kept is charged by the rate of what was, or by a common rate."""
    counted = await tokens.count_texts(
        texts, "gpt-4o", None, dropped_bytes=dropped_bytes
    )

    assert counted == Counted(expected, Source.ESTIMATED)


async def test_generated_text_has_an_estimate_without_time(
    tokens: TokenCounter,
) -> None:
    """A long answer that can't be counted in time is estimated upwards."""
    tokens.limits = CountLimits(time_s=0.0)

    counted = await tokens.count_texts(["word " * 20_000], "gpt-4o", None)

    assert counted == Counted(50_000, Source.ESTIMATED)


# === corrections, files and servers ============================================

PLACE = Place("acme", "vllm", "local-7b", "chat_completions")
DOUBLED = Learned(20, 40_000, 693_147, 2_000, 0)


def recalling(
    vocabularies: Vocabularies, learned: Learned | None, side: Side
) -> TokenCounter:
    """Return a counter that knows what was *learned* at one place."""

    def recall(place: Place, of: Side) -> Learned | None:
        return learned if (place, of) == (PLACE, side) else None

    counter = TokenCounter(limits=NO_HURRY, recall=recall)
    counter._vocabularies = vocabularies
    return counter


async def test_what_was_learned_corrects_text(vocabularies: Vocabularies) -> None:
    """Of the place that it was learned at; media and token ids stay what they are."""
    counter = recalling(vocabularies, DOUBLED, Side.INPUT)
    hints = Hints(PLACE)
    plain = await counter.count_prompt(ask("hello " * 50), "local-7b", None)
    corrected = await counter.count_prompt(ask("hello " * 50), "local-7b", None, hints)
    elsewhere = await counter.count_prompt(
        ask("hello " * 50), "local-7b", None, Hints(replace(PLACE, tenant="globex"))
    )
    ids = await counter.count_prompt(Prompt(token_ids=9), "local-7b", None, hints)

    assert corrected.tokens == pytest.approx(2 * plain.tokens, abs=1)
    assert elsewhere == plain
    assert ids.tokens == 9
    assert corrected.text_tokens == plain.text_tokens == plain.tokens
    counter.close()


async def test_a_correction_makes_a_count_an_estimate(
    vocabularies: Vocabularies,
) -> None:
    """Where a tokenizer counts, a tenth is left alone, and twice as much is not."""
    slight = replace(DOUBLED, mean=50_000)
    for learned, tokens, source in (
        (slight, 8, Source.COUNTED),
        (DOUBLED, 16, Source.ESTIMATED),
    ):
        counter = recalling(vocabularies, learned, Side.INPUT)
        counted = await counter.count_prompt(ask("hello"), "gpt-4o", None, Hints(PLACE))

        assert counted == Counted(tokens, source)
        counter.close()


async def test_what_was_learned_corrects_generated_text(
    vocabularies: Vocabularies,
) -> None:
    """By the factor of outputs, and only if somebody says where it is."""
    counter = recalling(vocabularies, DOUBLED, Side.OUTPUT)
    words = ["hello " * 100]
    plain = await counter.count_texts(words, "local-7b", None)
    corrected = await counter.count_texts(words, "local-7b", None, place=PLACE)

    assert corrected.tokens == pytest.approx(2 * plain.tokens, abs=1)
    assert (await counter.count_texts([], "local-7b", None, place=PLACE)).tokens == 0
    counter.close()


async def test_a_correction_may_be_done_without(vocabularies: Vocabularies) -> None:
    """The policy may say so; and what a prompt was before it is told in any case."""
    counter = recalling(vocabularies, replace(DOUBLED, mean=-693_147), Side.INPUT)
    prompt = ask("hello " * 50)
    halved = await counter.count_prompt(prompt, "local-7b", None, Hints(PLACE))
    off = Hints(PLACE, is_corrected=False)
    plain = await counter.count_prompt(prompt, "local-7b", None, off)

    assert halved.tokens == pytest.approx(plain.tokens / 2, abs=1)
    assert halved.uncorrected == plain.uncorrected == plain.tokens
    counter.close()


async def test_no_correction_makes_generated_text_cheaper(
    vocabularies: Vocabularies,
) -> None:
    """It is counted where nothing was reported, and callers have had a part in both."""
    counter = recalling(vocabularies, replace(DOUBLED, mean=-693_147), Side.OUTPUT)
    words = ["hello " * 100]
    plain = await counter.count_texts(words, "local-7b", None)
    halved = await counter.count_texts(words, "local-7b", None, place=PLACE)
    rest = await counter.count_texts(
        words, "local-7b", None, place=PLACE, dropped_bytes=600
    )

    assert halved.tokens == plain.tokens
    assert rest.tokens == 2 * plain.tokens
    counter.close()


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt((*ask("x").messages, Message("", ("pad",), is_guessed=True))),
        Prompt((Message("user", ("x",), media=(Media(MediaKind.IMAGE),)),)),
        Prompt((Message("user", ("x",)),), token_ids=1),
        Prompt((Message("user", ("x",)),), is_partial=True),
    ],
)
async def test_what_nothing_is_learned_from(
    tokens: TokenCounter, prompt: Prompt
) -> None:
    """Prompts that are not all text, or that the provider adds to."""
    assert (await tokens.count_prompt(prompt, "gpt-4o", None)).text_tokens == 0


async def test_samples_teach_nothing(tokens: TokenCounter) -> None:
    """What was not counted as a whole is no measure."""
    tokens.limits = CountLimits(time_s=120.0, exact_chars=1_000)
    counted = await tokens.count_prompt(ask("hello " * 10_000), "gpt-4o", None)

    assert counted.source is Source.ESTIMATED
    assert counted.text_tokens == 0


async def test_message_tokens(tokens: TokenCounter) -> None:
    """The policy says what a chat template puts around each message."""
    prompt = Prompt((Message("user", ("hello",)), Message("assistant", ("hello",))))
    usual = await tokens.count_prompt(prompt, "gpt-4o", None)
    more = await tokens.count_prompt(prompt, "gpt-4o", None, Hints(message_tokens=10))

    assert more.tokens == usual.tokens + 2 * (10 - 3)


async def test_a_file_counts(tokens: TokenCounter, tmp_path: Path) -> None:
    """In place of the family by the model's name, and as exactly as any tokenizer."""
    pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")
    name = file_name(str(write_tokenizer(tmp_path)))
    tokens.preload(["gpt-4o"], [name])
    counted = await tokens.count_prompt(Prompt((Message("", ("hello",)),)), "x", name)
    written = await tokens.count_texts(["hello"], "x", name)

    assert counted == written == Counted(5, Source.COUNTED)


async def test_a_file_that_is_broken_is_done_without(
    vocabularies: Vocabularies, tmp_path: Path
) -> None:
    """The family by the model's name counts, and what broke is told."""
    faults: list[str] = []
    counter = TokenCounter(
        limits=NO_HURRY, on_fault=lambda where, _: faults.append(where)
    )
    name = file_name(str(tmp_path / "none.json"))
    counter.preload(["x"], [name])
    counted = await counter.count_texts(["hello there"], "x", name)

    assert counted == await counter.count_texts(["hello there"], "x", None)
    assert faults == ["loading a vocabulary"]
    counter.close()


async def test_a_file_that_changes_is_seen(
    tokens: TokenCounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at now and then, beside what is counted meanwhile."""
    looks: list[float] = []
    now_s = [100.0]
    monkeypatch.setattr(tokens._vocabularies, "refresh", lambda: looks.append(now_s[0]))
    tokens.clock = lambda: now_s[0]
    name = file_name(str(tmp_path / "none.json"))
    for moment in (100.0, 101.0, 109.0):
        now_s[0] = moment
        await tokens.count_texts(["x"], "m", name)
    tokens._long.submit(lambda: None).result()

    assert len(looks) == 2


async def test_a_policy_that_changes_is_loaded_beside(tmp_path: Path) -> None:
    """What a new one needs is loaded in a thread; a counter that is closed does not."""
    counter = TokenCounter(limits=NO_HURRY)
    counter.preload_soon(["gpt-4"], [])
    counter._long.submit(lambda: None).result()
    assert counter._vocabularies.loaded(CL100K)

    counter.close()
    counter.preload_soon(["gpt-4"], [])
    name = file_name(str(tmp_path / "none.json"))
    assert (await counter.count_texts(["hello"], "gpt-4", name)).tokens > 0


def test_what_a_policy_is_counted_with() -> None:
    """Names as providers have them, and the tokenizers that it names."""
    known = policy()
    model = replace(next(iter(known.models.values())), tokenizer="file:/t.json")
    names, tokenizers = counted_with(replace(known, models={"a": model}))

    assert (model.upstream_model or model.name) in names
    assert "file:/t.json" in tokenizers


class Told(TokenizeServers):
    """A server that says 77, or nothing."""

    answer: int | None = 77

    async def count(self, *_: object) -> int | None:
        """Say it."""
        return self.answer


async def test_a_server_is_asked_first(tokens: TokenCounter) -> None:
    """What it says is a count; if it says nothing it is counted here."""
    tokens.servers = Told()
    hints = Hints(server=TokenizeServer("http://127.0.0.1:1/tokenize"))
    counted = await tokens.count_prompt(ask("hello"), "gpt-4o", None, hints)
    assert counted == Counted(77, Source.COUNTED)
    assert counted.text_tokens == 0

    Told.answer = None
    assert (await tokens.count_prompt(ask("hello"), "gpt-4o", None, hints)).tokens == 8
    Told.answer = 77
    assert (await tokens.count_prompt(ask("hello"), "gpt-4o", None)).tokens == 8


async def recorded_samples(counter: TokenCounter) -> list[tuple[int, int]]:
    """Return what was estimated of OpenAI's recorded prompts, and what was reported."""
    found = []
    for recording in recordings():
        route = dialect_of(recording.path)
        if recording.request and recording.reported is not None and route is not None:
            request = route.parse_request(recording.request)
            counted = await counter.count_prompt(request.prompt, request.model, None)
            if counted.text_tokens:
                found.append((counted.text_tokens, recording.reported[0]))
    assert len(found) > 8
    return found


def taught(pairs: Iterable[tuple[int, int]]) -> Learned:
    """Return what is learned of estimated and reported tokens."""
    learned: Learned | None = None
    for pair in pairs:
        sample = sample_of(*pair)
        assert sample is not None
        learned = merged(learned, sample, 0)
    assert learned is not None
    return learned


@NEEDS_RECORDINGS
async def test_recorded_reports_leave_exact_counts_alone(tokens: TokenCounter) -> None:
    """However often OpenAI's recorded answers teach, no count of ours is corrected."""
    samples = await recorded_samples(tokens)
    learned = taught(samples * 50)

    assert learned.is_proof
    assert not correction_of(learned, exact=True)


@NEEDS_RECORDINGS
async def test_recorded_reports_make_nothing_worse(tokens: TokenCounter) -> None:
    """An app that always sends the same is estimated as well as before, or better."""
    for estimated, reported in await recorded_samples(tokens):
        correction = correction_of(taught([(estimated, reported)] * 500), exact=True)

        error = abs(correction.of(estimated) - reported)
        assert error <= abs(estimated - reported)
