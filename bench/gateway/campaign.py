"""What is done in which order: a full run, a minute's, or the correctness part."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.gateway import checks
from bench.gateway.correctness import Admission, admission
from bench.gateway.loads import BY_NAME
from bench.gateway.processes import memory
from bench.gateway.result import Result
from bench.gateway.rounds import WARM_UP, Plan, plan, run
from bench.gateway.settled import settled
from bench.gateway.stand import Site
from bench.gateway.startup import startup
from bench.gateway.variants import PATHS, TRANSPORTS, Kind, Variant, choose, variants

SMOKE_LOADS = ("json-16", "json-16-paced", "sse-16-paced")
SMOKE_SECONDS = 0.4
MOST_STARTUPS = 2
SMOKE_SIDECARS, SMOKE_STREAMS = 2, 40


@dataclass(frozen=True)
class Campaign:
    """
    Attributes:
        site: Where.
        result: Gets what is found.
        only: See `variants.choose`.
        rounds: Of each load.
        budget_seconds: What all may take together.
    """

    site: Site
    result: Result
    only: str
    rounds: int
    budget_seconds: float


def full(campaign: Campaign) -> None:
    """Measure all that this build can be, and what it takes to start and to be right."""
    began = time.monotonic()
    site, result = campaign.site, campaign.result
    chosen, result.skipped = choose(variants(), site.build, campaign.only)
    _tell(result.skipped)
    representatives = _representatives(chosen)
    for variant in representatives[:MOST_STARTUPS]:
        result.startups[variant.name] = startup(site, variant)
    for variant in _ways_to_limit(chosen):
        _admit(campaign, admission(site, variant))
    stands = site.start_all(chosen)
    took = time.monotonic() - began
    print(f"{len(stands)} variants run after {took:.0f} s", file=sys.stderr)
    left = campaign.budget_seconds - took
    _measure(campaign, plan(stands, left, campaign.rounds))


def smoke(campaign: Campaign) -> None:
    """Measure a little of a few: enough to see that every part works."""
    site, result = campaign.site, campaign.result
    chosen, result.skipped = choose(variants(), site.build, campaign.only)
    few = [each for each in chosen if each.kind is not Kind.TOKENWEIR]
    few += _representatives(chosen)
    for variant in _ways_to_limit(chosen):
        _admit(campaign, admission(site, variant, SMOKE_SIDECARS, SMOKE_STREAMS))
    stands = site.start_all(few)
    loads = [BY_NAME[name] for name in SMOKE_LOADS]
    _measure(campaign, Plan(stands, loads, 1, SMOKE_SECONDS))


def only_correctness(campaign: Campaign) -> None:
    """Look for over-admission by every path, transport and way to limit."""
    chosen, campaign.result.skipped = choose(
        variants(), campaign.site.build, campaign.only
    )
    for variant in chosen:
        if variant.kind is Kind.TOKENWEIR and variant.limits != "off":
            _admit(campaign, admission(campaign.site, variant))


def _measure(campaign: Campaign, chosen: Plan) -> None:
    result, upstream = campaign.result, campaign.site.upstream
    cells = list(run(chosen, upstream))
    result.cells += [cell for cell in cells if cell.round != WARM_UP]
    answered = Counter({stand.variant.name: 0 for stand in chosen.stands})
    for cell in cells:
        answered[cell.variant] += cell.requests
    for stand in chosen.stands:
        result.memory[stand.variant.name] = {
            role: round(memory(pids)["rss_mib"], 1)
            for role, pids in stand.roots.items()
        }
        if stand.variant.kind is Kind.TOKENWEIR:
            result.wrong += settled(stand, answered[stand.variant.name])
    expected = [(stand.variant.name, load.name) for load, stand in chosen.pairs()]
    result.wrong += checks.broken(result.cells, expected)
    result.warnings += checks.in_the_way(result.cells)


def _admit(campaign: Campaign, found: Admission) -> None:
    campaign.result.admissions.append(found)
    wrong = [f"over-admission, {found.variant}: {line}" for line in found.wrong]
    if found.over:
        wrong.append(f"{found.variant}: {found.over} tokens admitted above capacity")
    campaign.result.wrong += wrong


def _representatives(chosen: Sequence[Variant]) -> list[Variant]:
    """Return one for each path and each transport, with limits on Redis."""
    found: dict[tuple[str, str], Variant] = {}
    for variant in _limited(chosen, "redis"):
        found.setdefault(("path", variant.path), variant)
        found.setdefault(("transport", variant.transport), variant)
    return list(dict.fromkeys(found.values()))


def _ways_to_limit(chosen: Sequence[Variant]) -> list[Variant]:
    """Return one for each way to limit, of the path and transport that come first."""
    found: dict[str, Variant] = {}
    for limits in ("redis", "leases"):
        for variant in _limited(chosen, limits):
            found.setdefault(limits, variant)
    return list(found.values())


def _limited(chosen: Sequence[Variant], limits: str) -> list[Variant]:
    found = [v for v in chosen if v.kind is Kind.TOKENWEIR and v.limits == limits]
    return sorted(
        found, key=lambda v: (PATHS.index(v.path), TRANSPORTS.index(v.transport))
    )


def _tell(skipped: Mapping[str, Sequence[str]]) -> None:
    for name, missing in skipped.items():
        print(
            f"skipped: {name} (not in this build: {', '.join(missing)})",
            file=sys.stderr,
        )
