"""How long a processor takes to be ready, and what memory it has then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

import yaml

from bench.gateway.children import spawn
from bench.gateway.policies import policy_of
from bench.gateway.processes import cpu_times, memory
from bench.gateway.spread import Spread, spread
from bench.gateway.stand import Site, serving
from bench.gateway.variants import Variant

STARTS = 3
# After which whatever is done once, beside the first exchanges, has been done.
IDLE_SECONDS = 3.0
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Startup:
    """
    Attributes:
        ready_seconds: From the start of the process until ``/readyz`` says yes.
        cpu_seconds: That it took until then.
        rss_mib: Resident memory while nobody asks anything; *pss_mib*: likewise, what
            is shared with others counted by halves.
        idle_cpu_percent: Of a core, meanwhile.
    """

    ready_seconds: Spread
    cpu_seconds: Spread
    rss_mib: Spread
    pss_mib: Spread
    idle_cpu_percent: Spread


def startup(site: Site, variant: Variant, starts: int = STARTS) -> Startup:
    """Start a processor of *variant* several times. Raises: RuntimeError."""
    policy = site.path("policy.yaml")
    policy.write_text(
        yaml.safe_dump(policy_of(variant, site.build, site.upstream_port))
    )
    url = site.ledger().url
    found = []
    for _ in range(starts):
        with ExitStack() as stack:
            command = site.serve_command(policy, site.path("sock"), url, variant)
            found.append(_start(command, site, stack))
    return Startup(*(_known(column) for column in zip(*found, strict=True)))


def _start(command: Sequence[str], site: Site, stack: ExitStack) -> tuple[float, ...]:
    began = time.monotonic()
    child = spawn(command, site.path("log"), stack)
    _until_ready(serving(child)["admin_port"])
    ready = time.monotonic() - began
    taken = cpu_times([child.pid])
    time.sleep(IDLE_SECONDS)
    idle = cpu_times([child.pid]).since(taken)
    held = memory([child.pid])
    spent = sum(taken.by_thread.values()) / 1e9
    return ready, spent, held["rss_mib"], held["pss_mib"], 100 * idle / IDLE_SECONDS


def _until_ready(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.005)
    raise RuntimeError("the processor did not become ready")


def _known(figures: Sequence[float]) -> Spread:
    found = spread(figures)
    assert found is not None
    return found
