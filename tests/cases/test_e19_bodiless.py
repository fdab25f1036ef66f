"""E19: a request without a body is over with its head."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.scene import Scene
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SECONDS_TO_ANSWER = 2.0  # the right time is 0.1; the machine is shared
QUOTAS = [
    {"requests_per_minute": 6_000},
    {"tokens_per_minute": 1_000},
    {"concurrency": 1},
]
PASSED: list[dict[str, Any]] = [
    {"method": "GET", "path": "/"},
    {"method": "GET", "path": "/v1/models"},
    {"method": "GET", "path": "/v1/models/gpt-4o?x=1"},
    {"method": "HEAD", "path": "/v1/models"},
    {"method": "OPTIONS", "path": "/v1/chat/completions"},
    {"method": "DELETE", "path": "/v1/files/file-1"},
    {"method": "GET", "path": "/v1/chat/completions"},
    {"method": "GET", "path": "/v1/models", "chunks": []},
]
REFUSED: list[tuple[int, dict[str, Any]]] = [
    (400, {"path": "/v1/chat/completions"}),
    (400, {"path": "/v1/chat/completions", "chunks": []}),
    (400, {"path": "/v1/messages"}),
    (400, {"path": "/v1/messages", "chunks": []}),
    (403, {"path": "/v1/images/generations", "body": b"{}"}),
    (403, {"method": "GET", "path": "/v1/models", "chunks": [b"{}"]}),
    (403, {"method": "PUT", "path": "/v1/chat/completions", "body": b"{}"}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(quotas=QUOTAS) as opened:
        yield opened


@pytest.mark.parametrize(
    "call", PASSED, ids=lambda call: f"{call['method']} {call['path']}"
)
async def test_e19_bodiless_requests_pass(scene: Scene, call: dict[str, Any]) -> None:
    """
    They reach the provider at once, cost a request and no token, and leave nothing.

    kubeai-project/kubeai#105, Kuadrant/mcp-gateway#640, envoyproxy/ai-gateway#948
    """
    await scene.clear()
    body = b"" if call["method"] == "HEAD" else b'{"object":"list"}'
    scene.upstream.play(reply(body))
    answer = await scene.call(**call)

    assert answer.status == 200
    assert answer.seconds < SECONDS_TO_ANSWER
    assert [asked.method for asked in scene.upstream.requests] == [call["method"]]
    await scene.ledger_shows((0, 0))


@pytest.mark.parametrize(("status", "call"), REFUSED, ids=repr)
async def test_e19_what_should_have_a_body_or_none(
    scene: Scene, status: int, call: dict[str, Any]
) -> None:
    """
    An empty call of a metered path is a bad request; a body where none belongs, or on
    a path that nobody meters, is refused. No provider hears of either.

    kubeai-project/kubeai#105, envoyproxy/ai-gateway#940
    """
    await scene.clear()
    answer = await scene.call(**call)

    assert answer.status == status
    assert answer.seconds < SECONDS_TO_ANSWER
    assert scene.upstream.requests == []
    await scene.ledger_shows()
