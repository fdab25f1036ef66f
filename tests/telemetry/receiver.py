"""A real receiver of webhooks on loopback, as well or as ill as a test wants it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SECRET = "receiver-CANARY-secret"


@dataclass
class Receiver:
    """
    Attributes:
        url: Where it is.
        statuses: What it answers first; then 204.
        posts: What came: headers and body.
        paths: Ditto: where to.
        hang: Answers wait until it is set; None: they don't.
    """

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    posts: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hang: asyncio.Event | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of what came, in order."""
        return [headers["webhook-id"] for headers, _ in self.posts]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What came, read."""
        return [json.loads(body) for _, body in self.posts]

    async def answer(self, request: web.Request) -> web.Response:
        """Take note of *request* and answer it."""
        self.posts.append((dict(request.headers), await request.read()))
        self.paths.append(str(request.rel_url))
        if self.hang is not None:
            await self.hang.wait()
        status = self.statuses.pop(0) if self.statuses else 204
        headers = {"location": "/elsewhere"} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers)


@contextlib.asynccontextmanager
async def receiver(
    port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Run a receiver on *port*; 0: a free one."""
    it = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", it.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
    await site.start()
    server: Any = site._server
    scheme, used = "https" if context else "http", server.sockets[0].getsockname()[1]
    it.url = f"{scheme}://127.0.0.1:{used}/hook?team=llm"
    try:
        yield it
    finally:
        if it.hang is not None:
            it.hang.set()
        await runner.cleanup()


def is_signed(headers: Mapping[str, str], body: bytes, key: bytes) -> bool:
    """Tell if *body* was signed with *key*, as a stranger checks it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(key, signed, "sha256").digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], f"v1,{mac}")
