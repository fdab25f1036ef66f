"""
Two ports: one over TLS that is asked about pods, one for kubelets and for metrics.

    POST /inject    AdmissionReview v1, and its answer
    GET  /healthz   200: the process lives
    GET  /readyz    200: its certificate is good now, and it is not about to leave
    GET  /metrics   Prometheus or OpenMetrics text

What is no review gets 4xx, what broke 500: with `failurePolicy: Fail` the pod is refused
then, and nobody runs ungoverned.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tokenweir.inject.admission import ReviewError, answer
from tokenweir.inject.registration import PATH
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook.certificate import Certificate
from tokenweir.inject.webhook.operators import Operators

# An object has 1.5 MiB in etcd, and twice that on its way; a review has it once.
MAX_BODY_BYTES = 8 * 1024 * 1024
# The API server waits for five seconds in all.
READ_SECONDS = 5.0
# Nobody waits longer for an answer.
STOP_SECONDS = 5.0
_STATUS = {"too_large": 413, "wrong_type": 415, "slow": 408}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0: a free one."""

    host: str
    port: int


class WebhookServer:
    """
    Answers for pods of a cluster with *defaults*.

    Attributes:
        draining: Set it to be sent no more.
        port: Of the reviews, once it has started.
        admin_port: Of the other one, ditto.
    """

    def __init__(
        self,
        defaults: Settings,
        certificate: Certificate,
        operators: Operators,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._defaults = defaults
        self._certificate = certificate
        self._operators = operators
        self._registry = registry
        self._clock = clock
        self._runners: list[web.AppRunner] = []
        self.draining = False
        self.port = 0
        self.admin_port = 0

    async def start(self, listen: Address, admin: Address) -> None:
        """Begin to serve. Raises: OSError, if a port can't be had."""
        reviews = web.Application(client_max_size=MAX_BODY_BYTES)
        reviews.router.add_post(PATH, self._review)
        told = web.Application()
        told.router.add_get("/healthz", self._healthz)
        told.router.add_get("/readyz", self._readyz)
        told.router.add_get("/metrics", self._metrics)
        try:
            self.port = await self._listen(reviews, listen, secure=True)
            self.admin_port = await self._listen(told, admin, secure=False)
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Let what has begun end, for a while, and close. May be called twice."""
        runners, self._runners = self._runners, []
        for runner in runners:
            await runner.cleanup()

    async def _listen(
        self, app: web.Application, address: Address, *, secure: bool
    ) -> int:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        self._runners.append(runner)
        context = self._certificate.context if secure else None
        site = web.TCPSite(runner, address.host, address.port, ssl_context=context)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    # === reviews ===============================================================

    async def _review(self, request: web.Request) -> web.Response:
        began = time.perf_counter()
        try:
            review = _parsed(await self._body(request))
            answered = answer(review, self._defaults)
        except ReviewError as error:
            self._operators.refused(error.reason)
            status = _STATUS.get(error.reason, 400)
            return web.Response(status=status, text=f"tokenweir: {error}\n")
        except Exception as error:  # noqa: BLE001 -- an answer in time, whatever broke
            self._operators.fault(error)
            told = "tokenweir: it broke; the webhook's log says where\n"
            return web.Response(status=500, text=told)
        self._operators.answered(answered, time.perf_counter() - began)
        return web.json_response(answered.review)

    @staticmethod
    async def _body(request: web.Request) -> bytes:
        """Return the body. Raises: ReviewError."""
        if request.content_type != "application/json":
            raise ReviewError("content-type: must be application/json", "wrong_type")
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            told = f"the body has more than {MAX_BODY_BYTES} bytes"
            raise ReviewError(told, "too_large") from None
        except TimeoutError:
            raise ReviewError("the body comes too slowly", "slow") from None

    # === operators =============================================================

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _: web.Request) -> web.Response:
        good = self._certificate.validity.holds(self._clock())
        checks = {
            "draining": "it is about to leave" if self.draining else "ok",
            "certificate": "ok" if good else "is not good now: put a new pair there",
        }
        ready = good and not self.draining
        told = {"ready": ready, "checks": checks}
        return web.json_response(told, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = encode(self._registry)
        return web.Response(body=body, headers={"content-type": content_type})


def _parsed(body: bytes) -> object:
    """Return what is in *body*. Raises: ReviewError."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ReviewError("the body is no JSON", "bad_json") from None
