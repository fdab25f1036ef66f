"""
The verbs of a ledger, for everything under one tag: the reference semantics.

Theory of operation
===================

A hold has debited the levels of its limits by some amounts, and counts as
reserved as long as it is held. Every verb but `reserve` is one movement: from
what was debited so far to what shall have been debited from now on, and from
held to not held or back. `_move` does it:

    reserve   nothing            ─▶ the worst case, held
    extend    the worst case     ─▶ the worst case, or progress if that is more
    settle    what was debited   ─▶ what was used
    cancel    what was debited   ─▶ nothing
    reap      the worst case     ─▶ an estimate

So a verb that comes late, or on a hold that was lost, needs no case of its own:
what was debited then is the estimate, or nothing.

`reserve` alone may refuse. It looks at all limits before it touches one.

A tag's *epoch* is the moment when it was first used. Every answer tells it, and ids
carry the newest one that their maker had heard of. A flushed ledger begins again, so
later: a hold whose id carries an earlier epoch was lost with all the rest.

Time is an argument. A `Tag` is changed in place, and never half: it checks first
what can be wrong with its arguments.

WARNING: the scripts in `ledger/lua` are this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tokenweir.core import record
from tokenweir.core.bucket import bounded
from tokenweir.core.budget import Crossing, window_at
from tokenweir.core.carving import OPEN, carved, shrunk, without
from tokenweir.core.hold import Amounts, Denied, Granted, Limit, Stale
from tokenweir.core.holding import (
    HOLD_MS,
    NOTHING,
    REAPED_PER_CALL,
    TOMBSTONE_MS,
    Account,
    Holding,
    Share,
    State,
    elapsed_ms,
    is_forgotten,
    learned_rate,
    lost_amounts,
    started_ms,
    untaken,
    with_output,
)
from tokenweir.core.lease import AGE_MS
from tokenweir.core.levels import Levels
from tokenweir.core.policy import BUDGETS
from tokenweir.core.record_book import RecordBook


@dataclass(slots=True)
class Tag:
    """
    Everything that is kept under one tag.

    Attributes:
        hold_ms: How long a hold lives without being extended.
        epoch: When the tag was first used, in ms; 0: never.
        levels: Of all limits.
        holdings: Holds and tombstones, by hold id.
        expiries: Of the holds among them, in ms, by hold id.
        rates: Output rates (tokens per 1,000 s), by model.
        book: Records of exchanges, and their sums.
        reaped: How many holds were lost so far.
    """

    hold_ms: int = HOLD_MS
    epoch: int = 0
    levels: Levels = field(default_factory=Levels)
    holdings: dict[str, Holding] = field(default_factory=dict)
    expiries: dict[str, int] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)
    book: RecordBook = field(default_factory=RecordBook)
    reaped: int = 0

    def reserve(self, share: Share, now_ms: int) -> Granted | Denied | Stale | None:
        """
        Take the share's amounts from every limit, or from none.

        Limits in shadow mode that it does not fit into are reported and left out; but
        budgets count all the same: they are there to tell what is spent.

        Returns:
            The answer, the same if the hold is known; None: it has ended already.
        """
        self._begin(now_ms)
        self.reap(now_ms, REAPED_PER_CALL)
        known = self._known(share.hold_id, now_ms)
        if known is not None:
            return known.answer
        if any(_is_stale(limit, now_ms) for limit in share.limits):
            return Stale(str(self.epoch), now_ms)
        failures = {
            limit.quota: failure
            for limit in share.limits
            if (
                failure := self.levels.failure(
                    limit, share.amounts, now_ms, share.slots
                )
            )
        }
        shadowed = tuple(failure for failure in failures.values() if failure.shadow)
        if len(shadowed) < len(failures):
            self.levels.rebase(share.limits, now_ms)
            enforced = tuple(
                self.levels.staggered(limit, failures[limit.quota], now_ms)
                for limit in share.limits
                if limit.quota in failures and not limit.shadow
            )
            return Denied(str(self.epoch), enforced, shadowed)
        fitting = tuple(
            limit
            for limit in share.limits
            if limit.quota not in failures or limit.axis in BUDGETS
        )
        self.levels.rebase(set(share.limits) - set(fitting), now_ms)
        self.levels.retune(fitting, now_ms)
        before = replace(_blank(share, now_ms), taken=untaken(fitting, now_ms))
        self._hold(share.hold_id, before, share.amounts, now_ms)
        states = tuple(self.levels.state(limit, now_ms) for limit in fitting)
        answer = Granted(str(self.epoch), states, shadowed)
        holding = self.holdings[share.hold_id]
        self.holdings[share.hold_id] = replace(holding, answer=answer)
        return answer

    def extend(self, share: Share, output_tokens: int, now_ms: int) -> State | None:
        """
        Renew a hold and take note of its progress; bring it back if it was lost.

        Returns:
            In which state it was; None: not known.
        """
        self._begin(now_ms)
        known = self._known(share.hold_id, now_ms)
        if known is None and is_forgotten(share.hold_id, self.epoch, now_ms):
            return None
        if known is not None and known.state is State.SETTLED:
            return State.SETTLED
        before = self._before(share, known, now_ms)
        progress = max(before.progress, bounded(output_tokens))
        is_held = before.state is State.HELD
        amounts = before.amounts if is_held else share.amounts
        output = max(amounts.output_tokens, progress)
        amounts = with_output(amounts, output, share.output_nanousd)
        before = replace(before, progress=progress, claimed=True)
        self._hold(share.hold_id, before, amounts, now_ms)
        return None if known is None else known.state

    def settle(self, share: Share, account: Account, now_ms: int) -> State | None:
        """
        Replace a hold by what was used, and write the record.

        Returns:
            In which state it was; None: not known.
        """
        self._begin(now_ms)
        known = self._known(share.hold_id, now_ms)
        if known is not None and known.state is State.SETTLED:
            return State.SETTLED
        before = self._before(share, known, now_ms)
        if known is not None or not is_forgotten(share.hold_id, self.epoch, now_ms):
            self.levels.move(share.hold_id, before, account.amounts, None, now_ms)
            self._learn(before, account)
        self.book.write(before, account.record, account.increments)
        tombstone = Holding(
            State.SETTLED, started_ms=before.started_ms, amounts=account.amounts
        )
        self._bury(share.hold_id, tombstone, now_ms)
        return None if known is None else known.state

    def cancel(
        self,
        hold_id: str,
        now_ms: int,
        *,
        unclaimed_only: bool = False,
        share: Share | None = None,
    ) -> State | None:
        """
        Give a whole hold back; with *unclaimed_only* only if it was never extended.

        *share* is what it is, if it may be a part of a lease.

        Returns:
            In which state it was; CLAIMED: held, and left alone; None: not known, and
            now it has a tombstone.
        """
        known = self._known(hold_id, now_ms)
        if known is None and share is not None:
            known = self._carved(share, now_ms)
        if known is None:
            started = started_ms(hold_id, now_ms)
            self._bury(hold_id, Holding(State.CANCELLED, started_ms=started), now_ms)
            return None
        is_open = known.state in (State.HELD, State.LOST)
        if is_open and unclaimed_only and known.claimed:
            return State.CLAIMED
        if is_open:
            self.levels.move(hold_id, known, NOTHING, None, now_ms)
            self._retract(known, now_ms)
            tombstone = Holding(
                State.CANCELLED,
                started_ms=known.started_ms,
                recorded=None if known.recorded is None else {},
            )
            self._bury(hold_id, tombstone, now_ms)
        return known.state

    def give_back(
        self, lease_id: str, amounts: Amounts, slots: int, now_ms: int
    ) -> State | None:
        """
        Give *amounts* of a lease back, and *slots*: nobody is admitted out of those.

        Once: the second time changes nothing.

        Returns:
            In which state it was; None: not known.
        """
        lease = self._known(lease_id, now_ms)
        if lease is None:
            return None
        if lease.state in OPEN and not lease.claimed:
            after = replace(shrunk(lease, amounts, slots), claimed=True)
            self._resize(lease_id, lease, after, now_ms)
        return lease.state

    def reap(self, now_ms: int, most: int) -> int:
        """Charge at most *most* expired holds, the oldest first; return how many."""
        due = [
            (until, name) for name, until in self.expiries.items() if until <= now_ms
        ]
        for _, hold_id in sorted(due)[:most]:
            self._lose(hold_id, now_ms)
        count = min(len(due), most)
        self.reaped += count
        return count

    def crossings(self) -> tuple[Crossing, ...]:
        """Return the thresholds that were passed since this was last asked."""
        crossings = tuple(self.levels.crossings)
        self.levels.crossings.clear()
        return crossings

    def forget(self, now_ms: int) -> None:
        """Drop what means nothing any more: old tombstones, buckets long full."""
        for hold_id in tuple(self.holdings):
            self._known(hold_id, now_ms)
        self.levels.forget(now_ms)

    def _begin(self, now_ms: int) -> None:
        self.epoch = self.epoch or now_ms

    def _known(self, hold_id: str, now_ms: int) -> Holding | None:
        known = self.holdings.get(hold_id)
        if known and known.state is not State.HELD and known.until_ms <= now_ms:
            del self.holdings[hold_id]
            return None
        return known

    def _hold(
        self, hold_id: str, before: Holding, amounts: Amounts, now_ms: int
    ) -> None:
        until_ms = now_ms + self.hold_ms + (AGE_MS if before.slots > 1 else 0)
        taken = self.levels.move(hold_id, before, amounts, until_ms, now_ms)
        self.expiries[hold_id] = until_ms
        self.holdings[hold_id] = replace(
            before, state=State.HELD, until_ms=until_ms, amounts=amounts, taken=taken
        )

    def _before(self, share: Share, known: Holding | None, now_ms: int) -> Holding:
        """Return what there was of a hold before a verb that brings its description."""
        if known is None:
            if not is_forgotten(share.hold_id, self.epoch, now_ms):
                known = self._carved(share, now_ms)
            return known or _blank(share, started_ms(share.hold_id, now_ms))
        if known.state is State.CANCELLED:
            return replace(_blank(share, known.started_ms), recorded=known.recorded)
        return known

    def _carved(self, share: Share, now_ms: int) -> Holding | None:
        """Take an exchange out of its lease; None: it has none, or not any more."""
        lease = self._known(share.lease, now_ms) if share.lease else None
        if lease is None or lease.state not in OPEN or not lease.slots:
            return None
        self._resize(share.lease, lease, without(lease, share.amounts), now_ms)
        return carved(lease, share, started_ms(share.hold_id, now_ms))

    def _resize(
        self, lease_id: str, lease: Holding, after: Holding, now_ms: int
    ) -> None:
        """Leave *after* of a lease; once it is for nobody any more, nothing."""
        amounts = after.amounts if after.slots else NOTHING
        is_held = lease.state is State.HELD
        until_ms = lease.until_ms if is_held and after.slots else None
        taken = self.levels.move(lease_id, after, amounts, until_ms, now_ms)
        if is_held and not after.slots:
            del self.holdings[lease_id], self.expiries[lease_id]
            return
        recorded = lease.recorded
        if recorded is not None:
            flags = "" if after.slots else record.RETRACTED
            elapsed = elapsed_ms(lease, now_ms)
            text = record.lost_record(lease.labels, amounts, elapsed, flags)
            recorded = record.increments_in(text)
            self.book.write(lease, text, recorded)
        self.holdings[lease_id] = replace(
            after,
            amounts=amounts,
            taken=taken,
            recorded=recorded,
            progress=amounts.output_tokens,
        )

    def _lose(self, hold_id: str, now_ms: int) -> None:
        lost = self.holdings[hold_id]
        amounts = lost_amounts(lost, self.rates.get(lost.model, 0), now_ms)
        taken = self.levels.move(hold_id, lost, amounts, None, now_ms)
        recorded = None
        if lost.labels:
            elapsed = elapsed_ms(lost, now_ms)
            text = record.lost_record(lost.labels, amounts, elapsed)
            recorded = record.increments_in(text)
            self.book.write(lost, text, recorded)
        tombstone = replace(
            lost,
            state=State.LOST,
            amounts=amounts,
            taken=taken,
            recorded=recorded,
            answer=None,
        )
        self._bury(hold_id, tombstone, now_ms)

    def _retract(self, known: Holding, now_ms: int) -> None:
        """Take back the record of a hold that was lost and then cancelled."""
        if known.recorded is not None:
            elapsed = elapsed_ms(known, now_ms)
            text = record.lost_record(known.labels, NOTHING, elapsed, record.RETRACTED)
            self.book.write(known, text, {})

    def _bury(self, hold_id: str, tombstone: Holding, now_ms: int) -> None:
        self.expiries.pop(hold_id, None)
        until_ms = now_ms + TOMBSTONE_MS
        self.holdings[hold_id] = replace(tombstone, until_ms=until_ms)

    def _learn(self, before: Holding, account: Account) -> None:
        self.levels.learn(before, account.duration_ms)
        rate = learned_rate(self.rates.get(before.model), account)
        if rate is not None:
            self.rates[before.model] = rate


def _blank(share: Share, started: int) -> Holding:
    """Return a hold of *share* that has taken nothing yet."""
    return Holding(
        State.CANCELLED,
        started_ms=started,
        taken=untaken(share.limits, started),
        model=share.model,
        labels=share.labels,
        output_nanousd=share.output_nanousd,
        progress=share.amounts.output_tokens if share.slots > 1 else 0,
        slots=share.slots,
    )


def _is_stale(limit: Limit, now_ms: int) -> bool:
    return limit.axis in BUDGETS and window_at(limit.turns, now_ms) is None
