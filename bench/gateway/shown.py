"""The goals of the project that this run has figures for, and whether they are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.gateway.correctness import Admission
from bench.gateway.startup import Startup
from bench.gateway.summary import Summary, median
from bench.gateway.variants import Kind, Variant

MET, MISSED, UNKNOWN = "met", "missed", "not measured"
_JSON, _SSE = "json-16", "sse-16-paced"
# Of what Envoy alone passes under the same load.
LEAST_SHARE = {"asyncio": 0.35, "grpcio": 0.08}
CHEAPER_THAN_LITELLM = {"asyncio": 50, "grpcio": 15}


@dataclass(frozen=True, slots=True)
class Goal:
    """
    Attributes:
        text: What is wanted.
        found: What was measured; ``""``: nothing.
        verdict: One of `MET`, `MISSED`, `UNKNOWN`.
    """

    text: str
    found: str
    verdict: str


def goals(
    summary: Summary, admissions: Sequence[Admission], startups: Mapping[str, Startup]
) -> list[Goal]:
    """Return all of them."""
    return [
        *_native_streams(summary),
        *(_share(summary, transport) for transport in LEAST_SHARE),
        *(_against_litellm(summary, transport) for transport in CHEAPER_THAN_LITELLM),
        _streams_against_litellm(summary),
        _added_against_litellm(summary),
        _calls(summary, "redis", 2.0),
        _calls(summary, "leases", 0.1),
        *_over_admission(admissions),
        *_startup(startups),
    ]


def as_markdown(found: Sequence[Goal]) -> str:
    """Return *found* as a table."""
    lines = ["| goal | found | |", "|---|---|---|"]
    lines += [f"| {g.text} | {g.found or '-'} | {g.verdict} |" for g in found]
    return "\n".join(lines)


def _at_most(text: str, figure: float | None, most: float, told: str) -> Goal:
    if figure is None:
        return Goal(text, "", UNKNOWN)
    return Goal(text, told.format(figure), MET if figure <= most else MISSED)


def _at_least(text: str, figure: float | None, least: float, told: str) -> Goal:
    if figure is None:
        return Goal(text, "", UNKNOWN)
    return Goal(text, told.format(figure), MET if figure >= least else MISSED)


def _name(path: str, limits: str, transport: str) -> str:
    return Variant(Kind.TOKENWEIR, path, limits, transport).name


def _best(summary: Summary, limits: str, transport: str = "") -> str | None:
    """Return the variant of the cheapest path that was measured."""
    names = (
        _name(path, limits, each)
        for path in ("native", "inspect")
        for each in ((transport,) if transport else ("asyncio", "grpcio"))
    )
    return next((name for name in names if name in summary), None)


def _native_streams(summary: Summary) -> list[Goal]:
    text = "CPU of the processor for a 100-chunk stream in `native` ≤ 1.5 x a JSON exchange"
    name = next(
        (n for t in LEAST_SHARE if (n := _name("native", "redis", t)) in summary), None
    )
    if name is None:
        return [
            Goal(text, "", UNKNOWN),
            Goal("no time added between chunks in `native`", "", UNKNOWN),
        ]
    stream = median(summary, name, _SSE, "cpu_us_processor")
    json = median(summary, name, "json-16-paced", "cpu_us_processor")
    ratio = stream / json if stream and json else None
    return [_at_most(text, ratio, 1.5, "{:.2f} x"), _gaps(summary, name)]


def _gaps(summary: Summary, name: str) -> Goal:
    text = "no time added between chunks in `native` (within Envoy alone's spread)"
    found = []
    is_within = True
    for figure in ("gap_p50_ms", "gap_p99_ms"):
        ours = summary[name].get(_SSE, {}).get(figure)
        alone = summary.get(Kind.ALONE.value, {}).get(_SSE, {}).get(figure)
        if ours is None or alone is None:
            return Goal(text, "", UNKNOWN)
        is_within &= ours.median <= alone.high
        found.append(f"{ours.median:.2f} ms, Envoy alone {alone.text(2)}")
    return Goal(text, "; ".join(found), MET if is_within else MISSED)


def _share(summary: Summary, transport: str) -> Goal:
    least = LEAST_SHARE[transport]
    text = (
        f"saturated JSON, limits on Redis, {transport}: "
        f"≥ {least:.0%} of Envoy alone's requests/s"
    )
    name = _best(summary, "redis", transport)
    share = median(summary, name, _JSON, "ratio_per_second") if name else None
    return _at_least(text, share, least, "{:.1%}")


def _against_litellm(summary: Summary, transport: str) -> Goal:
    least = CHEAPER_THAN_LITELLM[transport]
    text = f"CPU of a JSON exchange, {transport}: ≥ {least} x less than LiteLLM's"
    return _at_least(
        text,
        _ratio(summary, _JSON, _best(summary, "redis", transport)),
        least,
        "{:.1f} x",
    )


def _streams_against_litellm(summary: Summary) -> Goal:
    text = "CPU of a 100-chunk stream in `native`: ≥ 50 x less than LiteLLM's"
    name = next(
        (n for t in LEAST_SHARE if (n := _name("native", "redis", t)) in summary), None
    )
    return _at_least(text, _ratio(summary, _SSE, name), 50, "{:.1f} x")


def _ratio(summary: Summary, load: str, name: str | None) -> float | None:
    """Return how many times the processor's CPU LiteLLM's takes."""
    ours = median(summary, name, load, "cpu_us_processor") if name else None
    theirs = median(summary, Kind.LITELLM.value, load, "cpu_us_proxy")
    return theirs / ours if ours and theirs else None


def _added_against_litellm(summary: Summary) -> Goal:
    text = "added p99 at c=16, limits and Redis on: ≤ 1/20 of LiteLLM's"
    name = _best(summary, "redis")
    ours = median(summary, name, _JSON, "added_latency_p99_ms") if name else None
    theirs = median(summary, Kind.LITELLM.value, _JSON, "added_latency_p99_ms")
    if ours is None or not theirs:
        return Goal(text, "", UNKNOWN)
    verdict = MET if ours <= theirs / 20 else MISSED
    return Goal(text, f"{ours:.1f} ms against {theirs:.1f} ms", verdict)


def _calls(summary: Summary, limits: str, most: float) -> Goal:
    text = f"Redis calls an exchange, limits {limits}: ≤ {most:g}"
    name = _best(summary, limits)
    calls = median(summary, name, _JSON, "ledger_calls") if name else None
    # Sweeps and the like are calls of no exchange: a hundredth is no third call.
    return _at_most(text, calls, 1.01 * most, "{:.2f}")


def _over_admission(admissions: Sequence[Admission]) -> list[Goal]:
    text = "tokens admitted above capacity: 0"
    if not admissions:
        return [Goal(text, "", UNKNOWN)]
    return [
        _at_most(f"{text} ({each.variant})", float(each.over), 0.0, "{:.0f}")
        for each in admissions
    ]


def _startup(startups: Mapping[str, Startup]) -> list[Goal]:
    found = []
    for name, startup in startups.items():
        found += [
            _at_most(
                f"idle processor ≤ 120 MB resident ({name})",
                startup.rss_mib.median * 1.048576,
                120.0,
                "{:.0f} MB",
            ),
            _at_most(
                f"ready in ≤ 1 s after start ({name})",
                startup.ready_seconds.median,
                1.0,
                "{:.2f} s",
            ),
        ]
    return found
