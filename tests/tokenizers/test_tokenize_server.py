"""A server is asked within bounds; whatever it does, an answer comes in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.policy import Secret
from tokenweir.core.tokenize_server import TokenizeServer
from tokenweir.tokenizers import tokenize_server as module
from tokenweir.tokenizers.tokenize_server import (
    FAILURES,
    PAUSE_SECONDS,
    TokenizeServers,
    question_of,
)

CANARY = "sk-canary-of-vllm"
CHAT = Prompt((Message("system", ("Be brief.",)), Message("user", ("Hello", " you"))))
PATIENT_MS = 30_000


@dataclass
class Vllm:
    """
    A server that speaks vLLM's API, as far as it goes.

    Attributes:
        url: Where it is asked.
        questions: What it was asked, and with which headers.
        answer: Answers in place of the usual one.
    """

    url: str = ""
    questions: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    answer: Callable[[], Awaitable[web.Response]] | None = None

    async def tokenize(self, request: web.Request) -> web.Response:
        """Count a token for each character, and four around a message."""
        asked = await request.json()
        self.questions.append((asked, dict(request.headers)))
        if self.answer is not None:
            return await self.answer()
        if "prompt" in asked:
            count = len(asked["prompt"])
        else:
            assert asked["add_generation_prompt"] is True
            count = sum(len(each["content"]) + 4 for each in asked["messages"])
        tokens = list(range(count))
        return web.json_response(
            {"count": count, "max_model_len": 8192, "tokens": tokens}
        )


@pytest.fixture
async def vllm() -> AsyncIterator[Vllm]:
    """A server on loopback."""
    server = Vllm()
    app = web.Application()
    app.router.add_post("/tokenize", server.tokenize)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    server.url = f"http://127.0.0.1:{port}/tokenize"
    yield server
    await runner.cleanup()


class Scene:
    """Who asks, what became of it, and the time."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.now_s = 1_000.0
        self.servers = TokenizeServers(self.outcomes.append, lambda: self.now_s)

    async def ask(
        self, vllm: Vllm, prompt: Prompt = CHAT, tenant: str = "acme", **more: Any
    ) -> int | None:
        """Return what *vllm* says of *tenant*'s *prompt*."""
        server = TokenizeServer(vllm.url, **{"deadline_ms": PATIENT_MS, **more})
        return await self.servers.count(server, prompt, "local-7b", tenant)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """One that has asked nothing."""
    made = Scene()
    yield made
    await made.servers.close()
    await made.servers.close()


def text(words: str) -> Prompt:
    """Return a prompt."""
    return Prompt((Message("user", (words,)),))


async def test_a_chat_is_asked_about(scene: Scene, vllm: Vllm) -> None:
    """With the model, roles and contents, and the beginning of the answer."""
    assert await scene.ask(vllm) == 9 + 4 + 9 + 4

    [(asked, headers)] = vllm.questions
    assert asked == {
        "model": "local-7b",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello you"},
        ],
        "add_generation_prompt": True,
    }
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert scene.outcomes == ["answered"]


async def test_bare_text_and_tools(scene: Scene, vllm: Vllm) -> None:
    """A completion has a prompt in place of messages; tools go along with a chat."""
    assert await scene.ask(vllm, Prompt((Message("", ("ab", "c")),))) == 3
    tool = Tool("f", "does", {"type": "object"})
    await scene.ask(vllm, Prompt(CHAT.messages, (tool,)))

    assert vllm.questions[0][0] == {"model": "local-7b", "prompt": "abc"}
    assert vllm.questions[1][0]["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "does",
                "parameters": {"type": "object"},
            },
        }
    ]


async def test_a_credential_goes_into_its_header(scene: Scene, vllm: Vllm) -> None:
    """And nowhere else."""
    await scene.ask(vllm, credential=Secret(CANARY), header="x-key")

    assert vllm.questions[0][1]["x-key"] == CANARY
    assert CANARY not in repr(TokenizeServer(vllm.url, credential=Secret(CANARY)))


async def test_the_same_question_is_asked_once(
    scene: Scene, vllm: Vllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it is among the last ones."""
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    for words in ("a", "b", "a", "c", "a", "b"):
        assert await scene.ask(vllm, text(words)) == 5

    asked = [question["messages"][0]["content"] for question, _ in vllm.questions]
    assert asked == ["a", "b", "c", "b"]
    assert scene.outcomes.count("remembered") == 2


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(),
        Prompt(CHAT.messages, token_ids=5),
        Prompt(CHAT.messages, is_partial=True),
        Prompt(CHAT.messages, extra_texts=("{}",)),
        Prompt((Message("user", ("x",), media=(Media(MediaKind.IMAGE),)),)),
    ],
)
async def test_what_is_not_all_text_is_not_asked_about(
    scene: Scene, vllm: Vllm, prompt: Prompt
) -> None:
    """For nobody here knows how to."""
    assert await scene.ask(vllm, prompt) is None
    assert vllm.questions == []
    assert scene.outcomes == []


async def test_sizes(scene: Scene, vllm: Vllm) -> None:
    """Small prompts and large ones are counted here."""
    for words in ("x", "y" * 5_000):
        assert (
            await scene.ask(vllm, text(words), min_bytes=100, max_bytes=1_000) is None
        )
    assert vllm.questions == []
    middle = text("z" * 500)
    assert await scene.ask(vllm, middle, min_bytes=100, max_bytes=1_000) == 504


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"count": "9"}',
        b'{"count": null}',
        b"[9]",
        b"\xff",
        b'{"count": 9',
    ],
)
async def test_answers_of_no_sense(scene: Scene, vllm: Vllm, body: bytes) -> None:
    """Are none."""

    async def answer() -> web.Response:
        return web.Response(body=body, content_type="application/json")

    vllm.answer = answer

    assert await scene.ask(vllm) is None
    assert scene.outcomes == ["failed"]


@pytest.mark.parametrize("count", [0, -5, 10**9])
async def test_counts_that_can_not_be(scene: Scene, vllm: Vllm, count: int) -> None:
    """No text has none, nor more tokens than bytes; that is not remembered either."""

    async def answer() -> web.Response:
        return web.json_response({"count": count})

    vllm.answer = answer

    assert await scene.ask(vllm) is None
    vllm.answer = None
    assert await scene.ask(vllm) == 26


@pytest.mark.parametrize("status", [301, 401, 404, 500])
async def test_other_statuses(scene: Scene, vllm: Vllm, status: int) -> None:
    """An error is no count, and nobody is sent elsewhere with a credential."""

    async def answer() -> web.Response:
        return web.json_response(
            {"count": 9}, status=status, headers={"location": vllm.url}
        )

    vllm.answer = answer

    assert await scene.ask(vllm, credential=Secret(CANARY)) is None
    assert len(vllm.questions) == 1


async def test_answers_without_end(
    scene: Scene, vllm: Vllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Are read up to a bound."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 50)

    assert await scene.ask(vllm, text("word " * 100)) is None
    assert scene.outcomes == ["failed"]


async def test_a_slow_server_is_not_waited_for(scene: Scene, vllm: Vllm) -> None:
    """Past the deadline there is no answer; after some of them nobody asks."""
    gate = asyncio.Event()

    async def answer() -> web.Response:
        await gate.wait()
        return web.json_response({"count": 9})

    vllm.answer = answer
    for number in range(FAILURES + 2):
        assert await scene.ask(vllm, text(f"{number}"), deadline_ms=1) is None
    assert scene.outcomes == ["late"] * FAILURES + ["paused"] * 2
    gate.set()


async def test_one_tries_again_after_the_pause(scene: Scene, vllm: Vllm) -> None:
    """Others do without meanwhile; once it answers all ask again."""
    real, vllm.url = vllm.url, "http://127.0.0.1:1/tokenize"
    for number in range(FAILURES):
        await scene.ask(vllm, text(f"{number}"))
    assert scene.outcomes == ["failed"] * FAILURES

    scene.now_s += PAUSE_SECONDS + 1
    await asyncio.gather(*(scene.ask(vllm, text(f"{n}")) for n in range(3)))
    assert sorted(scene.outcomes[FAILURES:]) == ["failed", "paused", "paused"]

    scene.now_s += PAUSE_SECONDS + 1
    states = scene.servers._states
    states[real, "acme"] = states[vllm.url, "acme"]
    vllm.url = real
    for number in range(2):
        assert await scene.ask(vllm, text(f"{number}")) == 5


def saying(status: int) -> Callable[[], Awaitable[web.Response]]:
    """Return who answers with *status* and nothing else."""

    async def answer() -> web.Response:
        return web.Response(status=status)

    return answer


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_question_that_is_refused_is_no_failure(
    scene: Scene, vllm: Vllm, status: int
) -> None:
    """As of a role that the chat template does not know: other prompts are counted."""
    vllm.answer = saying(status)
    for number in range(FAILURES + 1):
        assert await scene.ask(vllm, text(f"evil {number}")) is None
    vllm.answer = None

    assert await scene.ask(vllm) == 26
    assert scene.outcomes == ["refused"] * (FAILURES + 1) + ["answered"]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_a_server_that_serves_nobody_is_left_alone(
    scene: Scene, vllm: Vllm, status: int
) -> None:
    """A wrong key, a wrong path, too many questions: that is not of the question."""
    vllm.answer = saying(status)
    for number in range(FAILURES + 1):
        await scene.ask(vllm, text(f"{number}"))

    assert scene.outcomes == ["failed"] * FAILURES + ["paused"]


async def test_who_tries_again_in_vain_leaves_that_to_the_next(
    scene: Scene, vllm: Vllm
) -> None:
    """A refused question neither ends a pause nor begins one."""
    vllm.answer = saying(500)
    for number in range(FAILURES):
        await scene.ask(vllm, text(f"{number}"))
    scene.now_s += PAUSE_SECONDS + 1
    vllm.answer = saying(400)
    await scene.ask(vllm, text("evil"))
    vllm.answer = saying(500)
    for number in range(2):
        await scene.ask(vllm, text(f"next {number}"))

    assert scene.outcomes[FAILURES:] == ["refused", "failed", "paused"]


async def test_one_tenants_failures_pause_no_others(scene: Scene, vllm: Vllm) -> None:
    """Whatever a tenant makes the server break at, others' prompts are counted."""
    vllm.answer = saying(500)
    for number in range(FAILURES + 1):
        await scene.ask(vllm, text(f"evil {number}"))
    vllm.answer = None

    assert scene.outcomes[-1] == "paused"
    assert await scene.ask(vllm, tenant="globex") == 26


async def test_failures_of_many_tenants_are_forgotten(
    scene: Scene, vllm: Vllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that asked last are known."""
    monkeypatch.setattr(module, "MAX_STATES", 2)
    for number, tenant in enumerate(("a", "b", "a", "c")):
        await scene.ask(vllm, text(f"{number}"), tenant)

    assert [tenant for _, tenant in scene.servers._states] == ["a", "c"]


async def test_questions_in_flight_are_bounded(
    scene: Scene, vllm: Vllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes when there are too many is counted here."""
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 1)
    gate = asyncio.Event()

    async def answer() -> web.Response:
        await gate.wait()
        return web.json_response({"count": 9})

    vllm.answer = answer
    first = asyncio.create_task(scene.ask(vllm, text("a")))
    async with asyncio.timeout(30):
        while not vllm.questions:  # noqa: ASYNC110 - the server is aiohttp's
            await asyncio.sleep(0.001)
    assert await scene.ask(vllm, text("b")) is None
    gate.set()

    assert await first == 9
    assert scene.outcomes == ["busy", "answered"]


async def test_who_leaves_takes_the_question_along(scene: Scene, vllm: Vllm) -> None:
    """And leaves room for another."""
    vllm.answer = asyncio.Event().wait  # type: ignore[assignment]
    asking = asyncio.create_task(scene.ask(vllm))
    async with asyncio.timeout(30):
        while not vllm.questions:  # noqa: ASYNC110 - the server is aiohttp's
            await asyncio.sleep(0.001)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking

    assert scene.servers._in_flight == 0


def test_a_message_of_nothing_is_left_out() -> None:
    """What is beside the messages may hold no text: it has no frame either."""
    asked = Prompt((*CHAT.messages, Message("", is_guessed=True)))

    assert question_of(asked, "m") == question_of(CHAT, "m")


def test_half_surrogate_pairs() -> None:
    """Such a text is asked about like any other."""
    assert rb"\ud83d" in question_of(text("a\ud83d"), "m")
