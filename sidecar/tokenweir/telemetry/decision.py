"""What was decided on an exchange, in the closed vocabulary of logs and metrics."""

from __future__ import annotations

import enum

from tokenweir.telemetry.hooks import ExchangeDetails


class Decision(enum.StrEnum):
    """What became of a request."""

    ADMITTED = "admitted"  # forwarded
    REFUSED = "refused"  # the governor answered itself
    ABANDONED = "abandoned"  # the client left before anything was forwarded


def decision_of(details: ExchangeDetails) -> Decision:
    """Return what was decided on the exchange."""
    if details.rejection is not None:
        return Decision.REFUSED
    return Decision.ABANDONED if details.settlement is None else Decision.ADMITTED
