"""The tour's stops about a limit: hit it, read the refusal, wait, succeed."""

from __future__ import annotations

import json
import time

from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.client import Answer
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.stops import LONG_QUESTION, error_of
from tokenweir.stack.tour.trip import (
    MOST_WAIT_SECONDS,
    Trip,
    brief,
    header_lines,
    quoted,
    retry_after,
    usage_of,
)

# Limits that need more than that to be reached are not hit for a demonstration.
MOST_TOKENS = 5_000
# A limit fills while a slow machine thinks: then the call fits, and is made again.
ATTEMPTS = 8
_HEADERS = (
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-tokenweir-refusal",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
)
_NO_REFUSAL = "there was no refusal to go on from"


async def hit(trip: Trip) -> Step:
    """Ask for all that the limit can hold, while a part of it is used."""
    probe = Call(trip.ground.model, LONG_QUESTION, 1)
    forecast = await trip.books.forecast(probe)
    max_tokens = forecast.capacity - forecast.input_tokens
    call = Call(trip.ground.model, LONG_QUESTION, max(1, max_tokens))
    step = Step(
        "limit",
        "Hit the limit",
        f"A call that may use {forecast.capacity:,} tokens: all that "
        f"{forecast.quota or 'the limit'} ever holds. It fits only if nothing of that "
        "is used, and a part is.",
        call.curl,
    )
    trip.teller.begins(step)
    if not forecast.quota or not 0 < max_tokens <= MOST_TOKENS:
        step.request = ""
        step.skipped = (
            f"no limit on tokens applies to this key that {MOST_TOKENS:,} tokens reach"
        )
        return step
    for _ in range(ATTEMPTS):
        request_id = trip.next_id()
        answer = await trip.client.send(call, request_id)
        if answer.status != 200:
            break
        step.why.append("again      it fitted: the limit had filled up meanwhile")
        await _note(trip, request_id)
    step.came = [brief(answer), *header_lines(answer, *_HEADERS)]
    step.why += _shortage(answer)
    step.figures |= {"status": answer.status, "refusal": answer.refusal}
    if step.promise(
        f"the answer is {error_of(answer)} where a 429 of {forecast.quota} was due",
        kept=answer.status == 429 and answer.told.get("quota") == forecast.quota,
    ):
        trip.refused, trip.again = answer, call
    return step


async def read(trip: Trip) -> Step:
    """Read the refusal as a program does."""
    step = Step(
        "refusal",
        "Read the 429",
        "The body has the form of OpenAI's errors, so SDKs raise what they always "
        "raise. Beside it the object tokenweir tells programs what happened.",
    )
    trip.teller.begins(step)
    answer = trip.refused
    if answer is None:
        step.skipped = _NO_REFUSAL
        return step
    error, told = answer.body.get("error", {}), answer.told
    step.came = [
        f"error.type, .code  {error.get('type')}, {error.get('code')}",
        f"error.message      {error.get('message')}",
        *(
            f"tokenweir.{name:<16} {json.dumps(told[name])}"
            for name in _MEMBERS
            if name in told
        ),
    ]
    step.why = [
        "quota      which limit it was, by its id in the policy",
        "used       settled, and not earned back yet",
        "requested  the prompt and all of max_tokens: what the call needs",
        "wait       until so much has come back; SDKs wait that long by themselves",
        "whose      x-tokenweir-refusal is on every answer that is not the provider's",
    ]
    wait_ms = told.get("retry_after_ms")
    step.figures |= {"quota": told.get("quota"), "retry_after_ms": wait_ms}
    seconds = retry_after(answer)
    step.promise("there is no Retry-After in whole seconds", kept=seconds > 0)
    step.promise(
        f"Retry-After ({seconds} s) ends before retry_after_ms ({wait_ms})",
        kept=isinstance(wait_ms, int) and 0 < wait_ms <= seconds * 1_000,
    )
    step.promise(
        "the refusal does not say that waiting helps",
        kept=told.get("retryable") is True
        and answer.headers.get("x-should-retry") == "true",
    )
    return step


async def wait(trip: Trip) -> Step:
    """Wait as long as the refusal says."""
    answer = trip.refused
    seconds = retry_after(answer) if answer else 0
    step = Step(
        "wait",
        "Wait",
        f"Exactly Retry-After: {seconds} s since the refusal came."
        if seconds
        else "Exactly Retry-After.",
    )
    trip.teller.begins(step)
    if answer is None or not seconds:
        step.skipped = _NO_REFUSAL
    elif seconds > MOST_WAIT_SECONDS:
        step.skipped = f"{seconds} s are too long for a tour"
        trip.again = None
    else:
        await trip.wait_until(answer.at + seconds)
        step.figures["waited_seconds"] = seconds
        step.came = [f"waited {time.monotonic() - answer.at:.2f} s since the refusal"]
    return step


async def succeed(trip: Trip) -> Step:
    """Make the refused call again."""
    call = trip.again
    step = Step(
        "success",
        "Succeed",
        "The same call again. Who waits as told, succeeds.",
        call.curl if call else "",
    )
    trip.teller.begins(step)
    if call is None:
        step.skipped = _NO_REFUSAL
        return step
    request_id = trip.next_id()
    answer = await trip.client.send(call, request_id)
    step.came = [brief(answer)]
    step.figures["status"] = answer.status
    if not step.promise(
        f"the answer is {error_of(answer)} though the tour waited as told. Does "
        "somebody else use this key?",
        kept=answer.status == 200,
    ):
        return step
    step.came += [
        *header_lines(answer, "x-ratelimit-remaining-tokens"),
        quoted(answer.text),
    ]
    reserved = (trip.refused.told.get("requested") if trip.refused else 0) or 0
    step.why.append(f"reserved   {reserved:,} tokens: by now the limit was full")
    await trip.account(step, request_id, reserved)
    return step


_MEMBERS = (
    "quota",
    "partition",
    "capacity",
    "rate_per_minute",
    "used",
    "reserved",
    "requested",
    "retry_after_ms",
    "retryable",
)


async def _note(trip: Trip, request_id: str) -> None:
    record = await trip.books.record(request_id)
    if record is not None:
        trip.records.append(record)
        trip.charged += usage_of(record).total_tokens


def _shortage(answer: Answer) -> list[str]:
    """Return why a call did not fit, in the figures of its refusal."""
    told = answer.told
    names = ("requested", "capacity", "used", "reserved", "rate_per_minute")
    figures = [told.get(name) for name in names]
    if not all(isinstance(figure, int) for figure in figures):
        return []
    requested, capacity, used, reserved, rate = (int(figure or 0) for figure in figures)
    missing = requested - (capacity - used - reserved)
    return [
        f"needed     {requested:,} tokens",
        (
            f"left       {capacity - used - reserved:,} of {capacity:,}: {used:,} are used "
            f"and not earned back yet, {reserved:,} are held by calls in flight"
        ),
        f"missing    {missing:,}, and {rate / 60:g} come back a second: so the wait",
        "spent      nothing: the provider was not asked, and nothing was taken",
    ]
