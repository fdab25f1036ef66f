"""
Many streams that are open at once and say little: does anything break, and what
does it cost in memory?

    python -m bench.open_streams [--streams 2500] [--chunks 6] [--pause 10]

Prints a line for each process, and exits 1 if any stream failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path

from tests.pod import KEY, Pod, policy
from tests.scripted_upstream import chunk, head

BODY = json.dumps(
    {
        "model": "gpt-4o",
        "stream": True,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Think slowly."}],
    }
).encode()
REQUEST = (
    "POST /v1/chat/completions HTTP/1.1\r\nhost: tokenweir\r\n"
    f"authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
    f"content-length: {len(BODY)}\r\n\r\n"
).encode() + BODY
HEAD = head(
    headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
)
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":" hm"}}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":6,'
    b'"total_tokens":15}}\n\ndata: [DONE]\n\n'
)


async def upstream(chunks: int, pause_seconds: float) -> asyncio.Server:
    """Serve slow streams on a free port."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(HEAD)
                for _ in range(chunks):
                    writer.write(chunk(DELTA))
                    await writer.drain()
                    await asyncio.sleep(pause_seconds)
                writer.write(chunk(USAGE) + b"0\r\n\r\n")
        except (
            asyncio.IncompleteReadError,
            asyncio.CancelledError,  # the benchmark is over
            ConnectionError,
        ):
            writer.close()

    return await asyncio.start_server(play, "127.0.0.1", 0, backlog=4096)


async def call(port: int, delay_seconds: float) -> bool:
    """Read one stream to its end; tell if it was whole."""
    await asyncio.sleep(delay_seconds)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    status, received = b"", b""
    try:
        status = await reader.readuntil(b"\r\n")
        if b" 200 " in status:
            received = await reader.readuntil(b"\r\n0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        print("cut:", type(error).__name__, status.decode())
    writer.close()
    if b"[DONE]" not in received:
        print("failed:", status.decode().strip())
    return b"[DONE]" in received


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} is gone")


async def measure(streams: int, chunks: int, pause_seconds: float) -> int:
    """Run it; return how many streams failed."""
    # All of them are open at once for half of the time.
    per_second = 2 * streams / (chunks * pause_seconds)
    server = await upstream(chunks, pause_seconds)
    port = server.sockets[0].getsockname()[1]
    quotas = [{"tokens_per_minute": 100_000_000}, {"concurrency": streams}]
    async with Pod.start(policy(port, quotas=quotas)) as pod:
        pids = {"envoy": pod.envoy.pid, "processor": pod.processors[0].process.pid}
        before = {name: resident_mib(pid) for name, pid in pids.items()}
        began = time.monotonic()
        calls = [
            asyncio.create_task(call(pod.port, number / per_second))
            for number in range(streams)
        ]
        await asyncio.sleep(streams / per_second + pause_seconds)
        for name, pid in pids.items():
            now = resident_mib(pid)
            each = (now - before[name]) * 1024 / streams
            print(
                f"{name}: {before[name]:.0f} MiB idle, {now:.0f} MiB with {streams} "
                f"streams open: {each:.1f} KiB a stream"
            )
        held = await pod.ledger.outstanding()
        print(f"holds outstanding meanwhile: {held}")
        whole = await asyncio.gather(*calls)
        await pod.settled()
        total = await pod.ledger.total()
        ends = Counter(
            (record["outcome"], record["source"])
            for record in await pod.ledger.records()
        )
        print("settled as:", dict(ends))
        failed = whole.count(False)
        print(
            f"{streams} streams of {chunks} chunks, {pause_seconds:g} s apart, in "
            f"{time.monotonic() - began:.0f} s: {failed} failed; settled {total}, "
            f"expected {(9 * (streams - failed), 6 * (streams - failed))}"
        )
    server.close()
    return failed


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2_500)
    parser.add_argument("--chunks", type=int, default=12)
    parser.add_argument("--pause", type=float, default=10.0)
    args = parser.parse_args()
    failed = asyncio.run(measure(args.streams, args.chunks, args.pause))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
