"""Asks a gateway, and keeps what came back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from tokenweir.core.errors import TokenweirError
from tokenweir.stack.tour.call import PATH, Call

PATIENCE_SECONDS = 60.0
# Who stops reading before the end has not heard all of it.
ALL = 1_000_000
_DATA, _DONE = b"data: ", b"[DONE]"

Hook = Callable[[], Awaitable[None]]


class NoAnswerError(TokenweirError):
    """The gateway gave no answer. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came back.

    Attributes:
        status: Of HTTP.
        headers: By lower-case name.
        body: Of one that did not stream, JSON.
        parts: Of a stream, the texts in it, in order.
        seconds: Until its end, or until the tour hung up.
        first_seconds: Until the first text of a stream; 0: there was none.
        at: When it had ended, by the monotonic clock.
    """

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    seconds: float = 0.0
    first_seconds: float = 0.0
    at: float = 0.0

    @property
    def text(self) -> str:
        """What the model said; ``""``, if it said nothing."""
        if self.parts:
            return "".join(self.parts)
        try:
            return str(self.body["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError):
            return ""

    @property
    def refusal(self) -> str:
        """Why the gateway refused it; ``""``: it did not."""
        return self.headers.get("x-tokenweir-refusal", "")

    @property
    def told(self) -> Mapping[str, Any]:
        """What a refusal tells programs: the object `tokenweir` of the error."""
        return dict(_member(self.body.get("error"), "tokenweir"))

    @property
    def usage(self) -> Mapping[str, Any]:
        """What the provider has reported as used, if the body has it."""
        return dict(_member(self.body, "usage"))


class Client:
    """
    Calls the gateway at *url* with *key*. To be used in ``async with``.

    No proxy of the environment is asked: a tour is about this gateway.
    """

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
        }
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def send(
        self,
        call: Call,
        request_id: str,
        *,
        most_parts: int = ALL,
        on_first: Hook | None = None,
    ) -> Answer:
        """
        Return the answer to *call*.

        Args:
            call: What is asked.
            request_id: By which its record is found.
            most_parts: After so many texts of a stream the connection is closed.
            on_first: Run once a stream's first text is there.

        Raises: NoAnswerError.
        """
        assert self._session is not None
        begin = time.monotonic()
        headers = {**self._headers, "x-request-id": request_id}
        try:
            async with self._session.post(
                f"{self._url}{PATH}", data=call.body, headers=headers
            ) as response:
                streams = call.stream and response.status == 200
                if streams:
                    parts, first = await _parts(response, most_parts, on_first)
                    body: Mapping[str, Any] = {}
                else:
                    parts, first, body = (), begin, _object(await response.read())
                end = time.monotonic()
                return Answer(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    body,
                    parts,
                    end - begin,
                    first - begin,
                    end,
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoAnswerError(
                f"{self._url} gave no answer ({type(error).__name__}). Does `tokenweir "
                "up` still run? Its terminal and its logs say what happened."
            ) from None


async def health(admin: str) -> tuple[int, Mapping[str, Any]]:
    """
    Return the status of *admin*'s ``/readyz`` and what it says.

    Raises: NoAnswerError.
    """
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(f"{admin}/readyz") as response,
        ):
            return response.status, _object(await response.read())
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise NoAnswerError(
            f"{admin}/readyz gave no answer ({type(error).__name__}). Is that the "
            "processor's admin port? --admin says another."
        ) from None


async def _parts(
    response: aiohttp.ClientResponse, most: int, on_first: Hook | None
) -> tuple[tuple[str, ...], float]:
    """Return the texts of a stream and when the first one came; hang up after *most*."""
    parts: list[str] = []
    first = time.monotonic()
    async for line in response.content:
        if text := _text_of(line):
            parts.append(text)
            if len(parts) == 1:
                first = time.monotonic()
            if len(parts) >= most:
                response.close()
                break
            if len(parts) == 1 and on_first is not None:
                await asyncio.wait_for(on_first(), PATIENCE_SECONDS)
    return tuple(parts), first


def _text_of(line: bytes) -> str:
    """Return the text in a *line* of a stream; ``""``: there is none."""
    data = line.removeprefix(_DATA).strip()
    if not line.startswith(_DATA) or data == _DONE:
        return ""
    choices = _object(data).get("choices") or [{}]
    content = _member(choices[0], "delta").get("content")
    return content if isinstance(content, str) else ""


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _member(value: object, name: str) -> Mapping[str, Any]:
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}
