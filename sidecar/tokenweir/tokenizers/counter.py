"""
Counting off the event loop, always with an answer, always in time.

Theory of operation: what is short is counted at once, on the loop, in less than
a millisecond. The rest goes to a thread, and there are two lanes of them, so that
an ordinary prompt does not queue behind a pathological one. A call's time begins
when it is made, not when its turn comes: who had to wait for too long is estimated
when it gets there. What is not back by the end is not waited for.

A model's own server may be asked first (`tokenize_server`), and what is counted here
may be corrected by what was learned (`core.calibration`).

Nothing here raises: a tokenizer that fails must not mean "no limit".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from tokenweir.core.calibration import Learned, Place, Side, correction_of
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.estimate import (
    InputEstimate,
    estimate_parts,
    heads_bytes,
    prompt_bytes,
    text_bytes,
    text_tokens,
    tools_bytes,
)
from tokenweir.core.lesson import is_comparable
from tokenweir.core.model_family import Family, family_for
from tokenweir.core.policy import Policy
from tokenweir.core.tokenizer_name import path_in
from tokenweir.core.usage import Source
from tokenweir.tokenizers.text_counter import Budget, TextCounter
from tokenweir.tokenizers.tokenize_server import TokenizeServers
from tokenweir.tokenizers.vocabulary import OnFault, Vocabularies

# Counted on the loop: a thread would cost more than it saves. The worst characters
# take 1 ms; a fast encoder takes a tenth of the time, carrying over the rest of it.
_INLINE_BYTES = 4_000
_FAST_INLINE_BYTES = 16_000
# What the first lane takes: 15 ms each, with the worst characters.
_SHORT_BYTES = 64_000
# The share of a call's time that may be spent on encoding; the rest is for the
# arithmetic that takes its place.
_ENCODING_SHARE = 0.75

# Of a text that there was no time even to look at. Above all common ones.
_UNSEEN_BYTES_PER_TOKEN = 2
# How much of that is measured: texts tell their length at once, tools do not.
_UNSEEN_TEXT_BYTES = 1 << 40
_UNSEEN_TOOLS_BYTES = 100_000
# Between two looks at tokenizers' files.
_FILES_SECONDS = 5.0
# Of generated text that was dropped, when none was kept to compare it with.
_DROPPED_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class Counted:
    """
    A count.

    Attributes:
        tokens: At least 0.
        source: ``COUNTED`` if our tokenizer counted, ``ESTIMATED`` if arithmetic was
            used for any of it: ratios, media, samples, corrections.
        text_tokens: Of a prompt that is all text and was counted whole, before any
            correction, and that can be compared with a report; else 0.
        uncorrected: Of any prompt, before any correction.
        factor: Of a correction; 1: none.
    """

    tokens: int
    source: Source
    text_tokens: int = field(default=0, compare=False)
    uncorrected: int = field(default=0, compare=False)
    factor: float = field(default=1.0, compare=False)


@dataclass(frozen=True, slots=True)
class CountLimits:
    """
    Bounds of one call.

    Attributes:
        time_s: From the call to its answer.
        exact_chars: What is encoded as a whole; the rest is sampled.
    """

    time_s: float = 0.4
    exact_chars: int = 400_000


@dataclass(slots=True)
class _Job:
    """
    One call.

    Attributes:
        family: Who counts.
        size_bytes: How much there is to read.
        work: What to do with what counts texts.
        learned: For a correction, or None.
        least: Fewer tokens there are not.
        estimated: It is arithmetic, whatever is counted.
        teaches: What comes of it can be compared with a report.
        has_media: There is more to do than to encode.
    """

    family: Family
    size_bytes: int
    work: Callable[[TextCounter], InputEstimate]
    learned: Learned | None
    least: int
    estimated: bool = False
    teaches: bool = False
    has_media: bool = False


Recall = Callable[[Place, Side], Learned | None]
"""Tells what was learned. It takes no time."""


def _ignore(where: str, error: BaseException) -> None:
    del where, error


def _nothing(place: Place, side: Side) -> None:
    del place, side


@dataclass(slots=True)
class TokenCounter:
    """
    Counts prompts and generated texts.

    Attributes:
        max_workers: Threads for long texts; one more counts the others.
        limits: Of each call.
        on_fault: Told what broke; the answer is an estimate then.
        clock: Seconds; any beginning.
        recall: What was learned of estimates.
        servers: Those that can be asked; None: none is.
    """

    max_workers: int = 1
    limits: CountLimits = CountLimits()
    on_fault: OnFault = _ignore
    clock: Callable[[], float] = time.monotonic
    recall: Recall = _nothing
    servers: TokenizeServers | None = None
    _vocabularies: Vocabularies = field(init=False)
    _short: ThreadPoolExecutor = field(init=False)
    _long: ThreadPoolExecutor = field(init=False)
    _next_look: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._vocabularies = Vocabularies(self.on_fault)
        self._short = ThreadPoolExecutor(1, "tokens-short")
        self._long = ThreadPoolExecutor(self.max_workers, "tokens-long")

    def preload(self, models: Iterable[str], tokenizers: Iterable[str] = ()) -> None:
        """
        Load what *models* need, before serving: it takes 0.5 s a vocabulary.

        An end with ``*`` may be left on a name. *tokenizers* are what a policy names;
        files that have changed are loaded anew. What can't be loaded is told to
        `on_fault`; its counts are estimates.
        """
        self._vocabularies.refresh()
        for model in models:
            self._vocabularies.get(family_for(model.removesuffix("*")).vocabulary)
        for tokenizer in tokenizers:
            self._vocabularies.get(self._family("", tokenizer).vocabulary)

    def preload_soon(self, models: Iterable[str], tokenizers: Iterable[str]) -> None:
        """Do the same beside what is counted meanwhile. Does not raise."""
        with contextlib.suppress(RuntimeError):  # it was closed
            self._long.submit(self.preload, [*models], [*tokenizers])

    def close(self) -> None:
        """Let the threads end. Counts that are asked for later are estimates."""
        self._short.shutdown(wait=False)
        self._long.shutdown(wait=False)

    async def count_prompt(
        self,
        prompt: Prompt,
        model: str,
        tokenizer: str | None,
        hints: Hints = NO_HINTS,
    ) -> Counted:
        """
        Return the input tokens of *prompt* for *model*; at least 1.

        *tokenizer* is the policy's name of a family or file, or None; *hints* are what
        else it says. Never raises.
        """
        if self.servers is not None and hints.server is not None:
            tenant = hints.place.tenant if hints.place is not None else ""
            told = await self.servers.count(hints.server, prompt, model, tenant)
            if told is not None:
                return Counted(told, Source.COUNTED)
        family = self._family(model, tokenizer, hints.message_tokens)
        has_media = any(message.media for message in prompt.messages)
        place = hints.place if hints.is_corrected else None
        return await self._answer(
            _Job(
                family,
                _lane_bytes(prompt),
                lambda count: estimate_parts(prompt, family, count, count.is_late),
                self._recalled(place, Side.INPUT),
                1,
                estimated=has_media or family.ratios is not None,
                teaches=is_comparable(prompt),
                has_media=has_media,
            ),
            partial(_unseen_prompt, prompt),
        )

    async def count_texts(
        self,
        texts: Sequence[str],
        model: str,
        tokenizer: str | None,
        *,
        dropped_bytes: int = 0,
        place: Place | None = None,
    ) -> Counted:
        """
        Return the tokens of generated *texts*, the pieces of a stream in order.

        *dropped_bytes*, in UTF-8, were generated too but not kept: they count like
        those that were. *place* is where a correction is looked for. Never raises.
        """
        family = self._family(model, tokenizer)
        text = "".join(texts)
        counted = await self._answer(
            _Job(
                family,
                text_bytes(text),
                lambda count: InputEstimate(text_tokens(text, family, count), 0),
                self._recalled(place, Side.OUTPUT),
                0,
                estimated=bool(dropped_bytes) or family.ratios is not None,
            ),
            partial(_unseen, text_bytes(text)),
        )
        # It is for what nobody has reported, and no correction makes that cheaper.
        tokens = max(counted.tokens, counted.uncorrected)
        dropped = _dropped(dropped_bytes, tokens, text)
        return replace(counted, tokens=tokens + dropped)

    def _family(
        self, model: str, tokenizer: str | None, message_tokens: int | None = None
    ) -> Family:
        """Return who counts for *model*: a file in its family's place, if it is good."""
        family = family_for(model, tokenizer)
        if tokenizer is not None and path_in(tokenizer) is not None:
            self._look_at_files()
            if not self._vocabularies.failed(tokenizer):
                family = replace(family, vocabulary=tokenizer, ratios=None)
        if message_tokens is not None:
            framing = replace(family.framing, message=message_tokens)
            family = replace(family, framing=framing)
        return family

    def _look_at_files(self) -> None:
        """See now and then if files have changed; they are read beside."""
        now = self.clock()
        if now >= self._next_look:
            self._next_look = now + _FILES_SECONDS
            with contextlib.suppress(RuntimeError):  # it was closed
                self._long.submit(self._vocabularies.refresh)

    def _recalled(self, place: Place | None, side: Side) -> Learned | None:
        # Here, on the loop: what was learned is kept there.
        return None if place is None else self.recall(place, side)

    async def _answer(self, job: _Job, unseen: Callable[[], int]) -> Counted:
        time_s = self.limits.time_s
        budget = Budget(
            self.clock() + time_s * _ENCODING_SHARE, self.limits.exact_chars
        )
        try:
            if job.size_bytes <= self._inline_bytes(job):
                return self._count(job, budget)
            lane = self._short if job.size_bytes <= _SHORT_BYTES else self._long
            work = lane.submit(self._count, job, budget)
            # Unlike `wait_for` this lets a call be cancelled that has just been answered.
            async with asyncio.timeout(time_s):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            return Counted(unseen(), Source.ESTIMATED)
        except Exception as fault:  # noqa: BLE001  a count must not stop an exchange
            self.on_fault("counting tokens", fault)
            return Counted(unseen(), Source.ESTIMATED)

    def _inline_bytes(self, job: _Job) -> int:
        """Return the size of what is counted on the loop; -1: nothing, not yet."""
        vocabulary = job.family.vocabulary
        if not self._vocabularies.loaded(vocabulary):
            return -1
        is_fast = self._vocabularies.is_fast(vocabulary) and not job.has_media
        return _FAST_INLINE_BYTES if is_fast else _INLINE_BYTES

    def _count(self, job: _Job, budget: Budget) -> Counted:
        encode = self._vocabularies.get(job.family.vocabulary)
        count = TextCounter(encode, budget, self.clock)
        parts = job.work(count)
        if count.fault is not None:
            self.on_fault("counting tokens", count.fault)
        correction = correction_of(job.learned, exact=job.family.ratios is None)
        text = math.ceil(correction.of(math.ceil(parts.text)))
        is_estimate = job.estimated or count.estimated or bool(correction)
        return Counted(
            max(job.least, parts.other + text),
            Source.ESTIMATED if is_estimate else Source.COUNTED,
            math.ceil(parts.text) if job.teaches and not count.estimated else 0,
            max(job.least, parts.other + math.ceil(parts.text)),
            correction.factor,
        )


def counted_with(policy: Policy) -> tuple[list[str], list[str]]:
    """Return what `TokenCounter.preload` is to load for *policy*."""
    models = (*policy.models.values(), *policy.model_families)
    names = [model.upstream_model or model.name for model in models]
    return names, [model.tokenizer for model in models if model.tokenizer]


def _lane_bytes(prompt: Prompt) -> int:
    """Return about what there is to read, as far as the choice of a lane needs it."""
    size_bytes = prompt_bytes(prompt, _SHORT_BYTES)
    if size_bytes > _FAST_INLINE_BYTES:
        return size_bytes
    # A medium weighs what it takes a thread to look into it; the loop has less time.
    size_bytes += heads_bytes(prompt)
    return size_bytes + tools_bytes(prompt.tools, _FAST_INLINE_BYTES)


def _unseen_prompt(prompt: Prompt) -> int:
    size_bytes = prompt_bytes(prompt, _UNSEEN_TEXT_BYTES)
    size_bytes += tools_bytes(prompt.tools, _UNSEEN_TOOLS_BYTES)
    return prompt.token_ids + max(1, _unseen(size_bytes))


def _unseen(size_bytes: int) -> int:
    return -(-size_bytes // _UNSEEN_BYTES_PER_TOKEN)


def _dropped(dropped_bytes: int, kept_tokens: int, kept: str) -> int:
    """Return the tokens of what was dropped, by the rate of what was kept."""
    if not dropped_bytes:
        return 0
    kept_bytes = len(kept.encode("utf-8", "surrogatepass"))
    if not kept_bytes:
        return -(-dropped_bytes // _DROPPED_BYTES_PER_TOKEN)
    return -(-dropped_bytes * kept_tokens // kept_bytes)
