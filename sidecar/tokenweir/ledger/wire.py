"""
How the scripts are asked, and what they answer.

WARNING: the headers of `lua/*.lua` say the same. Change both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenweir.core.bucket import Bucket
from tokenweir.core.budget import Crossing, Spending
from tokenweir.core.hold import (
    Amounts,
    Denied,
    Granted,
    Limit,
    LimitState,
    Stale,
    amount_of,
)
from tokenweir.core.holding import Account, Holding, Share, State, Taken, key_of
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.record import LABELS, SEPARATOR
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.window import Window

Argument = str | int
# What `reserve` answers where windows do not cover the present.
STALE = -2
_STAGGERED = 2


def share_arguments(share: Share) -> list[Argument]:
    """Return *share* as `read_share` in ``lua/holding.lua`` takes it."""
    arguments: list[Argument] = [
        share.hold_id,
        share.model,
        *amounts_arguments(share.amounts),
        share.output_nanousd,
        share.slots,
        share.lease,
        len(share.limits),
    ]
    for limit in share.limits:
        arguments += (
            key_of(limit),
            limit.axis.value,
            limit.rate,
            limit.capacity,
            _mode(limit),
        )
        if _mode(limit) == _STAGGERED:
            arguments.append(limit.queue or "-")
        if limit.axis in BUDGETS:
            arguments += (limit.most, *limit.turns, thresholds_text(limit.thresholds))
    return [*arguments, SEPARATOR.join(share.labels.values())]


def amounts_arguments(amounts: Amounts) -> list[Argument]:
    """Return *amounts* as the scripts take them."""
    return [
        amounts.requests,
        amounts.input_tokens,
        amounts.output_tokens,
        amounts.cost_nanousd,
    ]


def account_arguments(account: Account) -> list[Argument]:
    """Return *account* as ``lua/settle.lua`` takes it."""
    return [
        *amounts_arguments(account.amounts),
        account.duration_ms,
        account.learned_tokens,
        *pairs(account.record),
        *pairs(account.increments),
    ]


def answer_of(
    share: Share, verdict: int, epoch: str, rows: str
) -> Granted | Denied | Stale | None:
    """Return what ``lua/reserve.lua`` answered; None: the hold has ended already."""
    if verdict == STALE:
        return Stale(epoch, int(rows))
    if verdict < 0:
        return None
    states: list[LimitState] = []
    failures: list[QuotaFailure] = []
    for row in filter(None, rows.split(",")):
        number, fits, *figures = map(int, row.split(" "))
        limit = share.limits[number - 1]
        if fits:
            states.append(LimitState(limit, *figures))
        else:
            failures.append(_failure(limit, share.amounts, *figures))
    shadowed = tuple(failure for failure in failures if failure.shadow)
    if verdict:
        return Granted(epoch, tuple(states), shadowed)
    enforced = tuple(failure for failure in failures if not failure.shadow)
    return Denied(epoch, enforced, shadowed)


def bucket_of(text: str) -> Bucket:
    """Read a bucket as it is stored."""
    return Bucket(*map(int, text.split(" ")))


def spending_of(text: str) -> Spending:
    """Read a budget's window as it is stored."""
    spent, reserved, told, end_ms = map(int, text.split(" "))
    return Spending(end_ms, spent, reserved, told)


def crossing_of(text: str) -> Crossing:
    """Read what a script says of a threshold that was passed."""
    *figures, limit = text.split(" ", 5)
    percent, spent, capacity, start_ms, end_ms = map(int, figures)
    return Crossing(limit, percent, spent, capacity, Window(start_ms, end_ms))


def holding_of(fields: Mapping[str, str]) -> Holding:
    """Read a hold or a tombstone as it is stored, but for its answer."""
    taken = sorted(
        (int(name[2:]), _taken(text))
        for name, text in fields.items()
        if name.startswith("t:")
    )
    recorded = {
        name.removeprefix("i:"): int(text)
        for name, text in fields.items()
        if name.startswith("i:")
    }
    return Holding(
        State(fields["state"]),
        int(fields["until"]),
        int(fields["started"]),
        Amounts(
            int(fields.get("requests", 0)),
            int(fields.get("input", 0)),
            int(fields.get("output", 0)),
            int(fields.get("cost", 0)),
        ),
        tuple(limit for _, limit in taken),
        int(fields.get("progress", 0)),
        fields.get("claimed") == "1",
        fields.get("model", ""),
        _labels(fields.get("labels", "")),
        recorded if "recorded" in fields else None,
        output_nanousd=int(fields.get("price", 0)),
        slots=int(fields.get("slots", 1)),
    )


def user_sums_of(fields: Mapping[str, str]) -> dict[str, int]:
    """Read an hour's sums by end user as they are stored: figures of one are packed."""
    sums: dict[str, int] = {}
    for name, text in fields.items():
        if name.endswith(SEPARATOR):
            words = text.split(" ")
            figures = zip(words[::2], map(int, words[1::2]), strict=True)
            sums |= {f"{name}{figure}": number for figure, number in figures}
        else:
            sums[name] = int(text)
    return sums


def pairs(mapping: Mapping[str, Argument]) -> list[Argument]:
    """Return *mapping* as `pairs_list` in ``lua/prelude.lua`` takes it."""
    return [len(mapping), *(text for pair in mapping.items() for text in pair)]


def _failure(
    limit: Limit, amounts: Amounts, used: int, reserved: int, *waits: int
) -> QuotaFailure:
    return QuotaFailure(
        limit.quota,
        limit.axis,
        limit.partition,
        limit.most,
        used,
        reserved,
        amount_of(limit.axis, amounts),
        waits[0],
        limit.shadow,
        limit.rate,
        stagger_ms=sum(waits[1:]),
    )


def _mode(limit: Limit) -> int:
    """Return 1 in shadow mode, 2 if refused callers are staggered, else 0."""
    return 1 if limit.shadow else _STAGGERED * limit.staggered


def _labels(text: str) -> dict[str, str]:
    values = text.split(SEPARATOR) if text else ()
    return dict(zip(LABELS, values, strict=False))


def _taken(text: str) -> Taken:
    axis, *figures, thresholds, key = text.split(" ", 7)
    rate, capacity, amount, start_ms, end_ms = map(int, figures)
    return Taken(
        key,
        Axis(axis),
        rate,
        capacity,
        amount,
        Window(start_ms, end_ms),
        tuple(map(int, thresholds.split("/"))) if thresholds != "-" else (),
    )


def thresholds_text(percents: Sequence[int]) -> str:
    """Return *percents* as scripts take them: ``"50/80"``; ``"-"``: none."""
    return "/".join(map(str, percents)) or "-"
