"""
The admin port.

    GET /healthz   200: the process lives, and its event loop turns
    GET /readyz    200 or 503, and what is missing
    GET /policy    which policy is in force, where it comes from, what is refused
    GET /metrics   Prometheus or OpenMetrics text
    GET /startz    200: a policy is in force, and all is there that Envoy starts with;
                   whatever the ledger does, which no restart would mend
    GET /envoyz    200: the Envoy beside serves, see `beside`
    GET /quiet     answers once apps have made no call for a while, or after ?seconds=

It tells nothing secret, but has no authentication either: it belongs on loopback, or on
the address of a pod, for its kubelet and who reads metrics.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tokenweir.admin.beside import Beside
from tokenweir.admin.readiness import OK, Readiness
from tokenweir.telemetry.places import type_name

DEFAULT_HOST = "127.0.0.1"
SHUTDOWN_S = 1.0


class AdminServer:
    """
    Serves *registry*, *readiness* and *policy* on *host* and *port* (0: a free one).

    *beside* is the Envoy that follows the policy, if one does.

    A readiness that raises counts as not ready.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        readiness: Callable[[], Awaitable[Readiness]],
        policy: Callable[[], Mapping[str, object]] = dict,
        beside: Beside | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._registry = registry
        self._readiness = readiness
        self._policy = policy
        self._beside = beside
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port; after `start` the one that is really used."""
        return self._port

    async def start(self) -> None:
        """Begin to serve. Raises: OSError, if the port is taken."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/policy", self._show_policy)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/startz", self._startz)
        if self._beside is not None:
            app.router.add_get("/envoyz", partial(self._envoyz, self._beside))
            app.router.add_get("/quiet", partial(self._quiet, self._beside))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        self._runner = runner
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await self.stop()
            raise
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop serving. May be called twice, or without `start`."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _: web.Request) -> web.Response:
        try:
            found = await self._readiness()
        except Exception as error:  # noqa: BLE001 - a broken check is not ready
            found = Readiness(ready=False, checks={"probe": type_name(error)})
        return web.json_response(
            {"ready": found.ready, "checks": dict(found.checks)},
            status=200 if found.ready else 503,
        )

    async def _startz(self, _: web.Request) -> web.Response:
        try:
            policy = (await self._readiness()).checks.get("policy", OK)
        except Exception as error:  # noqa: BLE001 - a broken check has not started
            policy = type_name(error)
        status = 200 if policy == OK else 503
        return web.json_response({"policy": policy}, status=status)

    @staticmethod
    async def _envoyz(beside: Beside, _: web.Request) -> web.Response:
        ready = await beside.is_ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    @staticmethod
    async def _quiet(beside: Beside, request: web.Request) -> web.Response:
        text = request.query.get("seconds", "")
        if not re.fullmatch(r"[0-9]{1,6}", text):
            return web.json_response({"seconds": "how long, at the most?"}, status=400)
        quiet = await beside.quiet.wait(float(text))
        return web.json_response({"quiet": quiet}, status=503 if quiet is None else 200)

    async def _show_policy(self, _: web.Request) -> web.Response:
        return web.json_response(dict(self._policy()))

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # Thousands of series take tens of milliseconds, which no exchange may wait.
        body = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=body, headers={"content-type": content_type})
