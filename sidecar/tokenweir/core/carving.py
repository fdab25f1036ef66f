"""
What an exchange takes with it out of the lease that it was admitted from.

    before   lease: what all of its exchanges may take
    carved   exchange: what it may take   lease: what is left of that

Nothing is debited or given back by it: levels stay what they are. From then on the
exchange is a hold like any other. If the lease was lost by then, it takes its part of
what the lease was charged, and corrects that.

WARNING: `ledger/lua/leasing.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from dataclasses import replace

from tokenweir.core.hold import Amounts, amount_of
from tokenweir.core.holding import Holding, Share, State, Taken
from tokenweir.core.lease import less
from tokenweir.core.policy import Axis

# Of a lease: what can be carved out of it, or given back.
OPEN = frozenset({State.HELD, State.LOST})


def carved(lease: Holding, share: Share, started_ms: int) -> Holding:
    """Return the hold of an exchange that is taken out of *lease*, as it began."""
    return Holding(
        lease.state,
        started_ms=started_ms,
        amounts=share.amounts,
        taken=tuple(
            replace(taken, taken=_part(taken, share.amounts)) for taken in lease.taken
        ),
        model=share.model,
        labels=share.labels,
        output_nanousd=share.output_nanousd,
    )


def without(lease: Holding, amounts: Amounts) -> Holding:
    """Return *lease* once an exchange of *amounts* was taken out of it."""
    return replace(
        shrunk(lease, amounts, 1),
        taken=tuple(
            # Slots are by name: `Levels.move` sees to them.
            taken
            if taken.axis is Axis.CONCURRENCY
            else replace(taken, taken=taken.taken - _part(taken, amounts))
            for taken in lease.taken
        ),
    )


def shrunk(lease: Holding, amounts: Amounts, slots: int) -> Holding:
    """Return *lease* with *amounts* and *slots* less to give; what it took it still has."""
    left = less(lease.amounts, amounts)
    # A lease that nobody accounts for is charged all that it holds.
    return replace(
        lease,
        amounts=left,
        progress=left.output_tokens,
        slots=max(0, lease.slots - slots),
    )


def _part(taken: Taken, amounts: Amounts) -> int:
    # Of concurrency: one.
    return min(taken.taken, amount_of(taken.axis, amounts))
