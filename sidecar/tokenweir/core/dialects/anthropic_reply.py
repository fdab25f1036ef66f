"""What an Anthropic reply says: a whole message, or one event of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects.anthropic_usage import read_usage
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import (
    add_texts,
    name_error,
    name_model,
    note_strange,
)
from tokenweir.core.json_text import write_value

# Blocks whose name and input the model wrote. The results of server tools are
# beside them, and are input.
_TOOL_USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
# Blocks that begin before anything of them was generated. Others are whole from the
# start: encrypted thinking, the results of server tools.
_EMPTY_AT_FIRST = ("text", "thinking", None)
_OF_EVENT = frozenset({"type"})
# Why an answer ended that had reached its cap.
_AT_CAP = "max_tokens"


def read_message(message: dict[str, Any], facts: ResponseFacts) -> None:
    """Take a whole *message*, or an error in its place, into *facts*."""
    if message.get("type") == "error" or message.get("error"):
        _read_error(message, facts)
    name_model(facts, message.get("model"))
    blocks = message.get("content")
    if isinstance(blocks, list):
        add_texts(facts, (text for block in blocks for text in _block_texts(block)))
    _read_stop(message, facts)
    read_usage(message.get("usage"), facts, begun_only=False)


def read_stream_event(kind: str, data: dict[str, Any], facts: ResponseFacts) -> None:
    """Take the *data* of one event into *facts*; *kind* is its type."""
    match kind:
        case "message_start":
            message = _object(data.get("message"))
            name_model(facts, message.get("model"))
            read_usage(message.get("usage"), facts, begun_only=True)
        case "content_block_start":
            block = _object(data.get("content_block"))
            add_texts(facts, _block_texts(block))
            facts.hidden |= block.get("type") not in _EMPTY_AT_FIRST
        case "content_block_delta":
            delta = _object(data.get("delta"))
            add_texts(facts, _delta_texts(delta))
            facts.hidden |= bool(delta.get("signature"))
        case "message_delta":
            _read_stop(_object(data.get("delta")), facts)
            read_usage(data.get("usage"), facts, begun_only=False)
        case "message_stop":
            facts.finished = facts.ended = facts.error is None
        case "error":
            _read_error(data, facts)
        case "content_block_stop":
            pass
        case _:
            _read_other(data, facts)


def _read_other(data: dict[str, Any], facts: ResponseFacts) -> None:
    # Gateways in between, which know OpenAI's errors only, send one without a type.
    if data.get("error"):
        _read_error(data, facts)
    else:
        note_strange(facts, data, _OF_EVENT)


def _read_stop(holder: dict[str, Any], facts: ResponseFacts) -> None:
    if isinstance(holder.get("stop_reason"), str) and holder["stop_reason"]:
        facts.finished = True
        facts.at_cap = int(holder["stop_reason"] == _AT_CAP)


def _read_error(holder: dict[str, Any], facts: ResponseFacts) -> None:
    name_error(facts, _object(holder.get("error")).get("type"))


def _block_texts(block: object) -> Iterator[object]:
    members = _object(block)
    kind = members.get("type")
    if kind in ("text", "thinking"):
        yield members.get(kind)
    elif isinstance(kind, str) and kind in _TOOL_USES:
        yield members.get("name")
        # Empty at the start of a stream: there it comes in deltas.
        if members.get("input"):
            yield _as_written(members["input"])


def _delta_texts(delta: dict[str, Any]) -> Iterator[object]:
    yield delta.get("text")
    yield delta.get("thinking")
    yield delta.get("partial_json")


def _as_written(value: object) -> str:
    try:
        return write_value(value).decode()
    except RecursionError:
        return ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
