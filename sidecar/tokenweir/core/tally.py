"""
What is counted of an exchange besides its record: what refused it, and what it matched.

A refused exchange has no hold, so nobody settles it and it has no record. Processors
count refusals and matched quotas and add the sums to rollups now and then, where they
stand beside what was used under names of their own:

    refused_<quota>    refused, and that quota was the worst of those that failed
    refused:<reason>   refused for another reason, see `tokenweir.core.reason`
    shadow_<quota>     a quota in shadow mode would have refused it
    matched_<quota>    a quota applied to it, whatever was decided
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tokenweir.core.reason import reason_of
from tokenweir.core.rejection import (
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    Unsatisfiable,
)

REFUSED_BY = "refused_"
REFUSED_FOR = "refused:"
SHADOWED = "shadow_"
MATCHED = "matched_"


@dataclass(frozen=True, slots=True)
class Tallied:
    """
    What was counted of a group of exchanges. Each refusal is counted once.

    Attributes:
        refused_by: Refusals, by the id of the quota that refused.
        refused_for: Refusals without a quota, by reason.
        shadowed: What quotas in shadow mode would have refused, by their id.
        matched: Exchanges that quotas applied to, by their id.
    """

    refused_by: Mapping[str, int] = field(default_factory=dict)
    refused_for: Mapping[str, int] = field(default_factory=dict)
    shadowed: Mapping[str, int] = field(default_factory=dict)
    matched: Mapping[str, int] = field(default_factory=dict)

    @property
    def refusals(self) -> int:
        """How many exchanges were refused."""
        return sum(self.refused_by.values()) + sum(self.refused_for.values())


def tally_of(
    rejection: Rejection | None,
    shadowed: Iterable[QuotaFailure],
    quotas: Iterable[str],
) -> Counter[str]:
    """
    Return the figures of one exchange.

    Args:
        rejection: Why it was refused; None: it was not.
        shadowed: Quotas in shadow mode that would have refused it.
        quotas: Ids of all that applied to it.
    """
    figures = Counter(f"{MATCHED}{quota}" for quota in quotas)
    figures.update(f"{SHADOWED}{failure.quota}" for failure in shadowed)
    if rejection is not None:
        figures[_refused(rejection)] += 1
    return figures


def tallied_in(figures: Mapping[str, int]) -> Tallied:
    """Return what is told by *figures* of rollups; others among them mean nothing."""
    return Tallied(
        _named(REFUSED_BY, figures),
        _named(REFUSED_FOR, figures),
        _named(SHADOWED, figures),
        _named(MATCHED, figures),
    )


def _refused(rejection: Rejection) -> str:
    match rejection:
        case QuotaExhausted(failures=(worst, *_)):
            return f"{REFUSED_BY}{worst.quota}"
        case Unsatisfiable(quota=quota):
            return f"{REFUSED_BY}{quota}"
        case _:
            return f"{REFUSED_FOR}{reason_of(rejection)}"


def _named(prefix: str, figures: Mapping[str, int]) -> dict[str, int]:
    return {
        name.removeprefix(prefix): figure
        for name, figure in figures.items()
        if name.startswith(prefix)
    }
