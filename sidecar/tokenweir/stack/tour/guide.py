"""Leads through the tour, stop by stop."""

from __future__ import annotations

import secrets

from tokenweir.stack.tour import ledger_stop, limit_stops, stops
from tokenweir.stack.tour.books import Books
from tokenweir.stack.tour.client import Client, NoAnswerError, health
from tokenweir.stack.tour.ground import Ground
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import Stop, Teller, Trip

STOPS: tuple[Stop, ...] = (
    stops.ask,
    stops.stream,
    limit_stops.hit,
    limit_stops.read,
    limit_stops.wait,
    limit_stops.succeed,
    stops.hang_up,
    ledger_stop.see,
)


async def lead(ground: Ground, teller: Teller) -> list[Step]:
    """
    Lead through *ground* and tell *teller*. Return what there is to say of each stop.

    Raises:
        NoAnswerError: The gateway, or its processor, gave no answer.
        LedgerUnavailableError: The ledger gave none.
    """
    await _require_ready(ground)
    books = Books(ground)
    try:
        await books.open(*stops.calls(ground.model))
        async with Client(ground.url, ground.key) as client:
            prefix = f"tour-{secrets.token_hex(4)}-"
            trip = Trip(ground, client, books, teller, prefix)
            steps = []
            for stop in STOPS:
                step = await stop(trip)
                teller.ends(step)
                steps.append(step)
            return steps
    finally:
        await books.close()


async def _require_ready(ground: Ground) -> None:
    if ground.admin is None:
        return
    status, told = await health(ground.admin)
    if status == 200:
        return
    checks = told.get("checks") or {}
    missing = ", ".join(
        f"{name}: {text}" for name, text in checks.items() if text != "ok"
    )
    raise NoAnswerError(
        f"The processor at {ground.admin} is not ready ({missing or status}). Mend that "
        "first; docs/runbook.md has each."
    )
