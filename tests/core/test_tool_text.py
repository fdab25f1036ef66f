"""Tool definitions as text."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenweir.core.dialects.base import Tool
from tokenweir.core.tool_text import (
    MAX_DEPTH,
    MAX_PIECES,
    as_typescript,
    json_pieces,
    tool_pieces,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def text_of(value: object) -> str:
    """Return *value* as JSON."""
    return "".join(json_pieces(value))


def test_a_function_reads_as_typescript() -> None:
    """Descriptions, optional members, enums, arrays and objects have their form."""
    tool = Tool(
        "book",
        "Book a table",
        {
            "type": "object",
            "required": ["name", 7],
            "properties": {
                "name": {"type": "string", "description": "Whose"},
                "size": {"type": "integer"},
                "room": {"type": "number", "enum": [1, 2.5, "three"]},
                "time": {"type": "string", "enum": ["noon", "night"]},
                "sure": {"type": "boolean"},
                "nothing": {"type": "null"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "things": {"type": "array"},
                "guest": {
                    "type": "object",
                    "description": "Who comes",
                    "properties": {
                        "age": {"type": "integer", "description": "not shown"}
                    },
                },
                "unknown": {"anyOf": []},
                "nonsense": "not a schema",
            },
        },
    )

    assert as_typescript([tool, Tool("leave")]) == (
        "namespace functions {\n"
        "\n"
        "// Book a table\n"
        "type book = (_: {\n"
        "// Whose\n"
        "name: string,\n"
        "size?: number,\n"
        "room?: 1 | 2.5 | three,\n"
        'time?: "noon" | "night",\n'
        "sure?: boolean,\n"
        "nothing?: null,\n"
        "tags?: string[],\n"
        "things?: any[],\n"
        "// Who comes\n"
        "guest?: {\n"
        "  age?: number,\n"
        "},\n"
        "unknown?: any,\n"
        "nonsense?: any,\n"
        "}) => any;\n"
        "\n"
        "type leave = () => any;\n"
        "\n"
        "} // namespace functions"
    )


@pytest.mark.parametrize("inside", ["properties", "items"])
def test_a_deep_schema_is_cut(inside: str) -> None:
    """Types below the limit are `any`; the JSON form has all of them."""
    levels = 5_000
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        if inside == "items":
            schema = {"type": "array", "items": schema}
        else:
            schema = {"type": "object", "properties": {"p": schema}}
    tool = Tool("deep", parameters={"properties": {"p": schema}})

    written = as_typescript([tool])

    assert "any" in written
    assert written.count("p?:") + written.count("[]") <= MAX_DEPTH + 2
    assert text_of(tool.parameters).count('"type"') == levels + 1


def test_an_endless_schema_is_cut() -> None:
    """Both forms stop at their limit of pieces."""
    properties = {f"p{n}": {"type": "null"} for n in range(MAX_PIECES + 10)}
    tool = Tool("endless", parameters={"properties": properties})

    assert as_typescript([tool]).count("?: null,") == MAX_PIECES
    assert len(list(json_pieces(tool.parameters))) == MAX_PIECES


@given(JSON)
def test_json_is_json(value: object) -> None:
    """The JSON form means what was given, in Python's compact spelling."""
    written = text_of(value)

    assert json.loads(written) == value
    assert written == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@settings(max_examples=50)
@given(st.dictionaries(st.text(), JSON), JSON, JSON)
def test_any_schema_is_written(
    schema: dict[str, object], properties: object, enum: object
) -> None:
    """Whatever a client calls a schema, nothing raises."""
    inner = {"a": {"type": "string", "enum": enum}, "b": properties, "c": schema}
    tools = [
        Tool("f", parameters=schema),
        Tool("g", parameters={"properties": properties, "required": enum}),
        Tool("h", parameters={"properties": inner}),
    ]

    assert as_typescript(tools).count("type ") >= 3
    assert len(json.loads("".join(tool_pieces(tools)))) == 3


def test_numbers_without_end_are_written() -> None:
    """Python refuses to write integers of thousands of digits; they are no fault."""
    huge = 10**5_000

    assert text_of([huge, "\ud800"]) == '[0,"\ud800"]'
    tool = Tool(
        "f", parameters={"properties": {"n": {"type": "number", "enum": [huge]}}}
    )
    assert "n?: 0," in as_typescript([tool])


def test_json_names_what_a_tool_has() -> None:
    """The JSON form of a tool has its name, description and parameters."""
    tool = Tool("f", "does", {"type": "object"})

    assert json.loads("".join(tool_pieces([tool]))) == [
        {"name": "f", "description": "does", "parameters": {"type": "object"}}
    ]
