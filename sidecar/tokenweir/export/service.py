"""An exporter as a process: its signals, and its lag as a metric."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ending import end_tasks
from tokenweir.export.exporter import Exporter, ExportSettings
from tokenweir.export.instruments import ExportInstruments
from tokenweir.export.lag import lag_of_all
from tokenweir.export.report import Report
from tokenweir.export.sink import Sink
from tokenweir.export.streams import Streams
from tokenweir.telemetry.logs import JsonLog

LAG_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """
    What to export, and where to.

    Attributes:
        url: Of the ledger.
        name: Of the consumer group: who exports to the same sink has the same.
        consumer: Of this process in it, see `consumer_name`.
        sink: Where to.
        settings: How.
    """

    url: str
    name: str
    consumer: str
    sink: Sink
    settings: ExportSettings


async def export(job: Job, log: JsonLog, registry: CollectorRegistry) -> bool:
    """
    Export until SIGTERM or SIGINT, or once; see `Exporter.run`, which this is.

    Raises: what that does.
    """
    report = Report(log, ExportInstruments(registry))
    streams = Streams(job.url, job.name, job.consumer)
    exporter = Exporter(streams, job.sink, report, job.settings)
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, exporter.stop)
    watch = asyncio.create_task(_watch_lag(job, report))
    report.started(job.sink.place, job.name, job.consumer)
    drained = False
    try:
        drained = await exporter.run()
    finally:
        await end_tasks(watch)
        await streams.close()
        report.stopped(drained=drained)
    return drained


def consumer_name() -> str:
    """
    Return a name that no other process has, on any machine, now or later.

    Host and process id are for people: containers may share both.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


async def _watch_lag(job: Job, report: Report) -> None:
    while not job.settings.once:
        # That the ledger is away is told by who needs it more.
        with suppress(LedgerUnavailableError):
            report.lag((await lag_of_all(job.url, [job.name]))[job.name])
        await asyncio.sleep(LAG_SECONDS)
