"""
What a ledger keeps of one hold under one tag, and what follows from its age.

    held ──settle──▶ settled        cancelled ─settle─▶ settled   (it was forwarded)
     │ └───cancel──▶ cancelled      cancelled ─extend─▶ held      (as debt)
     └─(expired)───▶ lost           lost ──────settle─▶ settled   (corrected)
                                    lost ──────extend─▶ held      (as debt)
                                    lost ──────cancel─▶ cancelled (corrected)

What is not `held` is a tombstone. It is kept so that a verb that comes late, or
comes twice, is known for what it is; then it is forgotten.

The verbs themselves are in `tokenweir.core.tag`.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tokenweir.core.bucket import MAX_TOKENS, bounded
from tokenweir.core.budget import (
    MAX_SPENT,
    TURNS,
    affordable,
    middle,
    window_at,
)
from tokenweir.core.hold import (
    Amounts,
    Granted,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
)
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.record import increments_in, labels_of, record_of
from tokenweir.core.slots import MAX_DURATION_MS
from tokenweir.core.usage import Source
from tokenweir.core.window import Window

# Until an exchange is taken for dead. An exchange renews it every few seconds; a
# processor that is killed is given this long to be replaced.
HOLD_MS = 30_000

# For how long a settle or cancel may be repeated: by callers that got no answer,
# and by spools that waited for the ledger. A longer outage is a disaster, in which
# "charged twice" and "not charged" are both small.
REPLAY_MS = 900_000

# Replays are judged by the caller's clock, tombstones by the ledger's. The five
# minutes between are what the two may differ by.
TOMBSTONE_MS = REPLAY_MS + 300_000

# The most expired holds that one reserve clears away: a millisecond's work, so that
# nobody who comes after a crash waits for all of it.
REAPED_PER_CALL = 20

# Output rates are in tokens per 1,000 s; the fastest that is believed is 10,000/s.
MAX_RATE = 10_000_000

NOTHING = Amounts(0, 0, 0, 0)

# Of what is no budget.
NO_WINDOW = Window(0, 0)

# Longer keys are shortened: what apps put into `user` is theirs to choose.
MAX_KEY_CHARACTERS = 200

_ID = re.compile(r"([0-9]{1,15})-([0-9a-fA-F]{1,12})-")


class State(enum.StrEnum):
    """Of a hold, as the ledger knows it."""

    HELD = "held"
    SETTLED = "settled"
    LOST = "lost"
    CANCELLED = "cancelled"
    CLAIMED = "claimed"  # only told, never kept: held, and extended at least once


@dataclass(frozen=True, slots=True)
class Share:
    """
    A hold as it is under one tag: everything that a ledger call has to say.

    Attributes:
        hold_id: As in `tokenweir.core.hold.Hold`.
        limits: Those under the tag.
        amounts: What is reserved.
        model: What answers: output rates are learned by it.
        labels: Of the usage record; empty: another share keeps the record.
        output_nanousd: Of each output token, rounded down.
        lease: See `tokenweir.core.hold.Hold`.
        slots: How many exchanges it is for: one, or if it is a lease, more.

    Raises:
        ValueError: A number is out of range.
    """

    hold_id: str
    limits: tuple[Limit, ...]
    amounts: Amounts
    model: str
    labels: Mapping[str, str] = field(default_factory=dict)
    output_nanousd: int = 0
    lease: str = ""
    slots: int = 1

    def __post_init__(self) -> None:
        amounts = self.amounts
        for nanousd in (amounts.cost_nanousd, self.output_nanousd):
            if affordable(nanousd) != nanousd:
                raise ValueError(f"cost out of range: {nanousd}")
        for tokens in (amounts.requests, amounts.input_tokens, amounts.output_tokens):
            if bounded(tokens) != tokens:
                raise ValueError(f"amount out of range: {tokens}")
        for limit in self.limits:
            _check(limit)


@dataclass(frozen=True, slots=True)
class Account:
    """
    What a settle has to say.

    Attributes:
        amounts: What was used.
        duration_ms: How long the slots were held; 0: unknown.
        learned_tokens: Output that tells how fast the model is; 0: it tells nothing.
        record: The usage record; empty: another share keeps it.
        increments: Of the rollup.
    """

    amounts: Amounts
    duration_ms: int
    learned_tokens: int
    record: Mapping[str, str] = field(default_factory=dict)
    increments: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """
    What a hold has taken from one limit.

    Attributes:
        key: Names the limit, see `key_of`.
        axis: What is limited.
        rate: To start from if the limit's level is not known.
        capacity: Ditto.
        taken: What the level was debited by so far.
        window: Of a budget: in which that is booked.
        thresholds: Ditto: what is told, in percent.
    """

    key: str
    axis: Axis
    rate: int
    capacity: int
    taken: int = 0
    window: Window = NO_WINDOW
    thresholds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """
    A hold, or its tombstone.

    Attributes:
        state: See above.
        until_ms: When a hold expires, and when a tombstone is forgotten.
        started_ms: When it was reserved, by the ledger's clock.
        amounts: What is reserved; if lost or settled: what was charged.
        taken: By limit, without the limits in shadow mode that it did not fit into.
        progress: Output tokens that were reported so far.
        claimed: It was extended at least once; of a lease: its rest was given back.
        model: See `Share`.
        labels: See `Share`.
        recorded: What rollups hold of it; None: there is no record yet.
        answer: What the reserve was answered with, for when it comes again.
        output_nanousd: See `Share`.
        slots: See `Share`; of a lease: for how many it is still.
    """

    state: State
    until_ms: int = 0
    started_ms: int = 0
    amounts: Amounts = NOTHING
    taken: tuple[Taken, ...] = ()
    progress: int = 0
    claimed: bool = False
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, int] | None = None
    answer: Granted | None = None
    output_nanousd: int = 0
    slots: int = 1


def share_of(hold: Hold, part: Part, *, keeps_record: bool) -> Share:
    """Return what *hold* is under the tag of *part*. Raises: ValueError."""
    labels = labels_of(hold) if keeps_record else {}
    return Share(
        hold.id,
        part.limits,
        hold.amounts,
        hold.subject.model,
        labels,
        hold.output_nanousd,
        hold.lease,
    )


def account_of(hold: Hold, settlement: Settlement, *, keeps_record: bool) -> Account:
    """Return what settling *hold* means under each of its tags."""
    usage = settlement.usage
    amounts = Amounts(
        bounded(settlement.requests),
        bounded(usage.total_input_tokens),
        bounded(usage.total_output_tokens),
        affordable(settlement.cost_nanousd),
    )
    tells_speed = (
        settlement.outcome is Outcome.COMPLETED
        and settlement.source is not Source.ESTIMATED
        and settlement.duration_ms > 0
    )
    duration_ms = min(max(0, settlement.duration_ms), MAX_DURATION_MS)
    learned_tokens = amounts.output_tokens if tells_speed else 0
    if not keeps_record:
        return Account(amounts, duration_ms, learned_tokens)
    record = record_of(hold, settlement)
    return Account(amounts, duration_ms, learned_tokens, record, increments_in(record))


def untaken(limits: tuple[Limit, ...], started_ms: int) -> tuple[Taken, ...]:
    """Return *limits* as they are for a hold that has taken nothing since it began."""
    return tuple(
        Taken(
            key_of(limit),
            limit.axis,
            limit.rate,
            limit.capacity,
            window=_window_of(limit, started_ms),
            thresholds=limit.thresholds,
        )
        for limit in limits
    )


def _window_of(limit: Limit, started_ms: int) -> Window:
    if limit.axis not in BUDGETS:
        return NO_WINDOW
    # A hold that says it began at any other time is of the window it was made for.
    return window_at(limit.turns, started_ms) or middle(limit.turns)


def key_of(limit: Limit) -> str:
    """
    Return the name of a limit's level: its quota, what it counts, and its partition.

    A quota that counts something else from now on begins anew: tokens that were used
    are no requests.
    """
    quota = f"{limit.quota}|{limit.axis}"
    key = f"{quota}|{limit.partition}"
    if len(key) <= MAX_KEY_CHARACTERS:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass"))
    return f"{quota[:MAX_KEY_CHARACTERS]}|sha256:{digest.hexdigest()}"


def started_ms(hold_id: str, now_ms: int) -> int:
    """
    Return when a hold that the ledger does not know was reserved.

    It says so itself, by its maker's clock: believed within the last day.
    """
    made_ms = _origin(hold_id)[1]
    if made_ms is None:
        return now_ms
    return max(now_ms - MAX_DURATION_MS, min(made_ms, now_ms))


def is_forgotten(hold_id: str, epoch: int, now_ms: int) -> bool:
    """
    Tell if a hold that the ledger does not know may have been settled long ago.

    A hold that was made before the ledger's *epoch* began was lost with all the
    rest. A young one can't have been settled, or there would be a tombstone. Any
    other may have been, and its tombstone may be gone.
    """
    made_in, made_ms = _origin(hold_id)
    return made_ms is not None and made_in >= epoch and now_ms - made_ms > REPLAY_MS


def lost_amounts(holding: Holding, rate: int, now_ms: int) -> Amounts:
    """
    Return what a hold that nobody settled is charged.

    Its whole input, and the output that it reported or that its model can have
    made since, at *rate* tokens per 1,000 s; but not more than it had reserved.
    """
    expected = elapsed_ms(holding, now_ms) * rate // 1_000_000
    output = min(holding.amounts.output_tokens, max(holding.progress, expected))
    return with_output(holding.amounts, output, holding.output_nanousd)


def with_output(amounts: Amounts, output_tokens: int, output_nanousd: int) -> Amounts:
    """Return *amounts* with other *output_tokens*, at so much each."""
    more = output_tokens - amounts.output_tokens
    return replace(
        amounts,
        output_tokens=output_tokens,
        cost_nanousd=affordable(amounts.cost_nanousd + more * output_nanousd),
    )


def elapsed_ms(holding: Holding, now_ms: int) -> int:
    """Return how long ago a hold was reserved, at most a day."""
    return min(max(0, now_ms - holding.started_ms), MAX_DURATION_MS)


def learned_rate(rate: int | None, account: Account) -> int | None:
    """
    Return a model's output rate (tokens per 1,000 s) after one more exchange.

    An average that forgets: each exchange counts an eighth.
    """
    if not account.learned_tokens:
        return rate
    tokens = min(account.learned_tokens, 1_000_000_000)
    sample = min(MAX_RATE, tokens * 1_000_000 // account.duration_ms)
    return sample if rate is None else rate + (sample - rate) // 8


def _origin(hold_id: str) -> tuple[int, int | None]:
    """Return the epoch and the moment in which *hold_id* says it was made."""
    parts = _ID.match(hold_id)
    return (int(parts[1]), int(parts[2], 16)) if parts else (0, None)


def _check(limit: Limit) -> None:
    is_budget = limit.axis in BUDGETS
    least_rate = 0 if is_budget or limit.axis is Axis.CONCURRENCY else 1
    if not least_rate <= limit.rate <= MAX_TOKENS:
        raise ValueError(f"{limit.quota}: rate out of range: {limit.rate}")
    if not 1 <= limit.capacity <= (MAX_SPENT if is_budget else MAX_TOKENS):
        raise ValueError(f"{limit.quota}: capacity out of range: {limit.capacity}")
    if limit.hard_limit > MAX_SPENT:
        raise ValueError(f"{limit.quota}: hard limit out of range: {limit.hard_limit}")
    if is_budget and not _follow_each_other(limit.turns):
        raise ValueError(f"{limit.quota}: no windows: {limit.turns}")


def _follow_each_other(turns: tuple[int, ...]) -> bool:
    return len(turns) == TURNS and all(
        0 <= turn < later for turn, later in pairwise(turns)
    )
