"""The tour's last stop: what the ledger has of it."""

from __future__ import annotations

from tokenweir.core.policy import Axis
from tokenweir.extproc.budget_wording import amount
from tokenweir.ledger.live import Record
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import Trip, usage_of

_ROW = "{:<4} {:>5} {:>5}  {:<10} {:<10} {}"


async def see(trip: Trip) -> Step:
    """Look at the records of the tour, and that nothing is left in flight."""
    step = Step(
        "ledger",
        "See the ledger",
        "Each call that was forwarded has one record, however it ended; the refused one "
        "has none, for it cost nothing. Sums by hour are made of them.",
    )
    trip.teller.begins(step)
    records = await trip.books.records(trip.prefix)
    step.came = [
        _ROW.format("call", "in", "out", "source", "outcome", "cost"),
        *(_row(record, trip.prefix) for record in records),
    ]
    total = sum(usage_of(record).total_tokens for record in records)
    quiet = await trip.books.is_quiet(trip.prefix)
    step.why = [
        (
            f"total      {total:,} tokens of tenant {trip.ground.tenant} in "
            f"{len(records)} calls"
        ),
        "in flight  nothing of the tour" if quiet else "in flight  a call of the tour",
    ]
    step.figures |= {"charged_tokens": total, "records": len(records)}
    step.promise(
        f"the ledger has {len(records)} records of {len(trip.records)} calls",
        kept=len(records) == len(trip.records),
    )
    step.promise(
        f"{trip.charged:,} tokens were charged call by call, and {total:,} in sum",
        kept=total == trip.charged,
    )
    step.promise("a call that has ended still holds tokens", kept=quiet)
    return step


def _row(record: Record, prefix: str) -> str:
    usage = usage_of(record)
    return _ROW.format(
        record["request_id"].removeprefix(prefix),
        usage.total_input_tokens,
        usage.total_output_tokens,
        record["source"],
        record["outcome"],
        amount(Axis.BUDGET_USD, int(record["cost_nanousd"])),
    )
