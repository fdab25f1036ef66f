"""What is compared: how each is started, and which capabilities it needs."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.gateway.capabilities import Build
from bench.gateway.loads import LOADS, Load

PATHS = ("native", "observe", "inspect")
TRANSPORTS = ("asyncio", "grpcio")
# LiteLLM's one worker is busy all the time with more, and then every figure of time
# would be that of its queue.
LITELLM_PER_SECOND = 30.0


class Kind(enum.StrEnum):
    """What stands between the apps and the provider."""

    ALONE = "Envoy alone"
    NOOP = "Envoy + no-op ext_proc"
    TOKENWEIR = "Tokenweir"
    LITELLM = "LiteLLM"


@dataclass(frozen=True, slots=True)
class Variant:
    """
    Attributes:
        kind: See `Kind`.
        path: By which responses are read; ``""``: by none.
        limits: ``off``, ``memory``, ``redis`` or ``leases``.
        transport: Between Envoy and processor.
        workers: Processors.
        is_full: Whether it gets every load, not the main ones only.
        per_second: The most that a paced load asks of it; None: no bound.
    """

    kind: Kind
    path: str = ""
    limits: str = ""
    transport: str = ""
    workers: int = 1
    is_full: bool = False
    per_second: float | None = None

    @property
    def name(self) -> str:
        """By which it goes in results."""
        parts = (self.path, self.limits and f"limits {self.limits}", self.transport)
        return ", ".join((self.kind.value, *(part for part in parts if part)))

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities without which it is skipped."""
        chosen = (("path", self.path), ("transport", self.transport))
        needs = [f"{what}:{value}" for what, value in chosen if value]
        if self.kind is Kind.TOKENWEIR:
            needs.append(f"limits:{self.limits}")
        if self.kind is Kind.LITELLM:
            needs.append("litellm")
        return tuple(needs)

    def missing(self, known: frozenset[str]) -> list[str]:
        """Return the capabilities that it needs and that are not *known*."""
        return [need for need in self.needs if need not in known]

    def loads(self) -> list[Load]:
        """Return the loads that it is put under."""
        return [load for load in LOADS if self.is_full or load.is_main]


def variants() -> list[Variant]:
    """Return all, whatever this build can do; the first is Envoy alone."""
    return [
        Variant(Kind.ALONE, is_full=True),
        *(Variant(Kind.NOOP, transport=each, is_full=True) for each in TRANSPORTS),
        *_tokenweirs(),
        Variant(Kind.LITELLM, is_full=True, per_second=LITELLM_PER_SECOND),
    ]


def _tokenweirs() -> Iterator[Variant]:
    for path in PATHS:
        for limits in ("redis", "leases", "memory", "off"):
            for transport in TRANSPORTS:
                yield Variant(
                    Kind.TOKENWEIR,
                    path,
                    limits,
                    transport,
                    is_full=limits == "redis" and path != "observe",
                )


def choose(
    everything: Sequence[Variant], build: Build, wanted: str = ""
) -> tuple[list[Variant], dict[str, list[str]]]:
    """
    Return the variants that can be measured, and what the others lack, by name.

    *wanted*: only those in whose names it stands; Envoy alone stays, as the measure of
    all others.
    """
    chosen, skipped = [], {}
    for variant in everything:
        is_wanted = wanted.lower() in variant.name.lower()
        if not is_wanted and variant.kind is not Kind.ALONE:
            continue
        missing = variant.missing(build.known)
        if missing:
            skipped[variant.name] = missing
        else:
            chosen.append(variant)
    return chosen, skipped
