"""
How members of Converse are written, capitals included.

A name that differs from one that is read here in its case only is refused, wherever it
could be read: who is metered by one must not be served by the other.
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.dialects.fields import Members
from tokenweir.core.errors import MalformedRequestError

NAMES = frozenset(
    {
        *("messages", "system", "role", "content", "text", "image", "audio", "video"),
        *("document", "format", "source", "bytes", "s3Location", "json"),
        *("inferenceConfig", "maxTokens", "additionalModelRequestFields"),
        *("performanceConfig", "latency", "serviceTier", "type"),
        *("toolConfig", "tools", "toolChoice", "tool", "toolSpec", "systemTool"),
        *("name", "description", "inputSchema", "toolUse", "toolResult", "input"),
        *("cachePoint", "guardContent", "reasoningContent", "promptVariables"),
        *("outputConfig", "textFormat", "structure", "jsonSchema", "schema"),
    }
)
"""All members that are read, at whatever place."""

_BY_FOLDED = {name.casefold(): name for name in NAMES}
# Below these the names are the client's own, or a model's maker's.
_FREE = frozenset(
    {
        *("json", "input", "promptVariables", "requestMetadata"),
        "additionalModelRequestFields",
    }
)
# Longer ones are like none of them.
_MAX_NAME_CHARS = 32


def check_spelling(body: Members) -> None:
    """Refuse names in *body* that are like ours. Raises: MalformedRequestError."""
    waiting: list[Any] = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            for name, value in node.items():
                if name not in NAMES:
                    _check(name)
                if name not in _FREE and isinstance(value, dict | list):
                    waiting.append(value)


def _check(name: str) -> None:
    if len(name) <= _MAX_NAME_CHARS and name.casefold() in _BY_FOLDED:
        meant = _BY_FOLDED[name.casefold()]
        raise MalformedRequestError(f"`{meant}` must be written so.", meant)
