"""The life of a webhook's process: from its settings to its exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector

from tokenweir import __version__
from tokenweir.ending import end_tasks
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook.certificate import Certificate, CertificateError
from tokenweir.inject.webhook.operators import Operators
from tokenweir.inject.webhook.server import Address, WebhookServer
from tokenweir.telemetry.logs import JsonLog, Level

# A Secret's volume is up to a minute late anyway.
CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """
    Attributes:
        defaults: For pods.
        cert: File of the certificate, with those between it and its authority.
        key: File of its private key.
        listen: Where the API server asks.
        admin: Health and metrics, without TLS.
        drain_seconds: How long it answers after SIGTERM: until everybody has heard.
    """

    defaults: Settings
    cert: Path
    key: Path
    listen: Address
    admin: Address
    drain_seconds: float = 5.0


def run(settings: WebhookSettings, complain: Callable[[str], None]) -> int:
    """Serve until a signal ends it; return the exit code. What is wrong is told."""
    try:
        certificate = Certificate(settings.cert, settings.key)
    except CertificateError as error:
        complain(str(error))
        return 1
    return asyncio.run(_serve(settings, certificate, complain))


async def _serve(
    settings: WebhookSettings,
    certificate: Certificate,
    complain: Callable[[str], None],
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log = JsonLog()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    operators = Operators(registry, log)
    operators.loaded(certificate.validity)
    server = WebhookServer(settings.defaults, certificate, operators, registry)
    try:
        await server.start(settings.listen, settings.admin)
    except OSError as error:
        complain(f"can't listen: {(error.strerror or str(error)).lower()}")
        log.close()
        return 1
    log.event(
        "serving", version=__version__, port=server.port, admin_port=server.admin_port
    )
    following = asyncio.create_task(_follow(certificate, operators))
    await stop.wait()
    log.event("draining")
    server.draining = True
    await asyncio.sleep(settings.drain_seconds)
    await end_tasks(following)
    await server.stop()
    log.event("stopped")
    log.close()
    return 0


async def _follow(certificate: Certificate, operators: Operators) -> None:
    """Load changed pairs for ever."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            if await asyncio.to_thread(certificate.refresh):
                operators.loaded(certificate.validity)
        except CertificateError as error:
            operators.unusable(str(error))
        except Exception as error:  # noqa: BLE001 -- the next look may do better
            operators.event("certificate_refused", Level.ERROR, problem="fault")
            operators.fault(error)
