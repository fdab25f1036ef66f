"""
What a request costs that the processor is shown in one message, and in two.

    python -m bench.request_messages [--rounds 40] [--calls 200] [--connections 8]

One processor serves two Envoys by turns: one as it is rendered, the other so that every
request goes the long way. JSON calls without a body to edit; each round asks both, so
that what else the machine does is in both. Prints a table of medians, each with the range
in which half of the rounds are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from dataclasses import dataclass, field
from typing import Any

from bench.gateway.processes import cpu_times
from tests.envoy_process import EnvoyProcess
from tests.pod import CREDENTIAL, KEY, Pod, policy
from tests.scripted_upstream import ScriptedUpstream, reply
from tests.wire import REPLY
from tokenweir.config.load import load_policy
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.filters import WHOLE_LIMIT_BYTES
from tokenweir.envoyconf.settings import EnvoySettings

SENT = "http.apps.ext_proc.admission.stream_msgs_sent"
SDK_HEADERS = "".join(
    f"x-stainless-{name}: {value}\r\n"
    for name, value in {
        "lang": "python",
        "package-version": "2.8.1",
        "os": "Linux",
        "arch": "x64",
        "runtime": "CPython",
        "runtime-version": "3.11.7",
        "async": "async:asyncio",
        "retry-count": "0",
        "read-timeout": "600",
    }.items()
)


@dataclass
class Way:
    """
    One Envoy, and what was measured of it.

    Attributes:
        envoy: Its process.
        figures: By name, one of each round.
    """

    envoy: EnvoyProcess
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, figure: float) -> None:
        """Keep the *figure* of a round."""
        self.figures.setdefault(name, []).append(figure)


def call(prompt_bytes: int) -> bytes:
    """Return a request as OpenAI's SDK for Python sends it."""
    prompt = "All work and no play makes Jack a dull boy. " * (prompt_bytes // 44 + 1)
    messages = [{"role": "user", "content": prompt[:prompt_bytes]}]
    body = json.dumps({"model": "gpt-4o", "messages": messages, "max_tokens": 50})
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: tokenweir\r\n"
        "accept-encoding: gzip, deflate\r\naccept: application/json\r\n"
        "content-type: application/json\r\nuser-agent: AsyncOpenAI/Python 2.8.1\r\n"
        f"{SDK_HEADERS}authorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


async def ask(port: int, request: bytes, times: int) -> None:
    """Send *request* so many times on one connection. Raises: ValueError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(times):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head.decode())
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


async def measure(
    way: Way, processor: int, request: bytes, *, calls: int, connections: int
) -> None:
    """Ask through *way*, and note what it cost per call."""
    pids = {"Envoy": way.envoy.pid, "processor": processor}
    sent = way.envoy.stats(SENT)[SENT]
    before = {name: cpu_times([pid]) for name, pid in pids.items()}
    each = calls // connections
    asked = (ask(way.envoy.port, request, each) for _ in range(connections))
    await asyncio.gather(*asked)
    made = each * connections
    for name, pid in pids.items():
        spent = cpu_times([pid]).since(before[name])
        way.note(f"{name}, µs of CPU", spent / made * 1e6)
    way.note("messages", (way.envoy.stats(SENT)[SENT] - sent) / made)


def two_envoys(pod: Pod, environment: dict[str, str]) -> dict[str, Way]:
    """Start an Envoy for each way, beside the *pod*'s own."""
    sockets = tuple(str(each.socket) for each in pod.processors)
    settings = EnvoySettings(
        listen_port=0, processor_sockets=sockets, admission_timeout_ms=30_000
    )
    rendered = json.dumps(render(load_policy(pod.policy_path, environment), settings))
    limit = f"local WHOLE_LIMIT = {WHOLE_LIMIT_BYTES}"
    if limit not in rendered:
        raise ValueError("no limit of what is shown whole")
    never = rendered.replace(limit, "local WHOLE_LIMIT = 0")
    texts = {"one message": rendered, "two messages": never}
    return {name: Way(EnvoyProcess.start(json.loads(it))) for name, it in texts.items()}


def table(ways: dict[str, Way]) -> str:
    """Return what was measured, and by how much the first way is cheaper."""
    [one, two] = ways.values()
    lines = [f"| per call | {' | '.join(ways)} | ratio |", "|---|---|---|---|"]
    for name, figures in one.figures.items():
        ratios = [a / b for a, b in zip(figures, two.figures[name], strict=True)]
        digits = 0 if "CPU" in name else 1
        told = [middle(figures, digits), middle(two.figures[name], digits)]
        lines.append(f"| {name} | {' | '.join(told)} | {middle(ratios, 2)} |")
    return "\n".join(lines)


def middle(figures: list[float], digits: int) -> str:
    """Return the median of *figures*, and in which range half of them are."""
    low, median, high = statistics.quantiles(figures, n=4)
    texts = [f"{figure:,.{digits}f}" for figure in (median, low, high)]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]}-{texts[2]})"


async def run(args: argparse.Namespace) -> None:
    """Measure, and print the table."""
    environment = {"OPENAI_API_KEY": CREDENTIAL, "ANTHROPIC_API_KEY": CREDENTIAL}
    quotas = [{"tokens_per_minute": 10_000_000_000}, {"concurrency": 1_000}]
    async with ScriptedUpstream() as upstream:
        upstream.play(reply(REPLY))
        content: dict[str, Any] = policy(upstream.port, quotas=quotas)
        content["responses"] = {"path": args.path}
        async with Pod.start(content) as pod:
            ways = await asyncio.to_thread(two_envoys, pod, environment)
            request, pid = call(args.prompt_bytes), pod.processors[0].process.pid
            for number in range(args.rounds + 1):
                for way in ways.values():
                    await measure(
                        way,
                        pid,
                        request,
                        calls=args.calls,
                        connections=args.connections,
                    )
                    if number == 0:  # to warm up
                        way.figures.clear()
                upstream.requests.clear()
            for way in ways.values():
                way.envoy.stop()
            print(table(ways))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=200, help="a round and way")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--prompt-bytes", type=int, default=4_096)
    parser.add_argument("--path", default="inspect", help="see docs/response-paths.md")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
