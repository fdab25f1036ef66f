"""
How well each path of answers knows what has passed of a stream that is cut.

    python -m bench.cut_streams [--cuts 40] [--write]

Streams of two APIs, short and long, in pieces of one and of many events, are cut at many
places: also in the middle of an event. What is charged is compared with what a tokenizer
counts of all the text that has passed whole. Envoy's script runs under Envoy's LuaJIT;
the rest is our code, with the real tokenizer. `--write` puts the table into
docs/response-paths.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.page import put_table
from tests.accesslog.settled import in_line, native, observed
from tests.envoyconf.told_bodies import Body
from tests.envoyconf.watched import Watch
from tokenweir.tokenizers.counter import CountLimits, TokenCounter

PAGE = Path(__file__).parent.parent / "docs" / "response-paths.md"
TABLE = "cut streams"
SSE = "text/event-stream"
LENGTHS = (20, 100, 1_000, 5_000)
# Events that come in one piece.
TOGETHER = (1, 8)
SEED = 20
WORDS = [
    "the",
    "water",
    "of",
    "a",
    "weir",
    "falls",
    "quietly",
    "where",
    "there",
    "is",
    "little",
    "and",
    "foams",
    "in",
    "spring",
    "when",
    "snow",
    "melts;",
    "engineers",
    "measure",
    "its",
    "level,",
    "in",
    "metres,",
    "to",
    "know",
    "3.14",
    "times",
    "how",
    "much",
    "passes:",
    "über",
    "das",
    "Wehr",
    "—",
    "堡",
    "{code:",
    "return",
    "x}",
    '"quoted"',
    "\n\n",
]


def chat(words: Sequence[str]) -> Body:
    """Return a stream of chat completions."""
    made = {"id": "chatcmpl-8fQ3k", "object": "chat.completion.chunk"}
    made |= {"created": "1767268800", "model": "gpt-4o-2024-08-06"}

    def event(word: str) -> bytes:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        return b"data: " + json.dumps(made | {"choices": [choice]}).encode() + b"\n\n"

    pieces = tuple(event(word) for word in words)
    return Body("chat", "/v1/chat/completions", SSE, pieces)


def messages(words: Sequence[str]) -> Body:
    """Return a stream of Anthropic's messages."""

    def event(name: str, **members: object) -> bytes:
        data = json.dumps({"type": name, **members})
        return f"event: {name}\ndata: {data}\n\n".encode()

    usage = {"input_tokens": 11, "output_tokens": 1}
    begun = event("message_start", message={"model": "claude", "usage": usage})
    deltas = (
        event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": word}
        )
        for word in words
    )
    return Body("messages", "/v1/messages", SSE, (begun, *deltas))


def streams() -> Iterator[tuple[int, Body]]:
    """Yield how long each is, in deltas, and the stream in the pieces that it comes in."""
    chance = random.Random(SEED)
    for length in LENGTHS:
        words = [f"{chance.choice(WORDS)} " for _ in range(length)]
        for body in (chat(words), messages(words)):
            for together in TOGETHER:
                joined = [
                    b"".join(body.pieces[at : at + together])
                    for at in range(0, len(body.pieces), together)
                ]
                yield length, Body(body.name, body.path, SSE, tuple(joined))


def cut(pieces: Sequence[bytes], chance: random.Random) -> list[bytes]:
    """Return what comes of *pieces*, up to some byte of one of them."""
    count = chance.randrange(1, len(pieces))
    last = pieces[count][: chance.randrange(len(pieces[count]))]
    return [*pieces[:count], last] if last else list(pieces[:count])


async def errors(
    watch: Watch, counter: TokenCounter, body: Body, cuts: int
) -> dict[str, list[float]]:
    """Return by path how far off the output is that is charged, in percent."""
    chance = random.Random(SEED)
    found: dict[str, list[float]] = {"native": [], "observe": [], "inspect": []}
    for _ in range(cuts):
        passed = cut(body.pieces, chance)
        whole = b"".join(passed)
        whole = whole[: whole.rindex(b"\n\n") + 2] if b"\n\n" in whole else b""
        told = await in_line(body, [whole], 1, counter)
        truth = max(1, told.settlement.usage.output_tokens)
        # Behind what is cut comes what never came.
        pieces = [*passed, b"never"]
        by_path = {
            "native": await native(watch, body, pieces, len(passed), counter),
            "observe": await observed(body, pieces, len(passed), counter),
            "inspect": await in_line(body, pieces, len(passed), counter),
        }
        for path, settled in by_path.items():
            tokens = settled.settlement.usage.output_tokens
            found[path].append(100 * abs(tokens - truth) / truth)
    return found


def row(path: str, length: str, off: Sequence[float]) -> str:
    """Return a line of the table."""
    p95 = statistics.quantiles(off, n=20)[-1]
    figures = (statistics.mean(off), statistics.median(off), p95, max(off))
    told = " | ".join(f"{figure:.2f} %" for figure in figures)
    return f"| `{path}` | {length} | {len(off)} | {told} |"


async def table(cuts: int) -> str:
    """Return the table."""
    # Patient: how long a count may take is not what is measured.
    watch, counter = Watch(), TokenCounter(limits=CountLimits(time_s=60.0))
    counter.preload(["gpt-4o"])
    off: dict[tuple[str, int], list[float]] = {}
    for length, body in streams():
        for path, found in (await errors(watch, counter, body, cuts)).items():
            off.setdefault((path, length), []).extend(found)
    counter.close()
    lines = [
        "| path | deltas | cuts | mean | median | p95 | worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in ("native", "observe", "inspect"):
        lines += [row(path, f"{length:,}", off[path, length]) for length in LENGTHS]
        together = [figure for n in LENGTHS for figure in off[path, n]]
        lines.append(row(path, "all", together))
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=40, help="of each stream")
    parser.add_argument("--write", action="store_true", help="into the documents")
    arguments = parser.parse_args()
    found = asyncio.run(table(arguments.cuts))
    print(found)
    if arguments.write:
        put_table(PAGE, TABLE, found)


if __name__ == "__main__":
    main()
