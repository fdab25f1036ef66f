"""
What is learned about estimates of tokens: merged in the ledger, and read back.

Each tenant has a key of its own beside its other ones (see `keys`), so no tenant's texts
change what another's estimates are corrected by. It holds `MAX_FIELDS` fields at most,
for an app may be free to choose names of models.

Two implementations: `CalibrationLedger` in Redis, and `MemoryCalibration`, which is the
reference for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tokenweir.core import calibration
from tokenweir.core.calibration import Batch, Learned, Place, Side, merged
from tokenweir.core.partition import tag_of
from tokenweir.core.record import SEPARATOR
from tokenweir.ledger import keys, scripts
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.link import Link

# Of a tenant: twenty kilobytes.
MAX_FIELDS = 200
# Keys that are read in one piece.
PIECE = 128

Spot = tuple[Place, Side]
"""What one factor is learned of."""

_BOUNDS = (
    calibration.MIN_SAMPLES,
    calibration.MAX_SAMPLES,
    calibration.LEAST,
    calibration.MOST,
    calibration.STEP,
    calibration.BATCH_WEIGHT,
    calibration.MEMORY_WEIGHT,
    calibration.MAX_SIZE,
)
# Of a field: what it is called by, and what it has.
_NAMES = 4
_FIGURES = 5


class CalibrationStore(Protocol):
    """What is learned, by tenant. All calls raise `LedgerUnavailableError`."""

    async def ping(self) -> None:
        """Ask for an answer."""

    async def learn(
        self, tenant: str, batches: Mapping[Spot, Batch]
    ) -> Mapping[Spot, Learned]:
        """Merge *batches*, all of *tenant*; return what is known of these then."""

    async def read(self, tenants: Sequence[str]) -> Mapping[Spot, Learned]:
        """Return all that is known of *tenants*."""

    async def forget(self, tenant: str, spots: Sequence[Spot]) -> None:
        """Forget what is known of *spots*, all of *tenant*."""


class CalibrationLedger:
    """
    What is learned, in Redis.

    Args:
        link: The way to the server.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ping(self) -> None:
        """See `CalibrationStore`."""
        await self._link.ping()

    async def learn(
        self, tenant: str, batches: Mapping[Spot, Batch]
    ) -> Mapping[Spot, Learned]:
        """See `CalibrationStore`. Not idempotent: it may have been done all the same."""
        rows: list[str | int] = []
        for spot, batch in batches.items():
            rows += (_field(spot), batch.samples)
            rows += (batch.weight, batch.mean, batch.size)
        _, *texts = await self._run(tenant, rows)
        found = {}
        for spot, text in zip(batches, texts, strict=True):
            learned = _learned(text)
            if learned is not None:
                found[spot] = learned
        return found

    async def read(self, tenants: Sequence[str]) -> Mapping[Spot, Learned]:
        """See `CalibrationStore`."""
        found: dict[Spot, Learned] = {}
        for first in range(0, len(tenants), PIECE):
            piece = tenants[first : first + PIECE]
            commands: list[Command] = [
                ("HGETALL", keys.learned(tag_of(tenant), tenant)) for tenant in piece
            ]
            answers = await self._link.read(commands)
            for tenant, fields in zip(piece, answers, strict=True):
                found |= _told(tenant, fields)
        return found

    async def tenants(self) -> list[str]:
        """Return whose estimates something is known of. Raises like the others."""
        found = await self._link.scan(keys.LEARNED)
        return sorted(key.partition("}" + keys.LEARNED_OF)[2] for key in found)

    async def forget(self, tenant: str, spots: Sequence[Spot]) -> None:
        """See `CalibrationStore`."""
        rows: list[str | int] = []
        for spot in spots:
            rows += (_field(spot), 0, 0, 0, 0)
        await self._run(tenant, rows)

    async def _run(self, tenant: str, rows: Command) -> Sequence[bytes]:
        answer: Sequence[bytes] = await self._link.run(
            scripts.CALIBRATION,
            keys.learned(tag_of(tenant), tenant),
            [keys.LEARNED_KEPT_MS, MAX_FIELDS, *_BOUNDS, *rows],
            patient=True,
        )
        return answer


class MemoryCalibration:
    """The same in this process. *now_ms* is its clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._known: dict[str, dict[Spot, Learned]] = {}

    async def ping(self) -> None:
        """See `CalibrationStore`."""

    async def learn(
        self, tenant: str, batches: Mapping[Spot, Batch]
    ) -> Mapping[Spot, Learned]:
        """See `CalibrationStore`."""
        known, now_ms = self._known.setdefault(tenant, {}), self._now_ms()
        for spot, batch in batches.items():
            known[spot] = merged(known.get(spot), batch, now_ms)
        told = {spot: known[spot] for spot in batches}
        while len(known) > MAX_FIELDS:
            del known[min(known, key=lambda spot: (known[spot].at_ms, _field(spot)))]
        return told

    async def read(self, tenants: Sequence[str]) -> Mapping[Spot, Learned]:
        """See `CalibrationStore`."""
        return {
            spot: learned
            for tenant in tenants
            for spot, learned in self._known.get(tenant, {}).items()
        }

    async def forget(self, tenant: str, spots: Sequence[Spot]) -> None:
        """See `CalibrationStore`."""
        for spot in spots:
            self._known.get(tenant, {}).pop(spot, None)


def _field(spot: Spot) -> str:
    place, side = spot
    names = (place.provider, place.model, place.route, side)
    return SEPARATOR.join(name.replace(SEPARATOR, " ") for name in names)


def _told(tenant: str, fields: Mapping[bytes, bytes]) -> dict[Spot, Learned]:
    """Return what *fields* tell; what cannot be read tells nothing."""
    found: dict[Spot, Learned] = {}
    for name, text in fields.items():
        parts = name.decode("utf-8", "replace").split(SEPARATOR)
        learned = _learned(text)
        if learned and len(parts) == _NAMES and parts[-1] in {*Side}:
            provider, model, route, side = parts
            found[Place(tenant, provider, model, route), Side(side)] = learned
    return found


def _learned(text: Any) -> Learned | None:
    try:
        figures = [int(figure) for figure in text.split()]
    except ValueError:
        return None
    return Learned(*figures) if len(figures) == _FIGURES else None
