"""What `tokenweir export` does, once its arguments are read."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE
from tokenweir.cli.export import (
    BATCH_ROWS,
    INTERVAL_SECONDS,
    LEDGER_VARIABLE,
    PARQUET_BATCH_ROWS,
    PARQUET_INTERVAL_SECONDS,
)
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.table import Amount, Cell, table
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.export.exporter import ExportSettings
from tokenweir.export.lag import Lag, lag_of_all
from tokenweir.export.open_sink import place_of, sink_at
from tokenweir.export.service import Job, consumer_name
from tokenweir.export.service import export as export_job
from tokenweir.export.sink import SinkUnavailableError, SinkUnusableError
from tokenweir.telemetry.libraries import capture
from tokenweir.telemetry.logs import JsonLog, Level

LAG_COLUMNS = ("name", "behind", "in hand", "oldest")
_VARIABLE = "env:"
_KEPT = "What is not exported stays in the ledger, for seven days."


class AdminPortError(Exception):
    """Nothing can be served at the address that was given."""


def export(arguments: argparse.Namespace) -> int:
    """Export as *arguments* say; return the exit code."""
    try:
        job = _job(arguments)
    except LedgerOptionError as error:
        return _say(str(error), EXIT_USAGE)
    except SinkUnusableError as error:
        return _say(f"SINK {error}", EXIT_USAGE)
    try:
        drained = asyncio.run(_run(job, arguments.admin))
    except LedgerUnavailableError as error:
        return _say(f"{_no_answer(error)} {_KEPT}", EXIT_PROBLEMS)
    except (SinkUnavailableError, SinkUnusableError) as error:
        return _say(f"{job.sink.place}: {error}. {_KEPT}", EXIT_PROBLEMS)
    except AdminPortError as error:
        return _say(f"--admin: {error}. Give another port.", EXIT_PROBLEMS)
    return EXIT_FINE if drained else EXIT_PROBLEMS


def print_lag(arguments: argparse.Namespace) -> int:
    """Print how far behind each exporter is; return the exit code."""
    names = [arguments.name] if arguments.name else []
    try:
        lags = asyncio.run(lag_of_all(_ledger_url(arguments), names))
    except LedgerOptionError as error:
        return _say(str(error), EXIT_USAGE)
    except LedgerUnavailableError as error:
        return _say(_no_answer(error), EXIT_PROBLEMS)
    if arguments.name:
        lags = {arguments.name: lags[arguments.name]}
    if arguments.json:
        print(json.dumps({"exporters": _documents(lags)}, indent=2))
    elif lags:
        rows: list[list[Cell]] = [
            [name, lag.behind, lag.pending, Amount(_age(lag.oldest_age_ms))]
            for name, lag in lags.items()
        ]
        print(table(LAG_COLUMNS, rows, bold=False))
    else:
        print("Nobody exports from this ledger.")
    return EXIT_FINE


# === exporting ====================================================================


def _job(arguments: argparse.Namespace) -> Job:
    """Return what *arguments* ask for. Raises: LedgerOptionError, SinkUnusableError."""
    url = _ledger_url(arguments)
    place = place_of(_sink_text(arguments.sink))
    is_parquet = place.kind == "parquet"
    rows = PARQUET_BATCH_ROWS if is_parquet else BATCH_ROWS
    seconds = PARQUET_INTERVAL_SECONDS if is_parquet else INTERVAL_SECONDS
    settings = ExportSettings(
        batch_rows=arguments.batch_rows or rows,
        interval_seconds=float(arguments.interval or seconds),
        once=arguments.once,
        from_start=arguments.from_start,
        leaves=arguments.consumer is None,
    )
    name = arguments.name or place.default_name(arguments.table)
    consumer = arguments.consumer or consumer_name()
    sink = sink_at(place, table=arguments.table)
    return Job(url, name, consumer, sink, settings)


async def _run(job: Job, admin: tuple[str, int] | None) -> bool:
    registry = CollectorRegistry()
    log = JsonLog()
    capture(lambda fields: log.event("library", Level.WARNING, **fields))
    try:
        async with _serving(registry, admin):
            return await export_job(job, log, registry)
    finally:
        log.close()


@contextlib.asynccontextmanager
async def _serving(
    registry: CollectorRegistry, admin: tuple[str, int] | None
) -> AsyncIterator[None]:
    """Serve metrics meanwhile, if asked to. Raises: AdminPortError."""
    if admin is None:
        yield
        return
    from tokenweir.admin.readiness import Readiness  # noqa: PLC0415 -- slow
    from tokenweir.admin.server import AdminServer  # noqa: PLC0415 -- slow

    async def is_ready() -> Readiness:
        # It takes no traffic. What is away is told by the metrics.
        return Readiness(ready=True, checks={})

    server = AdminServer(*admin, registry, is_ready)
    try:
        await server.start()
    except OSError as error:
        raise AdminPortError(os.strerror(error.errno or 0)) from None
    try:
        yield
    finally:
        await server.stop()


# === what is asked for, what is told ===============================================


def _ledger_url(arguments: argparse.Namespace) -> str:
    return ledger_url(arguments.ledger or f"{_VARIABLE}{LEDGER_VARIABLE}")


def _sink_text(given: str) -> str:
    """Return what *given* is, or what is in the variable that it names."""
    if not given.startswith(_VARIABLE):
        return given
    name = given.removeprefix(_VARIABLE)
    text = os.environ.get(name, "")
    if not text:
        raise SinkUnusableError(f"is a variable, {name}, that is empty or not set")
    return text


def _no_answer(error: LedgerUnavailableError) -> str:
    from tokenweir.ledger.advice import advice  # noqa: PLC0415 -- slow

    doubts = advice(error) or (
        "Does it run, do user and password fit, and may this user export "
        "(deploy/redis/tokenweir.acl)?"
    )
    return f"--ledger: no answer ({error}). {doubts}"


def _documents(lags: Mapping[str, Lag]) -> list[Mapping[str, object]]:
    return [
        {
            "name": name,
            "behind_entries": lag.behind,
            "in_hand_entries": lag.pending,
            "oldest_at": _moment(lag.oldest_ms),
            "oldest_age_ms": lag.oldest_age_ms,
        }
        for name, lag in lags.items()
    ]


def _moment(ms: int | None) -> str | None:
    if ms is None:
        return None
    moment = datetime.fromtimestamp(ms / 1_000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _age(age_ms: int | None) -> str:
    if age_ms is None:
        return "-"
    minutes, seconds = divmod(age_ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}min" if hours else f"{minutes}min {seconds}s"


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
