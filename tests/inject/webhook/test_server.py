"""Over real TLS an API server is answered, whatever it sends."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import jsonpatch
import pytest
from prometheus_client import CollectorRegistry

from tests.inject.reviews import UID, body, pod_of_a_replica_set, reinvocation, review
from tests.inject.webhook.pairs import HOST, Pair
from tokenweir.inject.pod import inject
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook import server as module
from tokenweir.inject.webhook.certificate import Certificate
from tokenweir.inject.webhook.operators import Operators
from tokenweir.inject.webhook.server import Address, WebhookServer
from tokenweir.telemetry.logs import JsonLog

JSON = {"content-type": "application/json"}


class Webhook:
    """A server that runs, and how it is called."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.certificate = Certificate(pair.cert, pair.key)
        self.registry = CollectorRegistry()
        self.log = JsonLog(io.StringIO())
        operators = Operators(self.registry, self.log)
        self.server = WebhookServer(
            Settings(), self.certificate, operators, self.registry
        )

    async def post(
        self, content: bytes, path: str = "/inject", **headers: str
    ) -> tuple[int, str]:
        """Ask once, over a connection of its own; return status and text."""
        url = f"https://{HOST}:{self.server.port}{path}"
        given = {**JSON, **{k.replace("_", "-"): v for k, v in headers.items()}}
        connector = aiohttp.TCPConnector(ssl=self.pair.client(), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(url, data=io.BytesIO(content), headers=given) as answer,
        ):
            return answer.status, await answer.text()

    async def response(self, asked: Any) -> dict[str, Any]:
        """Return the response to a review."""
        status, text = await self.post(body(asked))
        assert status == 200
        found: dict[str, Any] = json.loads(text)["response"]
        assert found["uid"] == UID
        return found

    async def get(self, path: str) -> tuple[int, str]:
        """Return what the other port says."""
        url = f"http://{HOST}:{self.server.admin_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    def refused(self, reason: str) -> float | None:
        """Return how many requests were no review, by *reason*."""
        name = "tokenweir_injection_reviews_refused_total"
        return self.registry.get_sample_value(name, {"reason": reason})


@pytest.fixture
async def webhook(pair: Pair) -> AsyncIterator[Webhook]:
    """Return one that runs."""
    running = Webhook(pair)
    await running.server.start(Address(HOST, 0), Address(HOST, 0))
    yield running
    await running.server.stop()
    running.log.close()


async def test_a_new_pod(webhook: Webhook) -> None:
    """Its patch puts the sidecars in."""
    pod = pod_of_a_replica_set()
    found = await webhook.response(review(pod))
    patched = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(found["patch"])))

    assert found["allowed"] is True
    assert patched == inject(pod, Settings()).pod


async def test_again(webhook: Webhook) -> None:
    """A question about what another webhook has added gets a small answer."""
    found = await webhook.response(reinvocation())

    assert len(json.loads(base64.b64decode(found["patch"]))) == 2


async def test_a_dry_run(webhook: Webhook) -> None:
    """It gets the same answer, and is counted apart."""
    dry = await webhook.response(review(dryRun=True))

    assert dry == await webhook.response(review())
    _, metrics = await webhook.get("/metrics")
    for dry_run in ("true", "false"):
        labels = f'{{dry_run="{dry_run}",outcome="injected",reason="none"}}'
        assert f"tokenweir_injection_pods_total{labels} 1.0" in metrics


async def test_a_refusal(webhook: Webhook) -> None:
    """A pod that can't have what it asks for is told why."""
    pod = pod_of_a_replica_set(
        containers=[{"name": "app", "ports": [{"containerPort": 4000}]}]
    )
    found = await webhook.response(review(pod))

    assert found["allowed"] is False
    assert "port_taken: container app has port 4000" in found["status"]["message"]


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xff\xfe", 400, "bad_json"),
        (b"[" * 200_000, 400, "bad_json"),
        (b"[]", 400, "bad_review"),
        (body(review(uid=None)), 400, "bad_review"),
        (
            body({**review(), "apiVersion": "admission.k8s.io/v1beta1"}),
            400,
            "wrong_version",
        ),
    ],
)
async def test_no_review(
    webhook: Webhook, content: bytes, status: int, reason: str
) -> None:
    """It is refused in words, counted, and the next one is answered."""
    found, text = await webhook.post(content)

    assert found == status
    assert text.startswith("tokenweir: ")
    assert webhook.refused(reason) == 1
    assert (await webhook.response(review()))["allowed"] is True


async def test_a_huge_object(webhook: Webhook) -> None:
    """What no API server would send is not read to its end; what it may send is."""
    large = pod_of_a_replica_set()
    large["metadata"]["annotations"] = {"blob": "x" * 3_000_000}
    assert (await webhook.response(review(large)))["allowed"] is True

    huge = b" " * (module.MAX_BODY_BYTES + 1)
    assert (await webhook.post(huge))[0] == 413
    assert webhook.refused("too_large") == 1


async def test_a_slow_body(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not send what it announces is not waited for."""
    monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection(
        HOST, webhook.server.port, ssl=webhook.pair.client(), server_hostname=HOST
    )
    writer.write(
        b"POST /inject HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n{"
    )
    status = await reader.readline()
    writer.close()
    await writer.wait_closed()

    assert b" 408 " in status
    assert webhook.refused("slow") == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/yaml"])
async def test_another_type(webhook: Webhook, content_type: str) -> None:
    """Only JSON is read."""
    status, _ = await webhook.post(body(review()), content_type=content_type)

    assert status == 415


async def test_another_path(webhook: Webhook) -> None:
    """There is one."""
    assert (await webhook.post(body(review()), path="/mutate"))[0] == 404


async def test_a_fault(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """If we break, the pod is refused by the API server, and nothing is told of it."""

    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(module, "answer", broken)
    status, text = await webhook.post(body(review()))

    assert status == 500
    assert "a secret" not in text
    assert webhook.refused("fault") == 1


async def test_health(webhook: Webhook) -> None:
    """It is ready as long as its certificate is good and it is not about to leave."""
    assert (await webhook.get("/healthz"))[0] == 200
    assert (await webhook.get("/readyz"))[0] == 200
    webhook.server.draining = True
    status, text = await webhook.get("/readyz")

    assert status == 503
    assert json.loads(text)["checks"]["draining"] == "it is about to leave"
    assert (await webhook.response(review()))["allowed"] is True


async def test_an_expired_certificate(pair: Pair) -> None:
    """It is no reason not to start, for a new one may come; but nobody is to call."""
    pair.issue(days=-1)
    webhook = Webhook(pair)
    await webhook.server.start(Address(HOST, 0), Address(HOST, 0))
    try:
        status, text = await webhook.get("/readyz")
        assert status == 503
        assert json.loads(text)["checks"]["certificate"].startswith("is not good now")
        with pytest.raises(aiohttp.ClientConnectorCertificateError, match="expired"):
            await webhook.post(body(review()))

        pair.issue()
        assert webhook.certificate.refresh()
        assert (await webhook.get("/readyz"))[0] == 200
        assert (await webhook.response(review()))["allowed"] is True
    finally:
        await webhook.server.stop()
        webhook.log.close()


class Connection:
    """One that stays open, as API servers have them."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, webhook: Webhook) -> Connection:
        """Return a new one."""
        port, context = webhook.server.port, webhook.pair.client()
        return cls(*await asyncio.open_connection(HOST, port, ssl=context))

    @property
    def serial(self) -> str:
        """The number of the certificate that was shown."""
        secure: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return str((secure.getpeercert() or {})["serialNumber"])

    async def ask(self) -> int:
        """Ask about a pod; return the status."""
        content = body(review())
        head = f"POST /inject HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}"
        asked = f"{head}\r\ncontent-type: application/json\r\n\r\n".encode()
        self._writer.write(asked + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = answer.partition("content-length: ")[2].partition("\r\n")[0]
        await self._reader.readexactly(int(length))
        return int(answer.split()[1])

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await self._writer.wait_closed()


async def test_a_rotated_certificate(webhook: Webhook) -> None:
    """Connections that are open go on; new ones are shown the new one."""
    before = await Connection.to(webhook)
    assert await before.ask() == 200
    webhook.pair.issue(days=9)
    assert webhook.certificate.refresh()
    after = await Connection.to(webhook)

    assert [await before.ask(), await after.ask()] == [200, 200]
    assert before.serial != after.serial
    await before.close()
    await after.close()


async def test_a_rotated_authority(webhook: Webhook, pair: Pair) -> None:
    """Who trusts another authority does not ask at all."""
    stranger = Pair(pair.folder)
    webhook.pair = stranger

    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await webhook.post(body(review()))


async def test_a_taken_port(webhook: Webhook, pair: Pair) -> None:
    """Nothing is left open."""
    other = Webhook(pair)
    taken = Address(HOST, webhook.server.port)

    with pytest.raises(OSError, match="address already in use"):
        await other.server.start(Address(HOST, 0), taken)
    await other.server.stop()
    other.log.close()
