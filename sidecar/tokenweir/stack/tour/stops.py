"""The tour's stops about single calls: one that is whole, a stream, one cut short."""

from __future__ import annotations

from tokenweir.core.hold import Outcome
from tokenweir.core.usage import Source
from tokenweir.ledger.live import Record
from tokenweir.stack.tour.books import Forecast
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.client import Answer
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import Trip, brief, header_lines, quoted, usage_of

QUESTION = "What is a weir good for?"
# The mock repeats it, so its answer is long enough to be left in the middle.
LONG_QUESTION = "Repeat after me: a b c d e f g h i j k l m n o p q r s t u v w x y z"
MAX_TOKENS = 60
LONG_MAX_TOKENS = 200
# After so many words the tour hangs up.
ENOUGH_PARTS = 4
# An answer that was over before it could be left is asked for again.
LEAVINGS = 3

_LIMIT_HEADERS = (
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
)


def calls(model: str) -> tuple[Call, Call]:
    """Return the calls of the first two stops."""
    return (
        Call(model, QUESTION, MAX_TOKENS),
        Call(model, LONG_QUESTION, MAX_TOKENS, stream=True),
    )


async def ask(trip: Trip) -> Step:
    """Ask one question."""
    call, _ = calls(trip.ground.model)
    step = Step(
        "ask",
        "Ask",
        "An app asks a model. It has changed two things: the base URL and the key.",
        call.curl,
    )
    trip.teller.begins(step)
    forecast = await trip.books.forecast(call)
    answer, request_id = await trip.ask(step, call)
    step.came = [
        brief(answer),
        *header_lines(answer, *_LIMIT_HEADERS),
        quoted(answer.text) if answer.status == 200 else error_of(answer),
    ]
    step.why += reservation(forecast, call)
    if not _fine(step, answer):
        return step
    record = await trip.account(
        step, request_id, forecast.input_tokens + call.max_tokens
    )
    if record:
        _as_reported(step, answer, usage_of(record).total_tokens)
        _completed(step, record)
    return step


async def stream(trip: Trip) -> Step:
    """Ask for a stream, and look into the ledger while it runs."""
    _, call = calls(trip.ground.model)
    step = Step(
        "stream",
        "Stream",
        "The answer comes in parts, each passed on as it comes. Nobody knows yet how "
        "long it gets, so the most that it may use is held meanwhile.",
        call.curl,
    )
    trip.teller.begins(step)
    forecast = await trip.books.forecast(call)
    held: list[int] = []

    async def look() -> None:
        held.append(await trip.books.reserved(f"{trip.prefix}{trip.calls}"))

    answer, request_id = await trip.ask(step, call, on_first=look)
    step.came = [
        brief(answer),
        f"{len(answer.parts)} parts, the first after {answer.first_seconds:.2f} s",
        quoted(answer.text) if answer.status == 200 else error_of(answer),
    ]
    step.why += reservation(forecast, call)
    if not _fine(step, answer):
        return step
    step.promise("the stream came in one part", kept=len(answer.parts) > 1)
    reserved = held[-1] if held else 0
    if reserved:
        step.why.append(
            f"in flight  after the first part the ledger held {reserved:,} tokens for it"
        )
    record = await trip.account(step, request_id, reserved)
    if record:
        step.why.append(
            "usage      the app did not ask for it; Tokenweir asked the provider, and "
            "took the report out"
        )
        step.promise(
            f"the stream's usage is {record['source']}, not reported by the provider",
            kept=record["source"] == Source.REPORTED,
        )
        _completed(step, record)
    return step


async def hang_up(trip: Trip) -> Step:
    """Leave a stream in its middle."""
    call = Call(trip.ground.model, LONG_QUESTION, LONG_MAX_TOKENS, stream=True)
    step = Step(
        "hang_up",
        "Hang up",
        f"The app leaves in the middle of a stream: here after {ENOUGH_PARTS} words. "
        "What has passed is charged, the rest goes back.",
        f"{call.curl} | head -n 20",
    )
    trip.teller.begins(step)
    forecast = await trip.books.forecast(call)
    for left in reversed(range(LEAVINGS)):
        answer, request_id = await trip.ask(step, call, most_parts=ENOUGH_PARTS)
        step.came = [
            f"{answer.status}, and hung up after {answer.seconds:.2f} s",
            quoted(answer.text) if answer.status == 200 else error_of(answer),
        ]
        if not _fine(step, answer):
            return step
        record = await trip.books.record(request_id)
        if record is None or record["outcome"] != Outcome.COMPLETED or not left:
            break
        trip.charged += usage_of(record).total_tokens
        trip.records.append(record)
        step.why.append("again      the answer was over before the tour could leave it")
    step.why += reservation(forecast, call)
    record = await trip.account(
        step, request_id, forecast.input_tokens + call.max_tokens
    )
    if record:
        step.promise(
            f"the record says that the stream was {record['outcome']}, not cut",
            kept=record["outcome"] == Outcome.CUT,
        )
        usage = usage_of(record)
        step.promise(
            "nothing is charged for what had passed", kept=usage.total_tokens > 0
        )
    return step


def reservation(forecast: Forecast, call: Call) -> list[str]:
    """Return what is taken for *call* before it is forwarded, and of which limit."""
    how = "counted" if forecast.counted else "estimated"
    lines = [
        (
            f"reserved   {forecast.input_tokens + call.max_tokens:,} tokens: "
            f"{forecast.input_tokens:,} of the prompt ({how}), {call.max_tokens:,} of "
            "max_tokens"
        )
    ]
    if forecast.quota:
        lines.append(
            f"of         {forecast.quota}: {forecast.left:,} of {forecast.capacity:,} "
            "tokens were left"
        )
    return lines


def _fine(step: Step, answer: Answer) -> bool:
    step.figures["status"] = answer.status
    return step.promise(f"the answer is {error_of(answer)}", kept=answer.status == 200)


def _as_reported(step: Step, answer: Answer, charged: int) -> None:
    reported = answer.usage.get("total_tokens")
    if reported is not None:
        step.promise(
            f"the provider reported {reported} tokens, and {charged} were charged",
            kept=reported == charged,
        )


def _completed(step: Step, record: Record) -> None:
    step.promise(
        f"the record says that the call was {record['outcome']}, not completed",
        kept=record["outcome"] == Outcome.COMPLETED,
    )


def error_of(answer: Answer) -> str:
    """Return what an answer that is none says."""
    error = answer.body.get("error")
    message = error.get("message") if isinstance(error, dict) else ""
    whose = answer.refusal or "the provider's"
    return f"{answer.status} ({whose}): {message or 'no reason is given'}"
