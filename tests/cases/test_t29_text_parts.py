"""T29: whatever bears text is in the estimate, wherever it stands in the request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, QUESTION, Api
from tests.cases.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

TEXT = "The gauge of the weir is read at dawn, and the gates are set by noon. " * 9
SCHEMA = {
    "type": "object",
    "properties": {
        f"field_{number}": {
            "type": "string",
            "description": f"What the keeper of gate {number} noted down at dawn.",
        }
        for number in range(20)
    },
    "required": ["field_0", "field_1"],
}
SCHEMA_BYTES = len(json.dumps(SCHEMA))  # 2 KB
ARGUMENTS = json.dumps({"notes": TEXT, "gates": list(range(40))})


@dataclass(frozen=True)
class Part:
    """A request to *api* that has *size_bytes* of text beside the usual question."""

    api: Api
    body: bytes
    size_bytes: int


def chat(size_bytes: int, *earlier: dict[str, Any], **members: Any) -> Part:
    """Return a chat request with *earlier* messages before the question."""
    messages = [*earlier, {"role": "user", "content": QUESTION}]
    body = OPENAI.request(stream=False, messages=messages, **members)
    return Part(OPENAI, body, size_bytes)


def message(size_bytes: int, *earlier: dict[str, Any], **members: Any) -> Part:
    """Return a request for a message, in the same way."""
    messages = [*earlier, {"role": "user", "content": QUESTION}]
    body = ANTHROPIC.request(stream=False, messages=messages, **members)
    return Part(ANTHROPIC, body, size_bytes)


def function(**members: object) -> dict[str, Any]:
    """Return a tool of OpenAI's."""
    return {"type": "function", "function": {"name": "read_gauge", **members}}


def called(kind: str, **members: object) -> dict[str, Any]:
    """Return an earlier answer that calls a tool, and has no content."""
    calls = [{"id": "c", "type": kind, kind: {"name": "read_gauge", **members}}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a message of *blocks*."""
    return {"role": role, "content": list(blocks)}


N = len(TEXT)
BLOCK = {"type": "text", "text": TEXT}
TOOL = {"name": "read_gauge", "input_schema": SCHEMA}
PARTS = {
    "the entry's own": chat(
        N + SCHEMA_BYTES,
        {"role": "system", "content": TEXT},
        tools=[function(parameters=SCHEMA)],
    ),
    "system": chat(N, {"role": "system", "content": TEXT}),
    "developer": chat(N, {"role": "developer", "content": TEXT}),
    "parts": chat(N, said("user", BLOCK)),
    "assistant": chat(N, {"role": "assistant", "content": TEXT}),
    "refusal": chat(N, {"role": "assistant", "content": None, "refusal": TEXT}),
    "reasoning": chat(
        N, {"role": "assistant", "content": None, "reasoning_content": TEXT}
    ),
    "tool": chat(SCHEMA_BYTES, tools=[function(parameters=SCHEMA)]),
    "description": chat(N, tools=[function(description=TEXT)]),
    "several tools": chat(
        3 * SCHEMA_BYTES, tools=[function(parameters=SCHEMA) for _ in range(3)]
    ),
    "old functions": chat(
        SCHEMA_BYTES, functions=[{"name": "read_gauge", "parameters": SCHEMA}]
    ),
    "custom tool": chat(
        N, tools=[{"type": "custom", "custom": {"name": "x", "description": TEXT}}]
    ),
    "arguments": chat(len(ARGUMENTS), called("function", arguments=ARGUMENTS)),
    "custom input": chat(N, called("custom", input=TEXT)),
    "old call": chat(
        len(ARGUMENTS),
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "x", "arguments": ARGUMENTS},
        },
    ),
    "result": chat(N, {"role": "tool", "tool_call_id": "c", "content": TEXT}),
    "result in parts": chat(
        N, {"role": "tool", "tool_call_id": "c", "content": [BLOCK]}
    ),
    "schema of the answer": chat(
        SCHEMA_BYTES,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "notes", "schema": SCHEMA},
        },
    ),
    "prediction": chat(N, prediction={"type": "content", "content": TEXT}),
    "prediction in parts": chat(N, prediction={"type": "content", "content": [BLOCK]}),
    "schema by another name": chat(
        SCHEMA_BYTES, response_format={"type": "json_object", "schema": SCHEMA}
    ),
    "guided answer": chat(SCHEMA_BYTES, guided_json=SCHEMA),
    "documents": chat(N, documents=[{"title": "x", "text": TEXT}]),
    "unknown member": chat(N, future=[{"deep": {"er": TEXT}}]),
    "name of a member": chat(N, future={TEXT: 1}),
    "unknown member of a message": chat(
        N, {"role": "assistant", "content": "x", "reasoning_details": [BLOCK]}
    ),
    "hosted tool": chat(N, tools=[{"type": "mcp", "server_description": TEXT}]),
    "examples of a tool": chat(N, tools=[function(examples=[TEXT])]),
    "search options": chat(N, web_search_options={"user_location": {"city": TEXT}}),
    "unknown part": chat(N, said("user", {"type": "hologram", "caption": TEXT})),
    "message: system": message(N, system=TEXT),
    "message: system blocks": message(N, system=[BLOCK]),
    "message: both": message(N + SCHEMA_BYTES, system=TEXT, tools=[TOOL]),
    "message: tool": message(SCHEMA_BYTES, tools=[TOOL]),
    "message: description": message(N, tools=[{"name": "x", "description": TEXT}]),
    "message: tool use": message(
        len(ARGUMENTS),
        said(
            "assistant",
            {"type": "tool_use", "id": "t", "name": "x", "input": {"notes": ARGUMENTS}},
        ),
    ),
    "message: result": message(
        N, said("user", {"type": "tool_result", "tool_use_id": "t", "content": TEXT})
    ),
    "message: result blocks": message(
        N, said("user", {"type": "tool_result", "tool_use_id": "t", "content": [BLOCK]})
    ),
    "message: thinking": message(
        N, said("assistant", {"type": "thinking", "thinking": TEXT, "signature": "x"})
    ),
    "message: document": message(
        N,
        said(
            "user",
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": TEXT},
            },
        ),
    ),
    "message: title and context": message(
        2 * N,
        said(
            "user",
            {
                "type": "document",
                "title": TEXT,
                "context": TEXT,
                "source": {"type": "text", "data": "x"},
            },
        ),
    ),
    "message: search result": message(
        N,
        said(
            "user",
            {"type": "search_result", "source": "x", "title": "x", "content": [BLOCK]},
        ),
    ),
    "message: examples of a tool": message(
        N, tools=[{"name": "x", "input_examples": [{"notes": TEXT}]}]
    ),
    "message: tool servers": message(N, mcp_servers=[{"type": "url", "name": TEXT}]),
    "message: context": message(
        N, context_management={"edits": [{"type": "x", "instructions": TEXT}]}
    ),
    "message: server tool's result": message(
        N,
        said(
            "user",
            {
                "type": "web_search_tool_result",
                "content": [{"title": TEXT, "url": "x"}],
            },
        ),
    ),
    "message: unknown member": message(N, future={"deep": [TEXT]}),
    "message: schema of the answer": message(
        SCHEMA_BYTES,
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    ),
}


@pytest.mark.parametrize("name", PARTS)
async def test_t29_every_text_is_estimated(stage: Stage, name: str) -> None:
    """
    Each part adds at least half of what a token for each four bytes would.

    router-for-me/CLIProxyAPI#679, BerriAI/litellm#4716, langchain-ai/langchain#35098
    """
    part = PARTS[name]
    plain, _ = await stage.reserves(part.api, part.api.request(stream=False))

    estimate, _ = await stage.reserves(part.api, part.body)

    assert estimate - plain >= part.size_bytes / 4 / 2


NOTHING: dict[str, dict[str, Any]] = {
    "content null": {"role": "assistant", "content": None},
    "content absent": {"role": "assistant"},
    "content empty": {"role": "assistant", "content": ""},
    "no parts": {"role": "assistant", "content": []},
    "calls null": {"role": "assistant", "content": "x", "tool_calls": None},
    "arguments null": called("function", arguments=None),
    "arguments an object": called("function", arguments={"notes": "x"}),
    "name null": {"role": "user", "content": "x", "name": None},
}


@pytest.mark.parametrize("name", NOTHING)
async def test_t29_what_is_absent_breaks_nothing(stage: Stage, name: str) -> None:
    """
    null, absent and empty parts are read as nothing. langchain-ai/langchain#35098
    """
    part = chat(0, NOTHING[name], tools=None, tool_choice=None, response_format=None)

    estimate, _ = await stage.reserves(OPENAI, part.body)

    assert estimate >= 1
