from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from tokenweir.admin.beside import Beside, Quiet
from tokenweir.admin.readiness import Readiness
from tokenweir.admin.server import AdminServer

READY = Readiness(ready=True, checks={"policy": "ok"})
NOT_READY = Readiness(ready=False, checks={"policy": "none is loaded"})


class Admin:
    """A server on a free port, and what it answers."""

    def __init__(self, beside: Beside | None = None) -> None:
        self.found: Readiness | Exception = READY
        registry = CollectorRegistry()
        Counter("tokenweir_holds_lost", "Lost.", registry=registry).inc(3)
        self.server = AdminServer(
            "127.0.0.1",
            0,
            registry,
            self.readiness,
            lambda: {"source": "file"},
            beside,
        )

    async def readiness(self) -> Readiness:
        """Answer as the test wants."""
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        """Return the answer to a GET, with its body read."""
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers) as response,
        ):
            await response.read()
            return response


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    """Return a server that runs."""
    admin = Admin()
    await admin.server.start()
    yield admin
    await admin.server.stop()


async def test_healthz(admin: Admin) -> None:
    """A process that answers is alive, ready or not."""
    admin.found = NOT_READY
    response = await admin.get("/healthz")

    assert response.status == 200
    assert await response.json() == {"status": "alive"}


async def test_ready(admin: Admin) -> None:
    """Whoever is ready answers 200."""
    response = await admin.get("/readyz")

    assert response.status == 200
    assert await response.json() == {"ready": True, "checks": {"policy": "ok"}}


async def test_not_ready(admin: Admin) -> None:
    """Whoever is not answers 503 and says what is missing."""
    admin.found = NOT_READY
    response = await admin.get("/readyz")

    assert response.status == 503
    assert await response.json() == {
        "ready": False,
        "checks": {"policy": "none is loaded"},
    }


async def test_policy(admin: Admin) -> None:
    """What is in force can be asked for."""
    response = await admin.get("/policy")

    assert response.status == 200
    assert await response.json() == {"source": "file"}


async def test_broken_probe(admin: Admin) -> None:
    """S08: a check that raises is not ready, and its text is not told."""
    admin.found = ValueError("sk-CANARY1")
    response = await admin.get("/readyz")

    assert response.status == 503
    assert await response.json() == {"ready": False, "checks": {"probe": "ValueError"}}


async def test_metrics(admin: Admin) -> None:
    """Metrics come in Prometheus's text format."""
    response = await admin.get("/metrics")

    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert "tokenweir_holds_lost_total 3.0" in await response.text()


async def test_openmetrics(admin: Admin) -> None:
    """A scraper that asks for OpenMetrics gets it."""
    response = await admin.get(
        "/metrics", accept="application/openmetrics-text; version=1.0.0"
    )

    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert (await response.text()).endswith("# EOF\n")


async def test_nothing_else(admin: Admin) -> None:
    """There is no other page."""
    assert (await admin.get("/")).status == 404


async def test_loopback_only(admin: Admin) -> None:
    """The port is bound to the address that was given, and to no other."""
    assert admin.server._runner is not None
    assert admin.server._runner.addresses == [("127.0.0.1", admin.server.port)]


async def test_port_taken(admin: Admin) -> None:
    """A port that is taken is an error at the start, and leaves nothing behind."""
    second = AdminServer(
        "127.0.0.1", admin.server.port, CollectorRegistry(), admin.readiness
    )
    with pytest.raises(OSError, match="address already in use"):
        await second.start()

    assert second._runner is None


async def test_stop_twice() -> None:
    """Stopping is safe before a start, and twice."""
    admin = Admin()
    await admin.server.stop()
    await admin.server.start()
    await admin.server.stop()
    await admin.server.stop()

    with pytest.raises(aiohttp.ClientConnectionError):
        await admin.get("/healthz")


async def test_started(admin: Admin) -> None:
    """A policy in force is enough: a silent ledger is no reason to start again."""
    silent = {"policy": "ok", "ledger": "no answer yet"}
    admin.found = Readiness(ready=False, checks=silent)

    assert (await admin.get("/startz")).status == 200


async def test_not_started(admin: Admin) -> None:
    """Without one, or if nobody knows, it has not."""
    admin.found = NOT_READY
    response = await admin.get("/startz")
    assert (response.status, await response.json()) == (
        503,
        {"policy": "none is loaded"},
    )
    admin.found = RuntimeError("secret")
    response = await admin.get("/startz")
    assert (response.status, await response.json()) == (503, {"policy": "RuntimeError"})


async def test_without_an_envoy(admin: Admin) -> None:
    """Where none follows the policy, there is nothing to tell of it."""
    assert (await admin.get("/envoyz")).status == 404
    assert (await admin.get("/quiet?seconds=1")).status == 404


async def test_with_an_envoy(tmp_path: Path) -> None:
    """It is told if Envoy is there, and when apps have stopped."""
    calls = [0]
    quiet = Quiet(lambda: calls[0], 0.01)
    beside = Beside(tmp_path / "none.sock", "127.0.0.1", 1, quiet)
    admin = Admin(beside)
    await admin.server.start()
    try:
        response = await admin.get("/envoyz")
        assert (response.status, await response.json()) == (503, {"ready": False})
        response = await admin.get("/quiet?seconds=60")
        assert (response.status, await response.json()) == (200, {"quiet": True})
        calls[0] = 1
        response = await admin.get("/quiet?seconds=0")
        assert (response.status, await response.json()) == (200, {"quiet": False})
        for wrong in ("/quiet", "/quiet?seconds=-1", "/quiet?seconds=1e9"):
            assert (await admin.get(wrong)).status == 400
    finally:
        await admin.server.stop()
