"""
Putting right what an audit has found.

One at a time: two that add the same difference would add it twice. So whoever rebuilds
holds a lease from before they look until after they have written, and asks for it anew
before they write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenweir.core.amendment import Amendment
from tokenweir.core.errors import TokenweirError
from tokenweir.core.finding import Finding
from tokenweir.ledger.audit import Audit

# Longer than an audit takes.
LEASE_MS = 900_000
# Counters of one call: some milliseconds of the server's time.
BATCH = 500


class RebuildBusyError(TokenweirError):
    """Somebody else rebuilds."""


class Amendable(Protocol):
    """What `tokenweir.ledger.inspector.Inspector` can do about counters."""

    async def amend(self, tag: str, amendments: Sequence[Amendment]) -> list[bool]:
        """Carry out *amendments* under *tag*; return of each if it was possible."""

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """Ask to be the only one who amends for *lease_ms*; 0: no longer."""


@dataclass(frozen=True, slots=True)
class Step:
    """
    A counter that is, or would be, put right.

    Attributes:
        finding: Why.
        amendment: How.
        done: Whether it was; False: it was set back meanwhile, and is to be looked at
            again; None: it was not tried.
    """

    finding: Finding
    amendment: Amendment
    done: bool | None = None


def plan(findings: Sequence[Finding], *, allow_decrease: bool) -> list[Step]:
    """Return what has to be done about *findings*."""
    steps = ((each, each.amendment(allow_decrease=allow_decrease)) for each in findings)
    return [Step(finding, how) for finding, how in steps if how is not None]


async def rebuild(
    amendable: Amendable,
    audit: Callable[[], Awaitable[Audit]],
    owner: str,
    *,
    allow_decrease: bool,
) -> tuple[Audit, list[Step]]:
    """
    Audit, and put right what is found; return both.

    Args:
        amendable: Where.
        audit: Looks.
        owner: Who does this: unlike any other.
        allow_decrease: Whether counters that are too high are lowered.

    Raises:
        RebuildBusyError: Somebody else does it now; nothing was done.
        LedgerUnavailableError: There was no answer. What was done is done: the next
            audit does not find it again.
    """
    if not await amendable.lead(owner, LEASE_MS):
        raise RebuildBusyError("somebody else rebuilds now")
    try:
        found = await audit()
        steps = plan(found.findings, allow_decrease=allow_decrease)
        if not await amendable.lead(owner, LEASE_MS):
            raise RebuildBusyError("somebody else rebuilds by now")
        return found, await _carried_out(amendable, steps)
    finally:
        await amendable.lead(owner, 0)


async def _carried_out(amendable: Amendable, steps: Sequence[Step]) -> list[Step]:
    by_tag: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_tag[step.finding.account.tag].append(step)
    done: list[Step] = []
    for tag, own in by_tag.items():
        for start in range(0, len(own), BATCH):
            batch = own[start : start + BATCH]
            answers = await amendable.amend(tag, [step.amendment for step in batch])
            done += (
                Step(step.finding, step.amendment, answer)
                for step, answer in zip(batch, answers, strict=True)
            )
    return done
