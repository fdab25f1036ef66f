"""An exporter as a process survives being killed, and stops when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry

from tests.export.ledgers import PATIENCE, MemorySink, Told, pending, put, until
from tests.export.postgres_server import PostgresServer
from tests.servers import Server
from tokenweir.export import jsonl, parquet
from tokenweir.export.exporter import ExportSettings
from tokenweir.export.postgres import read_records
from tokenweir.export.service import Job, consumer_name, export
from tokenweir.export.sink import UnreadableExportError

# Of all exporters of a test together.
ROWS = 1_600
FEW_ROWS = 480


@contextmanager
def running(
    sink: str, url: str, *options: str, consumer: str = "c"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `tokenweir export`, and end it in the end."""
    command = [sys.executable, "-m", "tokenweir", "export", sink, "--ledger", url]
    names = ["--name", "g", "--consumer", consumer]
    process = subprocess.Popen(
        [*command, *names, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(sink: str, url: str, consumer: str) -> None:
    """Run an exporter that has to come to its end."""
    with running(sink, url, "--once", consumer=consumer) as process:
        told, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told


async def kill_at_random_points(
    sink: str, url: str, count: Callable[[], int], kills: int, rows: int = ROWS
) -> list[str]:
    """
    Kill exporters in the middle, and let a last one finish.

    *count* tells how many records the sink has. Returns the holds of all records.
    """
    chance = random.Random(17)
    holds = [f"h{number}" for number in range(rows)]
    share = rows // (kills + 1)
    put(url, holds[kills * share :])
    for number in range(kills):
        # However much the one before has written, so many are left to this one.
        put(url, holds[number * share : (number + 1) * share])
        goal = count() + chance.randrange(1, share)
        with running(sink, url, "--batch-rows", "8") as process:
            await until(partial(_reaches, count, goal))
            process.send_signal(signal.SIGKILL)
    finish(sink, url, "c")
    return holds


@pytest.mark.e2e
async def test_killed_while_it_writes_to_postgres(
    valkey: Server, postgres: PostgresServer
) -> None:
    """However often it is killed, a table has every record, and each once."""

    def count() -> int:
        with psycopg.connect(postgres.url) as connection:
            try:
                asked = connection.execute("SELECT count(*) FROM tokenweir_usage")
            except psycopg.errors.UndefinedTable:
                return 0
            (rows,) = asked.fetchone() or (0,)
            return int(rows)

    holds = await kill_at_random_points(postgres.url, valkey.url, count, kills=5)

    found = Counter(record["hold"] for record in read_records(postgres.url))
    assert found == Counter(holds)
    assert pending(valkey.url) == 0


@pytest.mark.e2e
async def test_killed_while_it_writes_files(valkey: Server, tmp_path: Path) -> None:
    """However often it is killed, files have every record, and no line in half."""

    def count() -> int:
        return sum(1 for _ in jsonl.read_records(tmp_path)) if _files(tmp_path) else 0

    holds = await kill_at_random_points(f"jsonl:{tmp_path}", valkey.url, count, kills=2)

    lines = [record["hold"] for record in jsonl.read_records(tmp_path)]
    assert set(lines) == set(holds)
    # One that starts again finds in the files what it had written.
    assert len(lines) == len(holds)
    assert pending(valkey.url) == 0


@pytest.mark.e2e
async def test_killed_while_it_writes_parquet(valkey: Server, tmp_path: Path) -> None:
    """
    However often it is killed, there is every record in files that are whole: whatever
    has the name of one can be read at any moment, and nothing half is left in the end.
    """
    counts: dict[Path, int] = {}

    def count() -> int:
        for path in tmp_path.glob("*.parquet"):
            if path not in counts:
                counts[path] = pq.read_metadata(path).num_rows
        return sum(counts.values())

    sink = f"parquet:{tmp_path}"
    holds = await kill_at_random_points(sink, valkey.url, count, kills=2, rows=FEW_ROWS)

    found = jsonl.newest(parquet.read_records(tmp_path))
    assert set(found) == set(holds)
    assert count() >= len(holds)
    assert len(counts) > 1
    assert _unfinished(tmp_path) == []
    assert pending(valkey.url) == 0


@pytest.mark.e2e
async def test_told_to_stop(valkey: Server, tmp_path: Path) -> None:
    """SIGTERM has it write what is in hand, and leave nothing to anybody."""
    put(valkey.url, ["a", "b"])
    sink = f"jsonl:{tmp_path}"
    with running(sink, valkey.url, "--interval", "3600") as process:
        await until(lambda: pending(valkey.url) == 2)
        process.terminate()
        told, _ = await asyncio.to_thread(process.communicate, None, PATIENCE)

    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in told.splitlines()]
    assert events == ["export_started", "export_stopped"]
    assert set(jsonl.current_records(tmp_path)) == {"a", "b"}
    assert pending(valkey.url) == 0


@pytest.mark.e2e
async def test_a_database_that_is_away(
    valkey: Server, postgres: PostgresServer
) -> None:
    """A database that is restarted costs no record, and a line at each end."""
    put(valkey.url, ["a"])
    with running(postgres.url, valkey.url) as process:
        await until(lambda: _is_exported(postgres, {"a"}) and not pending(valkey.url))
        postgres.stop()
        try:
            put(valkey.url, ["b"])
            await until(lambda: pending(valkey.url) == 1)
        finally:
            postgres.start()
        await until(lambda: _is_exported(postgres, {"a", "b"}))
        await until(lambda: pending(valkey.url) == 0)
        process.terminate()
        told, _ = await asyncio.to_thread(process.communicate, None, PATIENCE)

    events = [json.loads(line)["event"] for line in told.splitlines()]
    assert events == [
        "export_started",
        "export_waiting",
        "export_resumed",
        "export_stopped",
    ]


async def test_in_this_process(valkey: Server) -> None:
    """A job that runs once exports, and tells that it began and ended."""
    put(valkey.url, ["a"])
    sink, told = MemorySink(), Told()
    settings = ExportSettings(once=True)
    job = Job(valkey.url, "g", "c", sink, settings)
    assert await export(job, told.log, CollectorRegistry())

    assert sink.holds == ["a"]
    assert told.events() == ["export_started", "export_stopped"]
    assert told.lines()[1]["drained"] is True


async def test_lag_as_a_metric(valkey: Server) -> None:
    """How far behind it is, is told meanwhile; a signal ends it."""
    put(valkey.url, ["a", "b"])
    sink, told = MemorySink(), Told()
    settings = ExportSettings(interval_seconds=3_600)
    registry = CollectorRegistry()
    job = Job(valkey.url, "g", "c", sink, settings)
    running_job = asyncio.create_task(export(job, told.log, registry))

    def behind() -> float | None:
        return registry.get_sample_value("tokenweir_export_behind_entries")

    await until(lambda: behind() == 2 and pending(valkey.url) == 2)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running_job
    assert sink.holds == ["a", "b"]


def test_names_of_consumers() -> None:
    """Two processes have two names, also where host and process id are the same."""
    assert f"-{os.getpid()}-" in consumer_name()
    assert consumer_name() != consumer_name()


def _reaches(count: Callable[[], int], goal: int) -> bool:
    return count() >= goal


def _unfinished(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{parquet.UNFINISHED}"))


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("usage-*.jsonl"))


def _is_exported(server: PostgresServer, holds: set[str]) -> bool:
    try:
        return {record["hold"] for record in read_records(server.url)} == holds
    except UnreadableExportError:
        return False
