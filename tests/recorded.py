"""Recorded and nasty exchanges of others, as oracles; absent in most check-outs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

FOLDER = Path(__file__).parent.parent.parent / "shared" / "fixtures"

NEEDS_RECORDINGS = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no recorded exchanges in {FOLDER}"
)


_FRAMED = re.compile(r'"usage":\{"inputTokens":(\d+),"outputTokens":(\d+)')


@dataclass(frozen=True, slots=True)
class Recording:
    """
    One exchange.

    Attributes:
        name: For the test's id.
        path: That the request was sent to, without query.
        request: The body that was sent; ``b""`` if it wasn't recorded.
        status: Of the response.
        content_type: Of the response.
        response: The body that came back.
    """

    name: str
    path: str
    request: bytes
    status: int
    content_type: str
    response: bytes

    @property
    def is_stream(self) -> bool:
        """Whether it is events, one after the other."""
        return not self.content_type.startswith("application/json")

    @property
    def reported(self) -> tuple[int, int] | None:
        """
        The input and output tokens of the last report, found without any parser of ours.

        None: there is none, or it counts no tokens.
        """
        figures: dict[str, int] = {}
        # Frames hold JSON between figures and checksums.
        for holder in _usages(self.response.decode("utf-8", "replace")):
            figures |= {k: v for k, v in holder.items() if isinstance(v, int)}
        if not figures.keys() - {"seconds"}:
            return None
        if "inputTokens" in figures:
            return figures["inputTokens"], figures["outputTokens"]
        into = figures.get("prompt_tokens", figures.get("input_tokens", 0))
        if self.path == "/v1/messages":  # what is cached is told beside it
            into += figures.get("cache_read_input_tokens", 0)
            into += figures.get("cache_creation_input_tokens", 0)
        return into, figures.get("completion_tokens", figures.get("output_tokens", 0))


def _usages(text: str) -> list[dict[str, Any]]:
    found: list[Any] = [
        {"inputTokens": int(into), "outputTokens": int(out_of)}
        for into, out_of in _FRAMED.findall(text)
    ]
    for part in (text, *text.replace("data:", "\n").split("\n")):
        try:
            value = json.loads(part)
        except ValueError:
            continue
        if isinstance(value, dict):
            holders = (value, value.get("message"), value.get("response"))
            found += [each.get("usage") for each in holders if isinstance(each, dict)]
    return [usage for usage in found if isinstance(usage, dict)]


def recordings() -> list[Recording]:
    """Return whatever there is, in the order of its names."""
    return [*_cassettes(), *_edge_cases()]


def framed() -> list[Recording]:
    """Return those of Bedrock's: their events are in binary frames."""
    return [
        Recording(
            file.stem,
            "/model/m/converse-stream",
            b"",
            200,
            "application/vnd.amazon.eventstream",
            file.read_bytes(),
        )
        for file in sorted(FOLDER.glob("edge/*.bin"))
    ]


def _cassettes() -> list[Recording]:
    found = []
    for file in sorted(FOLDER.glob("openai-recorded/*.yaml")):
        for place, item in enumerate(yaml.safe_load(file.read_text())["interactions"]):
            request, response = item["request"], item["response"]
            recording = Recording(
                f"{file.stem}-{place}",
                urlsplit(request["url"]).path,
                (request["body"] or "").encode(),
                response["code"],
                response["headers"]["Content-Type"][0],
                response["body"].encode(),
            )
            found.append(recording)
    return found


def _edge_cases() -> list[Recording]:
    types = {".sse": "text/event-stream", ".json": "application/json"}
    return [
        Recording(
            file.stem, _path(file.stem), b"", 200, types[file.suffix], file.read_bytes()
        )
        for file in sorted(FOLDER.glob("edge/*"))
        if file.suffix in types
    ]


def _path(name: str) -> str:
    """Return where the edge case *name* must have come from."""
    paths = {
        "anthropic__": "/v1/messages",
        "protocol-conversion__anthropic": "/v1/messages",
        "openai__responses": "/v1/responses",
        "openai__embeddings": "/v1/embeddings",
    }
    for prefix, path in paths.items():
        if name.startswith(prefix):
            return path
    return "/v1/chat/completions"
