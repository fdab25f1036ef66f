"""
What an exchange costs with each transport in the whole product, limits on.

    python -m bench.transport_in_pod [--seconds 4] [--rounds 3] [--connections 16]

Starts a Valkey, a provider that answers at once, and for each transport an Envoy with one
processor (limits of requests, tokens and slots). Apps ask for JSON, as fast as they are
answered; transports are measured by turns. Figures are CPU of the processor per exchange,
median of the rounds, with the least and the most, and the best rate of a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from dataclasses import asdict
from statistics import median
from typing import Any

from bench.gateway.client import Task
from bench.gateway.loads import KEY, MODEL
from bench.transport import cpu_seconds
from tests.pod import Pod, policy, sha256
from tokenweir.transport.choice import Transport

LIMITS = [
    {"requests_per_minute": 100_000_000},
    {"tokens_per_minute": 10_000_000_000},
    {"concurrency": 10_000},
]
WARM_UP_SECONDS = 1.0


async def provider(stack: contextlib.AsyncExitStack) -> int:
    """Start one; *stack* ends it. Return its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.gateway.upstream"),
        stdout=asyncio.subprocess.PIPE,
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()
    return int(said.split()[-1])


def limited(port: int) -> dict[str, Any]:
    """Return the policy."""
    content = policy(port)
    content["models"] = {MODEL: {"provider": "openai", "max_output_tokens": 16_384}}
    key = {"id": "bench", "sha256": sha256(KEY.format(number=0))}
    content["tenants"] = {"acme": {"keys": [key], "quotas": LIMITS}}
    return content


async def ask(port: int, connections: int, seconds: float) -> tuple[int, float]:
    """Ask for so long; return how many exchanges there were, and in what time."""
    task = Task(port=port, streams=False, connections=connections, seconds=seconds)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.gateway.client", json.dumps(asdict(task))),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    seen = json.loads(out)
    if seen["broken"] or set(seen["statuses"]) - {"200"}:
        raise RuntimeError(f"not all were served: {seen}")
    return seen["requests"], seen["seconds"]


async def measure(seconds: float, rounds: int, connections: int) -> None:
    """Print the table."""
    async with contextlib.AsyncExitStack() as stack:
        content = limited(await provider(stack))
        pods = {
            transport: await stack.enter_async_context(
                Pod.start(content, arguments=["--transport", transport.value])
            )
            for transport in Transport
        }
        costs: dict[Transport, list[float]] = {each: [] for each in Transport}
        rates: dict[Transport, list[float]] = {each: [] for each in Transport}
        for pod in pods.values():
            await ask(pod.port, connections, WARM_UP_SECONDS)
        for _ in range(rounds):
            for transport, pod in pods.items():
                pid = pod.processors[0].process.pid
                before = cpu_seconds(pid)
                count, took = await ask(pod.port, connections, seconds)
                costs[transport].append((cpu_seconds(pid) - before) / count * 1e6)
                rates[transport].append(count / took)
        tell(costs, rates)


def tell(
    costs: dict[Transport, list[float]], rates: dict[Transport, list[float]]
) -> None:
    """Print the figures."""
    print(
        "| transport | processor's CPU us/exchange | best exchanges/s | ratio of CPU |"
    )
    print("|---|---|---|---|")
    for transport, cost in costs.items():
        ratio = median(costs[Transport.GRPCIO]) / median(cost)
        print(
            f"| {transport} | {median(cost):,.0f} ({min(cost):,.0f}-{max(cost):,.0f}) "
            f"| {max(rates[transport]):,.0f} | {ratio:.1f} |"
        )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.seconds, arguments.rounds, arguments.connections))


if __name__ == "__main__":
    main()
