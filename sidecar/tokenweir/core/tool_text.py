"""
Tool definitions as the text that a model reads.

OpenAI does not show its models the JSON Schema: it is rendered as TypeScript,
which others have worked out from token counts. `as_typescript` writes that form.
Other families put the definitions into the prompt as JSON: `tool_pieces`.

A schema comes from the client, so it may be deep, endless or nonsense. Both
writers stop at limits, the deeper one without recursion, and take what is no
schema for `any`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tokenweir.core.dialects.base import Tool

# No provider takes schemas of that size (OpenAI's limits are 5,000 properties and
# 10 levels), so nobody is charged for what lies beyond. It is read in 0.1 s.
MAX_PIECES = 50_000
MAX_DEPTH = 32

# Descriptions are shown for properties of the outermost object only.
_DESCRIBED_INDENT = 2


_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


class _Literal(str):
    """Text that is already JSON."""

    __slots__ = ()


def json_pieces(value: object) -> Iterator[str]:
    """Yield *value* as compact JSON, piece by piece, `MAX_PIECES` of them at most."""
    return itertools.islice(_pieces(value), MAX_PIECES)


def _pieces(value: object) -> Iterator[str]:
    """Walk *value* with a stack of what is left on each level."""
    levels: list[Iterator[object]] = [iter((value,))]
    while levels:
        for item in levels[-1]:
            if isinstance(item, _Literal):
                yield item
            elif isinstance(item, Mapping):
                levels.append(_members(item))
                break
            elif isinstance(item, list | tuple):
                levels.append(_elements(item))
                break
            else:
                yield _leaf(item)
        else:
            levels.pop()


def _members(item: Mapping[str, object]) -> Iterator[object]:
    before = "{"
    for name, value in item.items():
        yield _Literal(f"{before}{_encode(str(name))}:")
        yield value
        before = ","
    yield _Literal("}" if item else "{}")


def _elements(item: Collection[object]) -> Iterator[object]:
    before = "["
    for value in item:
        yield _Literal(before)
        yield value
        before = ","
    yield _Literal("]" if item else "[]")


def _leaf(value: object) -> str:
    try:
        return _encode(value)
    except ValueError:  # an integer of thousands of digits
        return "0"


def tool_pieces(tools: Iterable[Tool]) -> Iterator[str]:
    """Yield *tools* as one JSON array, `MAX_PIECES` of it at most."""
    return json_pieces([_definition(tool) for tool in tools])


def _definition(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def as_typescript(tools: Iterable[Tool]) -> str:
    """Return *tools* as the namespace of functions that OpenAI's models read."""
    lines = ["namespace functions {", ""]
    writer = _TypeScript()
    for tool in tools:
        lines += [*writer.function(tool), ""]
    lines.append("} // namespace functions")
    return "\n".join(lines)


class _TypeScript:
    """Writes types, until `MAX_PIECES` properties are written."""

    def __init__(self) -> None:
        self._left = MAX_PIECES

    def function(self, tool: Tool) -> Iterator[str]:
        """Yield the lines of one function."""
        if tool.description:
            yield f"// {tool.description}"
        properties = "\n".join(self._properties(tool.parameters, 0, 0))
        if properties:
            yield f"type {tool.name} = (_: {{"
            yield properties
            yield "}) => any;"
        else:
            yield f"type {tool.name} = () => any;"

    def _properties(
        self, schema: Mapping[str, Any], indent: int, depth: int
    ) -> Iterator[str]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or depth > MAX_DEPTH:
            return
        required = _required(schema)
        space = " " * indent
        for name, value in properties.items():
            if not self._left:
                return
            self._left -= 1
            description = _member(value, "description")
            if description and indent < _DESCRIBED_INDENT:
                yield f"{space}// {description}"
            mark = "" if name in required else "?"
            yield f"{space}{name}{mark}: {self._type(value, indent, depth)},"

    def _type(self, schema: object, indent: int, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return "any"
        kind = schema.get("type")
        if kind == "array":
            return f"{self._type(schema.get('items'), indent, depth + 1)}[]"
        if kind == "object":
            inner = "\n".join(self._properties(schema, indent + 2, depth + 1))
            return f"{{\n{inner}\n{' ' * indent}}}"
        return _scalar(schema, kind)


def _scalar(schema: Mapping[str, Any], kind: object) -> str:
    match kind:
        case "string":
            return _choices(schema, quoted=True) or "string"
        case "integer" | "number":
            return _choices(schema, quoted=False) or "number"
        case "boolean" | "null":
            return str(kind)
        case _:
            return "any"


def _member(schema: object, name: str) -> object:
    return schema.get(name) if isinstance(schema, Mapping) else None


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    names = schema.get("required")
    if not isinstance(names, list | tuple):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def _choices(schema: Mapping[str, Any], *, quoted: bool) -> str:
    """Return the values of an enum, or "" if there is none."""
    values = schema.get("enum")
    if not isinstance(values, list | tuple):
        return ""
    plain = (value for value in values if isinstance(value, str | int | float))
    if quoted:
        return " | ".join(map(_leaf, plain))
    return " | ".join(_leaf(value).strip('"') for value in plain)
