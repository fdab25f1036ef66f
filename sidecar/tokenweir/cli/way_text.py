"""The way of an admitted request, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.cli.table import shown
from tokenweir.core.response_path import ResponsePath
from tokenweir.explain.explanation import Explanation
from tokenweir.explain.way import RETRIED, Way, way_of

_READERS = {
    ResponsePath.NATIVE: "read by Envoy",
    ResponsePath.OBSERVE: "read by the processor, from a copy",
    ResponsePath.INSPECT: "read by the processor",
}


def way_text(told: Explanation) -> Iterator[str]:
    """Yield what is said of it, a line each; nothing if it is refused."""
    way = way_of(told)
    if way is None:
        return
    yield f"  route: {way.route}, {way.method} {shown(way.url)}"
    yield f"  waits: {_waits(way)}; {_retries(way)}"
    if way.set_headers or way.removed_headers:
        yield f"  headers: {_headers(way)}"
    reader = _READERS[way.path] if way.is_read else "passes unread"
    yield f"  answer: {reader} ({way.path})"


def _waits(way: Way) -> str:
    total_ms, idle_ms = way.timeouts.total_ms, way.timeouts.idle_ms
    total = _seconds(total_ms) if total_ms else "as long as it takes"
    return f"{total} in all, {_seconds(idle_ms)} without a byte"


def _retries(way: Way) -> str:
    if not way.retries:
        return "tried once"
    times = "once more" if way.retries == 1 else f"up to {way.retries} times more"
    return f"tried {times} ({', '.join(RETRIED)})"


def _headers(way: Way) -> str:
    kinds = (("sets", way.set_headers), ("takes out", way.removed_headers))
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in kinds if names)


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1_000:,g} s"
