"""
Counting off the event loop, always with an answer, always in time.

Theory of operation: what is short is counted at once, on the loop, in less than
a millisecond. The rest goes to a thread, and there are two lanes of them, so that
an ordinary prompt does not queue behind a pathological one. A call's time begins
when it is made, not when its turn comes: who had to wait for too long is estimated
when it gets there. What is not back by the end is not waited for.

Nothing here raises: a tokenizer that fails must not mean "no limit".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from tokenweir.core.dialects.base import Prompt
from tokenweir.core.estimate import (
    estimate_input,
    prompt_bytes,
    text_bytes,
    text_tokens,
    tools_bytes,
)
from tokenweir.core.model_family import Family, family_for
from tokenweir.core.usage import Source
from tokenweir.tokenizers.text_counter import Budget, TextCounter
from tokenweir.tokenizers.vocabulary import OnFault, Vocabularies

# Counted on the loop: a thread would cost more than it saves. The worst
# characters take 1 ms.
_INLINE_BYTES = 4_000
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
# Of generated text that was dropped, when none was kept to compare it with.
_DROPPED_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class Counted:
    """
    A count.

    Attributes:
        tokens: At least 0.
        source: ``COUNTED`` if our tokenizer counted, ``ESTIMATED`` if arithmetic was
            used for any of it: ratios, media, samples.
    """

    tokens: int
    source: Source


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
    """One call: how much there is to read, and what to do with a `count`."""

    family: Family
    size_bytes: int
    work: Callable[[Callable[[str], int]], int]
    estimated: bool = False


def _ignore(where: str, error: BaseException) -> None:
    del where, error


@dataclass(slots=True)
class TokenCounter:
    """
    Counts prompts and generated texts.

    Attributes:
        max_workers: Threads for long texts; one more counts the others.
        limits: Of each call.
        on_fault: Told what broke; the answer is an estimate then.
        clock: Seconds; any beginning.
    """

    max_workers: int = 1
    limits: CountLimits = CountLimits()
    on_fault: OnFault = _ignore
    clock: Callable[[], float] = time.monotonic
    _vocabularies: Vocabularies = field(init=False)
    _short: ThreadPoolExecutor = field(init=False)
    _long: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._vocabularies = Vocabularies(self.on_fault)
        self._short = ThreadPoolExecutor(1, "tokens-short")
        self._long = ThreadPoolExecutor(self.max_workers, "tokens-long")

    def preload(self, models: Iterable[str]) -> None:
        """
        Load what *models* need, before serving: it takes 0.5 s a vocabulary.

        An end with ``*`` may be left on a name. What can't be loaded is told to
        `on_fault`; its counts are estimates.
        """
        for model in models:
            self._vocabularies.get(family_for(model.removesuffix("*")).vocabulary)

    def close(self) -> None:
        """Let the threads end. Counts that are asked for later are estimates."""
        self._short.shutdown(wait=False)
        self._long.shutdown(wait=False)

    async def count_prompt(
        self, prompt: Prompt, model: str, tokenizer: str | None
    ) -> Counted:
        """
        Return the input tokens of *prompt* for *model*; at least 1.

        *tokenizer* is the policy's name of a family, or None. Never raises.
        """
        family = family_for(model, tokenizer)
        has_media = any(message.media for message in prompt.messages)
        return await self._answer(
            _Job(
                family,
                _lane_bytes(prompt),
                partial(estimate_input, prompt, family),
                estimated=has_media or family.ratios is not None,
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
    ) -> Counted:
        """
        Return the tokens of generated *texts*, the pieces of a stream in order.

        *dropped_bytes*, in UTF-8, were generated too but not kept: they count like
        those that were. Never raises.
        """
        family = family_for(model, tokenizer)
        text = "".join(texts)
        counted = await self._answer(
            _Job(
                family,
                text_bytes(text),
                partial(text_tokens, text, family),
                estimated=bool(dropped_bytes) or family.ratios is not None,
            ),
            partial(_unseen, text_bytes(text)),
        )
        dropped = _dropped(dropped_bytes, counted.tokens, text)
        return Counted(counted.tokens + dropped, counted.source)

    async def _answer(self, job: _Job, unseen: Callable[[], int]) -> Counted:
        time_s = self.limits.time_s
        budget = Budget(
            self.clock() + time_s * _ENCODING_SHARE, self.limits.exact_chars
        )
        loaded = self._vocabularies.loaded(job.family.vocabulary)
        try:
            if loaded and job.size_bytes <= _INLINE_BYTES:
                return self._count(job, budget)
            lane = self._short if job.size_bytes <= _SHORT_BYTES else self._long
            work = lane.submit(self._count, job, budget)
            return await asyncio.wait_for(asyncio.wrap_future(work), time_s)
        except TimeoutError:
            return Counted(unseen(), Source.ESTIMATED)
        except Exception as fault:  # noqa: BLE001  a count must not stop an exchange
            self.on_fault("counting tokens", fault)
            return Counted(unseen(), Source.ESTIMATED)

    def _count(self, job: _Job, budget: Budget) -> Counted:
        encode = self._vocabularies.get(job.family.vocabulary)
        count = TextCounter(encode, budget, self.clock)
        tokens = job.work(count)
        if count.fault is not None:
            self.on_fault("counting tokens", count.fault)
        estimated = job.estimated or count.estimated
        return Counted(tokens, Source.ESTIMATED if estimated else Source.COUNTED)


def _lane_bytes(prompt: Prompt) -> int:
    """Return about what there is to read, as far as the choice of a lane needs it."""
    size_bytes = prompt_bytes(prompt, _SHORT_BYTES)
    if size_bytes > _INLINE_BYTES:
        return size_bytes
    return size_bytes + tools_bytes(prompt.tools, _INLINE_BYTES)


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
