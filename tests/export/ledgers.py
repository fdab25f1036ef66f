"""Usage streams to export from, and exporters on them."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
from prometheus_client import CollectorRegistry

from tests.export.rows import record
from tokenweir.core.partition import tag_of
from tokenweir.export.exporter import Exporter, ExportSettings
from tokenweir.export.instruments import ExportInstruments
from tokenweir.export.record import BadEntry, Row
from tokenweir.export.report import Report
from tokenweir.export.sink import Sink
from tokenweir.export.streams import Streams
from tokenweir.ledger.keys import records
from tokenweir.telemetry.logs import JsonLog

TENANTS = tuple(f"tenant-{number}" for number in range(7))
GROUP = "g"
# Far beyond what anything here needs, on a machine that others use too.
PATIENCE = 60.0


def put(url: str, holds: Iterable[str], **fields: str) -> None:
    """Write a record for each of *holds*, as the ledger does, for several tenants."""
    with redis.Redis.from_url(url) as client:
        pipeline = client.pipeline(transaction=False)
        for number, hold in enumerate(holds):
            tenant = TENANTS[number % len(TENANTS)]
            made = record(hold) | {"tenant": tenant} | fields
            pipeline.xadd(records(tag_of(tenant)), dict(made))
        pipeline.execute()


def pending(url: str, group: str = GROUP) -> int:
    """Return how many entries were delivered to *group* and not acknowledged."""
    total = 0
    with redis.Redis.from_url(url) as client:
        for tenant in TENANTS:
            key = records(tag_of(tenant))
            if client.exists(key):
                total += sum(
                    each["pending"]
                    for each in client.xinfo_groups(key)
                    if each["name"] == group.encode()
                )
    return total


@dataclass
class MemorySink:
    """
    A sink in memory, that fails when it is told to.

    Attributes:
        rows: What was written, in order, as often as it was.
        bad: What is no record.
        failures: Raised by the next calls of `write`, one each; None: it works.
        opened: How often it was opened.
    """

    rows: list[Row] = field(default_factory=list)
    bad: list[BadEntry] = field(default_factory=list)
    failures: list[Exception | None] = field(default_factory=list)
    closed: bool = False
    opened: int = 0
    largest: int = 0
    on_write: Callable[[], None] = lambda: None
    on_open: Callable[[], object] = lambda: None

    place = "memory"

    def open(self) -> None:
        """See `Sink`."""
        self.opened += 1
        self.on_open()

    def write(self, rows: Sequence[Row], bad: Sequence[BadEntry]) -> int:
        """See `Sink`."""
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.rows += rows
        self.bad += bad
        self.largest = max(self.largest, len(rows))
        self.on_write()
        return 0

    def close(self) -> None:
        """See `Sink`."""
        self.closed = True

    @property
    def holds(self) -> list[str]:
        """The holds of what was written."""
        return [row.hold for row in self.rows]


@dataclass
class Told:
    """What an exporter tells."""

    stream: io.StringIO = field(default_factory=io.StringIO)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.log = JsonLog(self.stream)
        self.report = Report(self.log, ExportInstruments(self.registry))

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        value = self.registry.get_sample_value(f"tokenweir_export_{name}", labels)
        assert value is not None
        return value

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines, without those that are still to come."""
        assert self.log.close()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def events(self) -> list[str]:
        """Return the kinds of the lines."""
        return [str(line["event"]) for line in self.lines()]


def exporter(
    url: str,
    sink: Sink,
    told: Told,
    settings: ExportSettings | None = None,
    *,
    consumer: str = "c",
) -> tuple[Exporter, Streams]:
    """Return an exporter that runs once unless *settings* say otherwise."""
    streams = Streams(url, GROUP, consumer)
    settings = settings or ExportSettings(once=True)
    return Exporter(streams, sink, told.report, settings), streams


async def export_once(
    url: str,
    sink: Sink,
    told: Told | None = None,
    settings: ExportSettings | None = None,
    *,
    consumer: str = "c",
) -> bool:
    """Export what there is."""
    told = told or Told()
    made, streams = exporter(url, sink, told, settings, consumer=consumer)
    try:
        return await made.run()
    finally:
        await streams.close()


async def until(is_so: Callable[[], object]) -> None:
    """Return once something is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so"
        await asyncio.sleep(0.01)
