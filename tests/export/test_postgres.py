"""A table has the right record of each hold, whatever happens on the way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.export.postgres_server import PostgresServer
from tests.export.rows import MIDNIGHT_MS, row
from tokenweir.export.postgres import PostgresSink, connect, read_records, reason_of
from tokenweir.export.record import BadEntry
from tokenweir.export.sink import (
    SinkUnavailableError,
    SinkUnusableError,
    UnreadableExportError,
)

BAD = BadEntry("tw:017", "5-0", "it lacks hold", {"ju\0nk": "1\0"})


@pytest.fixture
def sink(postgres: PostgresServer) -> Iterator[PostgresSink]:
    """A sink that is open."""
    made = PostgresSink(postgres.url)
    made.open()
    yield made
    made.close()


def make_table(server: PostgresServer) -> None:
    """Have the tables made."""
    sink = PostgresSink(server.url)
    sink.open()
    sink.close()


def ask(server: PostgresServer, query: str) -> list[tuple[Any, ...]]:
    """Return what the database answers."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def test_what_is_written_is_read(sink: PostgresSink, postgres: PostgresServer) -> None:
    """A record comes back as it was, with what this version has not heard of."""
    rows = [
        row("a", f"{MIDNIGHT_MS + 1}-18", first_token_ms="", new_tokens="7", new="x"),
        row("b", f"{MIDNIGHT_MS + 2}-0", first_token_ms="240", flags="unpriced"),
    ]
    assert sink.write(rows, []) == 0

    assert list(read_records(postgres.url)) == [each.as_dict() for each in rows]
    assert sink.place == f"postgresql://{postgres.home}/postgres tokenweir_usage"


def test_types(sink: PostgresSink, postgres: PostgresServer) -> None:
    """Money is exact dollars, times are times, tokens are numbers."""
    sink.write([row("a"), row("b")], [])
    ((cost, tokens, day, corrected),) = ask(
        postgres,
        "SELECT sum(cost_usd), sum(input_tokens), "
        "min(reserved_at AT TIME ZONE 'UTC')::date::text, bool_or(correction) "
        "FROM tokenweir_usage",
    )

    assert cost == Decimal("0.500000150")
    assert tokens == 200
    assert day == "2026-01-01"
    assert corrected is False


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_corrections_in_any_order(
    sink: PostgresSink, postgres: PostgresServer, order: tuple[int, ...]
) -> None:
    """The latest entry of a hold stays, in one batch, in several, and again."""
    rows = [
        row("a", f"{MIDNIGHT_MS}-9", input_tokens="1"),
        row("a", f"{MIDNIGHT_MS}-10", correction=True, input_tokens="2"),
        row("a", f"{MIDNIGHT_MS + 1}-0", correction=True, input_tokens="3"),
    ]
    sink.write([rows[number] for number in order], [])
    for number in order:
        sink.write([rows[number]], [])

    (found,) = read_records(postgres.url)
    assert found == rows[2].as_dict()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_what_was_settled_stays(
    sink: PostgresSink, postgres: PostgresServer, order: tuple[int, ...]
) -> None:
    """
    A hold that an older snapshot has brought back is lost once more, and an estimate that
    was given back corrects that: neither takes the place of what was settled.
    """
    rows = [
        row("a", f"{MIDNIGHT_MS}-1", outcome="lost"),
        row("a", f"{MIDNIGHT_MS}-2", correction=True),
        row("a", f"{MIDNIGHT_MS}-3", outcome="lost"),
        row("a", f"{MIDNIGHT_MS}-4", outcome="lost", correction=True),
    ]
    for number in order:
        sink.write([rows[number]], [])
    sink.write([rows[number] for number in order], [])

    assert list(read_records(postgres.url)) == [rows[1].as_dict()]


def test_an_estimate_is_corrected(sink: PostgresSink, postgres: PostgresServer) -> None:
    """Of estimates the later one is right, and whatever is settled before all of them."""
    rows = [
        row("a", f"{MIDNIGHT_MS}-1", outcome="lost"),
        row("a", f"{MIDNIGHT_MS}-2", outcome="lost", correction=True),
        row("a", f"{MIDNIGHT_MS}-3", outcome="cut", correction=True),
    ]
    for each in rows:
        sink.write([each], [])

        assert list(read_records(postgres.url)) == [each.as_dict()]


def test_what_the_manual_has_for_files(postgres: PostgresServer) -> None:
    """Its view over files finds the record that is right for each hold."""
    manual = Path("docs/export.md").read_text()
    (view,) = re.findall(r"```sql\n(CREATE VIEW.*?)```", manual, re.DOTALL)
    ask(
        postgres,
        "CREATE TABLE usage_files (hold text, outcome text, entry_ms int, entry_seq int)",
    )
    ask(
        postgres,
        "INSERT INTO usage_files VALUES ('a', 'completed', 5, 9), "
        "('a', 'completed', 5, 10), ('a', 'lost', 6, 0), ('b', 'lost', 4, 0), "
        "('b', 'lost', 5, 0), ('a', 'lost', 5, 8), ('a', 'completed', 5, 10)",
    )
    ask(postgres, view)

    assert ask(
        postgres, "SELECT hold, outcome, entry_ms, entry_seq FROM usage ORDER BY hold"
    ) == [("a", "completed", 5, 10), ("b", "lost", 5, 0)]


def test_dead_letters(sink: PostgresSink, postgres: PostgresServer) -> None:
    """What is no record is kept in a table of its own, once."""
    sink.write([], [BAD])
    sink.write([row()], [BAD])

    assert ask(postgres, "SELECT * FROM tokenweir_usage_dead_letters") == [
        ("tw:017", "5-0", "it lacks hold", {"ju\ufffdnk": "1\ufffd"})
    ]


def test_text_that_no_database_keeps(
    sink: PostgresSink, postgres: PostgresServer
) -> None:
    """A zero byte in a model's name is replaced, and stops nothing."""
    assert sink.write([row("a", model="x\0y", odd="\0")], []) == 0

    (found,) = read_records(postgres.url)
    assert found["model"] == "x\ufffdy"
    assert found["odd"] == "\ufffd"


def test_a_row_that_is_refused(sink: PostgresSink, postgres: PostgresServer) -> None:
    """A row against a rule of the table is put aside; all others are written."""
    ask(postgres, "ALTER TABLE tokenweir_usage ADD CHECK (model <> 'secret')")
    rows = [row("a"), row("b", model="secret", first_token_ms=""), row("c")]

    assert sink.write(rows, [BAD]) == 1
    assert [found["hold"] for found in read_records(postgres.url)] == ["a", "c"]
    problems = ask(postgres, "SELECT problem FROM tokenweir_usage_dead_letters")
    assert sorted(problems) == [
        ("it lacks hold",),
        ("the database refuses it: 23514",),
    ]


def test_another_table(postgres: PostgresServer) -> None:
    """The table can have any name, in any schema."""
    ask(postgres, 'CREATE SCHEMA "My Money"')
    sink = PostgresSink(postgres.url, "My Money.llm; usage")
    sink.open()
    sink.write([row()], [])
    sink.close()

    (found,) = read_records(postgres.url, "My Money.llm; usage")
    assert found["hold"] == "0-1-a"
    with pytest.raises(UnreadableExportError, match="UndefinedTable"):
        list(read_records(postgres.url))


def test_a_table_of_another_form(postgres: PostgresServer) -> None:
    """A table that does not fit is told of, all of it, before anything is written."""
    make_table(postgres)
    ask(
        postgres,
        "ALTER TABLE tokenweir_usage ALTER COLUMN cost_usd TYPE double precision, "
        "DROP COLUMN flags, ADD COLUMN team text NOT NULL, "
        "DROP CONSTRAINT tokenweir_usage_pkey",
    )
    with pytest.raises(SinkUnusableError) as told:
        PostgresSink(postgres.url).open()

    assert str(told.value) == (
        "tokenweir_usage.cost_usd is double precision, must be numeric(20,9); "
        "run: ALTER TABLE tokenweir_usage ADD COLUMN flags text NOT NULL DEFAULT ''; "
        "tokenweir_usage.team is not known and may not be null: give it a default; "
        "tokenweir_usage has no unique index on (hold)"
    )


def test_a_table_of_an_older_version(postgres: PostgresServer) -> None:
    """What the error says to run adds the columns that are missing."""
    make_table(postgres)
    ask(
        postgres,
        "ALTER TABLE tokenweir_usage DROP COLUMN flags, DROP COLUMN cost_usd, "
        "DROP COLUMN extra, DROP COLUMN first_token_ms, DROP COLUMN recorded_at",
    )
    with pytest.raises(SinkUnusableError) as told:
        make_table(postgres)
    ask(postgres, str(told.value).removeprefix("run: "))
    sink = PostgresSink(postgres.url)
    sink.open()

    assert sink.write([row()], []) == 0
    sink.close()


def test_few_rights(postgres: PostgresServer) -> None:
    """A user who may only read and write the tables is enough, and told if not."""
    ask(postgres, "DROP ROLE IF EXISTS weir")
    ask(postgres, "CREATE ROLE weir LOGIN")
    url = postgres.url.replace("user=tw", "user=weir")
    with pytest.raises(SinkUnusableError, match="GRANT"):
        PostgresSink(url).open()
    make_table(postgres)
    sink = PostgresSink(url)
    sink.open()
    with pytest.raises(SinkUnusableError, match="GRANT"):
        sink.write([row()], [])
    ask(
        postgres,
        "GRANT SELECT, INSERT, UPDATE ON tokenweir_usage, "
        "tokenweir_usage_dead_letters TO weir",
    )
    sink.open()
    assert sink.write([row()], [BAD]) == 0
    assert sink.write([row()], [BAD]) == 0
    sink.close()
    ask(postgres, "DROP OWNED BY weir")


def test_a_server_that_is_away(postgres: PostgresServer) -> None:
    """Whatever is away, or was, is unavailable, in words without a secret."""
    sink = PostgresSink(postgres.url)
    with pytest.raises(SinkUnavailableError, match="not connected"):
        sink.write([row()], [])
    sink.open()
    ask(
        postgres,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'tokenweir export'",
    )
    with pytest.raises(SinkUnavailableError):
        sink.write([row()], [])
    sink.open()
    assert sink.write([row()], []) == 0
    sink.close()

    away = PostgresSink("postgresql://u:CANARY@localhost/x?host=/nowhere")
    with pytest.raises(SinkUnavailableError, match="No such file") as told:
        away.open()
    assert "CANARY" not in str(told.value) + away.place
    with pytest.raises(UnreadableExportError):
        list(read_records("postgresql:///x?host=/nowhere"))


def test_a_url_of_nonsense() -> None:
    """An option that there is none of is for somebody to mend, and not quoted."""
    with pytest.raises(SinkUnusableError, match="option") as told:
        PostgresSink("postgresql://localhost/x?CANARY=1").open()
    assert "CANARY" not in str(told.value)


def test_no_schema(postgres: PostgresServer) -> None:
    """A schema that is not there is for somebody to make."""
    with pytest.raises(SinkUnusableError, match="CREATE SCHEMA"):
        PostgresSink(postgres.url, "none.usage").open()


def test_another_encoding(postgres: PostgresServer) -> None:
    """A database that can't keep every name is refused."""
    ask(postgres, "DROP DATABASE IF EXISTS latin")
    ask(postgres, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    url = postgres.url.replace("/postgres?", "/latin?")
    with pytest.raises(SinkUnusableError, match="UTF8"):
        PostgresSink(url).open()


def test_durable(postgres: PostgresServer) -> None:
    """A commit waits for the disk, also where that is off for everybody."""
    url = f"{postgres.url}&options=-csynchronous_commit%3Doff%20-clock_timeout%3D5s"
    with connect(url) as connection:
        asked = (
            "SELECT current_setting('synchronous_commit'), "
            "current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        assert connection.execute(asked).fetchone() == ("on", "1min", "5s")


def test_reasons() -> None:
    """An error is told by its code, or by words that are known to quote nothing."""
    assert reason_of(psycopg.errors.DiskFull("x CANARY")) == "DiskFull (53100)"
    assert reason_of(psycopg.OperationalError("CANARY")) == "OperationalError"
    refused = psycopg.OperationalError("port 1 CANARY failed: Connection refused")
    assert reason_of(refused) == "Connection refused"
