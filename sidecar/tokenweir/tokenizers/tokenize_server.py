"""
Asking a model's own server how many tokens a prompt has, as vLLM's ``/tokenize`` tells.

Who waits for the answer waits for admission too, so there is little time for it, and
whatever goes wrong (late, broken, a server that is away) means only that tokens are
counted here instead. After `FAILURES` failures in a row a server is left alone for
`PAUSE_SECONDS`; then one request tries it again. Answers are remembered by a digest of
the question, for apps that ask the same twice.

Whoever pays chooses what is asked, and may choose what the server refuses, breaks at or
is slow with. So failures are those of one tenant's questions, and pause no other's; and
a question that is refused for what it is is no failure.

Only text is asked about. What else there is in a prompt, media and token ids, and what a
provider keeps of it, this API does not tell.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import msgspec

from tokenweir.core.dialects.base import Message, Prompt, Tool
from tokenweir.core.estimate import prompt_bytes, tools_bytes
from tokenweir.core.tokenize_server import TokenizeServer

# Questions to all servers that may wait for an answer at once.
MAX_IN_FLIGHT = 32
# Failures in a row until a server is left alone, and for how long.
FAILURES = 3
PAUSE_SECONDS = 10.0
# Answers list each token. Those of the largest prompts that are asked about have less.
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_REMEMBERED = 512
# Tenants and servers whose failures are known; of more, those that came last.
MAX_STATES = 1_000
# Refusals for other reasons than what was asked: who asks, where, or how often.
_NOT_OF_THE_QUESTION = frozenset({401, 403, 404, 405, 407, 408, 429})
# Tokens are at least a byte each, but for those around messages and tools.
_FRAME_TOKENS = 1_000


class _Answer(msgspec.Struct):
    count: int


class _RefusedError(Exception):
    """The server is there, and does not take the question."""


@dataclass(slots=True)
class _State:
    """How a server has answered a tenant's questions of late."""

    failures: int = 0
    paused_until: float = 0.0


@dataclass(slots=True)
class TokenizeServers:
    """
    Asks servers.

    Attributes:
        on_asked: Told what became of each question: ``"answered"``, ``"remembered"``,
            ``"refused"``, ``"failed"``, ``"late"``, ``"busy"`` or ``"paused"``.
        clock: Seconds; any beginning.
    """

    on_asked: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _session: aiohttp.ClientSession | None = None
    _states: OrderedDict[tuple[str, str], _State] = field(default_factory=OrderedDict)
    _remembered: OrderedDict[bytes, int] = field(default_factory=OrderedDict)
    _in_flight: int = 0

    async def count(
        self, server: TokenizeServer, prompt: Prompt, model: str, tenant: str = ""
    ) -> int | None:
        """
        Return the tokens of *prompt* for *model*, as *server* tells; None: it does not.

        *tenant* is whose prompt it is. Never raises.
        """
        size_bytes = _askable_bytes(prompt, server.max_bytes)
        if size_bytes is None or not server.min_bytes <= size_bytes:
            return None
        question = question_of(prompt, model)
        digest = hashlib.sha256(server.url.encode() + b"\0" + question).digest()
        if digest in self._remembered:
            self._remembered.move_to_end(digest)
            self.on_asked("remembered")
            return self._remembered[digest]
        state = self._state(server.url, tenant)
        outcome, told = await self._ask(server, question, state)
        self.on_asked(outcome)
        if told is None or not 0 < told <= size_bytes + _FRAME_TOKENS:
            return None
        self._remembered[digest] = told
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return told

    async def close(self) -> None:
        """Give connections back."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _state(self, url: str, tenant: str) -> _State:
        state = self._states.setdefault((url, tenant), _State())
        self._states.move_to_end((url, tenant))
        if len(self._states) > MAX_STATES:
            self._states.popitem(last=False)
        return state

    async def _ask(
        self, server: TokenizeServer, question: bytes, state: _State
    ) -> tuple[str, int | None]:
        now = self.clock()
        if state.paused_until > now:
            return "paused", None
        if self._in_flight >= MAX_IN_FLIGHT:
            return "busy", None
        if state.failures >= FAILURES:  # one tries, the others go on without
            state.paused_until = now + PAUSE_SECONDS
        self._in_flight += 1
        try:
            async with asyncio.timeout(server.deadline_ms / 1_000):
                told = await self._fetch(server, question)
        except TimeoutError:
            return self._failed(state, "late")
        except _RefusedError:
            # It tells nothing of other questions: the next one tries instead.
            state.paused_until = min(state.paused_until, now)
            return "refused", None
        except (aiohttp.ClientError, OSError, ValueError):
            return self._failed(state, "failed")
        finally:
            self._in_flight -= 1
        state.failures, state.paused_until = 0, 0.0
        return "answered", told

    def _failed(self, state: _State, outcome: str) -> tuple[str, None]:
        state.failures += 1
        if state.failures >= FAILURES:
            state.paused_until = self.clock() + PAUSE_SECONDS
        return outcome, None

    async def _fetch(self, server: TokenizeServer, question: bytes) -> int:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        headers = {"content-type": "application/json"}
        if server.credential is not None:
            headers[server.header] = server.credential.reveal()
        async with self._session.post(
            server.url, data=question, headers=headers, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise _refusal(response.status)
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError("too long")
        return msgspec.json.decode(body, type=_Answer).count


def _refusal(status: int) -> Exception:
    if 400 <= status < 500 and status not in _NOT_OF_THE_QUESTION:
        return _RefusedError()
    return ValueError("no count")


def question_of(prompt: Prompt, model: str) -> bytes:
    """Return what is asked: *prompt* as a chat, or as bare text if it has no roles."""
    if not any(message.role for message in prompt.messages):
        texts = (text for message in prompt.messages for text in message.texts)
        return _json({"model": model, "prompt": "".join(texts)})
    content: dict[str, object] = {
        "model": model,
        "messages": [*map(_message, filter(_is_read, prompt.messages))],
        "add_generation_prompt": True,
    }
    if prompt.tools:
        content["tools"] = [*map(_tool, prompt.tools)]
    return _json(content)


def _is_read(message: Message) -> bool:
    return bool(message.role or message.texts)


def _message(message: Message) -> dict[str, str]:
    return {"role": message.role or "user", "content": "".join(message.texts)}


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _json(content: object) -> bytes:
    """Write *content*; half surrogate pairs, which no JSON may have, are marked."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(content).encode()


def _askable_bytes(prompt: Prompt, most: int) -> int | None:
    """Return about how much there is to be asked about; None: what can't be asked."""
    if prompt.token_ids or prompt.is_partial or prompt.extra_texts:
        return None
    if not prompt.messages or any(message.media for message in prompt.messages):
        return None
    size_bytes = prompt_bytes(prompt, most) + tools_bytes(prompt.tools, most)
    return size_bytes if size_bytes <= most else None
