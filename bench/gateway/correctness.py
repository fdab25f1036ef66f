"""
Over-admission: many sidecars, many streams at once, one ledger, and one limit.

Each sidecar is asked for as many streams of the same size, all at the same time, of
which the limit has room for about half. The provider holds the streams that reach it.
Once each request is either there or refused, those that are there are what has been
admitted at one moment. Three tell how many: the provider, the ledger's holds, and the
apps' answers. Their reservations must not exceed what the limit can have had.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import redis

from bench.gateway.cell import ask
from bench.gateway.client import Seen, Task
from bench.gateway.policies import policy_of
from bench.gateway.settled import held, settled, until
from bench.gateway.stand import AT_ONCE, Site, Stand
from bench.gateway.upstream import held_by, release
from bench.gateway.variants import Variant

SIDECARS, STREAMS = 4, 200
MAX_TOKENS = 1_000
# One a second: what comes back while it is measured is next to nothing.
TOKENS_PER_MINUTE = 60
# The share of what is asked for that there is room for.
ROOM = 0.5
_PATIENCE_SECONDS = 60.0
# Of each sidecar. More at once, and on a busy machine some would wait for longer than a
# processor lets anybody wait: streams stay open, so all are in the end.
_BEGIN_PER_SECOND = 25
_REFUSALS = ("http.apps.downstream_rq_4xx", "http.apps.downstream_rq_5xx")


@dataclass(frozen=True, slots=True)
class Admission:
    """
    Attributes:
        variant: Of the sidecars.
        sidecars: So many, each asked for *streams*.
        capacity: Of the limit, in tokens.
        each: What one stream reserves.
        admitted: Streams that were open at one moment.
        refused: Those that were refused meanwhile.
        over: Tokens that were admitted above what there can have been. Must be 0.
        unused: Of the capacity, what no stream that was refused could have used less
            than: tokens that leases, say, have kept from them.
        wrong: What else was wrong, a line each.
    """

    variant: str
    sidecars: int
    streams: int
    capacity: int
    each: int
    admitted: int
    refused: int
    over: int
    unused: int
    wrong: Sequence[str]


def over_admitted(
    admitted: int, each: int, capacity: int, seconds: float
) -> tuple[int, int]:
    """Return the tokens above what there was, and those that one more would fit in."""
    room = capacity + int(TOKENS_PER_MINUTE * seconds / 60) + 1
    taken = admitted * each
    left = room - taken
    return max(0, -left), left if left >= each else 0


def admission(
    site: Site, variant: Variant, sidecars: int = SIDECARS, streams: int = STREAMS
) -> Admission:
    """Let it come to it once. Raises: RuntimeError, CalledProcessError."""
    with ExitStack() as stack:
        own = site.within(stack)
        each = _reserved_by_one(own, variant)
        capacity = int(sidecars * streams * ROOM) * each + each // 2
        ledger = own.ledger()
        content = policy_of(variant, own.build, own.upstream_port)
        quota = {"tokens_per_minute": TOKENS_PER_MINUTE, "capacity": capacity}
        content["tenants"]["bench-0"]["quotas"] = [quota]
        content["calibration"] = False  # all reserve the same, to the end
        with ThreadPoolExecutor(AT_ONCE) as threads:
            stands = list(
                threads.map(
                    lambda _: own.tokenweir_under(content, variant, ledger),
                    range(sidecars),
                )
            )
        return _judge(own, stands, streams, capacity, each)


def _task(port: int, streams: int) -> Task:
    return Task(
        port,
        streams=True,
        connections=streams,
        seconds=_PATIENCE_SECONDS,
        pace="hold",
        chunks=3,
        most=streams,
        texts=1,
        max_tokens=MAX_TOKENS,
        stagger_seconds=streams / _BEGIN_PER_SECOND,
    )


def _reserved_by_one(site: Site, variant: Variant) -> int:
    """Return what one stream reserves, by the ledger."""
    alone = Variant(variant.kind, variant.path, "redis", variant.transport)
    content = policy_of(alone, site.build, site.upstream_port)
    content["calibration"] = False
    stand = site.tokenweir_under(content, alone)
    assert stand.ledger is not None
    ledger = stand.ledger
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(ask, _task(stand.port, 1))
        try:
            if not until(lambda: held_by(site.upstream_port) == 1):
                raise RuntimeError("the one stream did not get to the provider")
            with redis.Redis(unix_socket_path=str(ledger.path)) as client:
                keys = list(client.scan_iter(match="*:b:*tokens*"))
                return sum(int(client.get(key).split()[2]) for key in keys)
        finally:
            release(site.upstream_port)
            asking.result()


def _judge(
    site: Site, stands: Sequence[Stand], streams: int, capacity: int, each: int
) -> Admission:
    ledger = stands[0].ledger
    assert ledger is not None
    began = time.monotonic()
    with ThreadPoolExecutor(len(stands)) as threads:
        asking = [threads.submit(ask, _task(s.port, streams)) for s in stands]
        asked = len(stands) * streams
        is_answered = until(
            lambda: held_by(site.upstream_port) + _refused(stands) >= asked,
            _PATIENCE_SECONDS,
        )
        took = time.monotonic() - began
        admitted, holds = held_by(site.upstream_port), held(ledger)
        release(site.upstream_port)
        seen = [future.result() for future in asking]
    over, unused = over_admitted(admitted, each, capacity, took)
    wrong = [] if is_answered else ["not every request was answered"]
    wrong += _disagreeing(
        seen, admitted, holds, leased=stands[0].variant.limits == "leases"
    )
    wrong += settled(stands[0], admitted)
    return Admission(
        stands[0].variant.name,
        *(len(stands), streams, capacity, each, admitted),
        refused=sum(each.statuses.get("429", 0) for each in seen),
        over=over,
        unused=unused,
        wrong=wrong,
    )


def _disagreeing(
    seen: Sequence[Seen], admitted: int, holds: int, *, leased: bool
) -> list[str]:
    lines = []
    answered = sum(each.requests for each in seen)
    if answered != admitted:
        lines.append(
            f"{admitted} streams reached the provider, {answered} were answered"
        )
    if holds != admitted and not leased:
        lines.append(f"{admitted} streams reached the provider, {holds} were held")
    odd = {status for each in seen for status in each.statuses} - {"200", "429"}
    lines += [f"status {status}" for status in sorted(odd)]
    return lines


def _refused(stands: Sequence[Stand]) -> int:
    return sum(
        stand.envoy.stats(name).get(name, 0)
        for stand in stands
        for name in _REFUSALS
        if stand.envoy
    )
