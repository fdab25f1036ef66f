"""What estimates are corrected by, as a table and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tokenweir.cli.table import Amount, Cell, table
from tokenweir.core.calibration import Learned, correction_of
from tokenweir.ledger.calibration import Spot

HEAD = ("tenant", "provider", "model", "route", "side", "factor", "samples", "learned")
# Of a factor that is not used yet.
_FEW = " (too few)"


def table_text(known: Mapping[Spot, Learned], *, bold: bool) -> str:
    """Return what is *known* as lines of text."""
    return table(HEAD, [_row(*item) for item in known.items()], bold=bold)


def document(known: Mapping[Spot, Learned]) -> list[dict[str, Any]]:
    """Return what is *known* for programs."""
    return [
        {
            "tenant": place.tenant,
            "provider": place.provider,
            "model": place.model,
            "route": place.route,
            "side": str(side),
            "factor": round(learned.factor, 4),
            "samples": learned.samples,
            "weight_tokens": learned.weight,
            "reach_tokens": correction_of(learned, exact=False).reach_tokens,
            "is_used": learned.is_ready,
            "learned_at": _moment(learned).isoformat().replace("+00:00", "Z"),
        }
        for (place, side), learned in known.items()
    ]


def _row(spot: Spot, learned: Learned) -> Sequence[Cell]:
    place, side = spot
    samples = f"{learned.samples:,}" + ("" if learned.is_ready else _FEW)
    return (
        *(place.tenant, place.provider, place.model, place.route, str(side)),
        *(Amount(f"{learned.factor:.3f}"), Amount(samples)),
        f"{_moment(learned):%Y-%m-%d %H:%M} UTC",
    )


def _moment(learned: Learned) -> datetime:
    return datetime.fromtimestamp(learned.at_ms / 1_000, UTC).replace(microsecond=0)
