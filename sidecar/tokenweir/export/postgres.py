"""
PostgreSQL as a sink, and how to read it back: one row for each hold.

An insert that meets a row of the same hold replaces it if it is more right (see
`tokenweir.export.record.Rank`: settled before lost, later before earlier), and else
changes nothing. So records may come twice, and corrections in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from tokenweir.core.errors import TokenweirError
from tokenweir.core.hold import Outcome
from tokenweir.export.open_sink import DEFAULT_TABLE, postgres_place
from tokenweir.export.postgres_table import (
    DEAD_LETTERS,
    TYPES,
    check,
    create,
    qualified,
    record_of_row,
    values_of,
    without_nul,
)
from tokenweir.export.record import BadEntry, Row
from tokenweir.export.sink import (
    SinkUnavailableError,
    SinkUnusableError,
    UnreadableExportError,
)

# Unless the URL says otherwise. A server that went away without a word is noticed.
_OPTIONS: Mapping[str, Any] = {
    "application_name": "tokenweir export",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
}
# A batch takes a fraction of a second. Whoever locks the table for longer is waited for
# in our own way.
_SETTINGS: Mapping[str, str] = {"statement_timeout": "60s", "lock_timeout": "20s"}
# So that two exporters do not make the same table at once.
_CREATION_LOCK = 0x746F6B656E776569

# What a row is to blame for, and not the server: its value, or a rule of the table.
_OF_A_ROW = (errors.DataError, errors.IntegrityError)
# What a connection's first words say in clear. Anything else they say may be a secret.
_REASONS = (
    "authentication failed",
    "does not exist",
    "Connection refused",
    "No such file or directory",
    "timeout expired",
    "starting up",
    "shutting down",
    "too many clients",
    "no pg_hba.conf entry",
    "could not translate host name",
    "failed to resolve host",
    "certificate verify failed",
)
_READ_ROWS = 1_000

T = TypeVar("T")


class PostgresSink:
    """
    A `tokenweir.export.sink.Sink`.

    Args:
        url: ``postgresql://…``, with all options that libpq has.
        table: Made if it is missing; beside it one for what is no record.
    """

    def __init__(self, url: str, table: str = DEFAULT_TABLE) -> None:
        self._url = url
        self._table = table
        self._connection: Connection[Any] | None = None

    @property
    def place(self) -> str:
        """See `tokenweir.export.sink.Sink.place`."""
        return f"{postgres_place(self._url)} {self._table}"

    def open(self) -> None:
        """See `tokenweir.export.sink.Sink.open`."""
        self.close()
        connection = _told(lambda: connect(self._url))
        self._connection = connection
        try:
            _told(lambda: _prepare(connection, self._table))
        except TokenweirError:
            self.close()
            raise

    def write(self, rows: Sequence[Row], bad: Sequence[BadEntry]) -> int:
        """See `tokenweir.export.sink.Sink.write`."""
        connection = self._connection
        if connection is None:
            raise SinkUnavailableError("not connected")
        letters = [_letter(entry) for entry in bad]
        try:
            return _told(lambda: self._write(connection, rows, letters))
        except TokenweirError:
            self.close()
            raise

    def close(self) -> None:
        """See `tokenweir.export.sink.Sink.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(
        self, connection: Connection[Any], rows: Sequence[Row], letters: Sequence[Any]
    ) -> int:
        upsert = _upsert(self._table)
        try:
            with connection.transaction():
                # In one order, so that two exporters don't wait for each other.
                ordered = sorted(rows, key=lambda row: (row.hold, row.rank))
                _many(connection, upsert, [values_of(row) for row in ordered])
                _many(connection, _keep_letter(self._table), letters)
        except _OF_A_ROW:
            # Some row is to blame. It must not hold up the others for ever.
            return self._write_singly(connection, rows, letters)
        return 0

    def _write_singly(
        self, connection: Connection[Any], rows: Sequence[Row], letters: Sequence[Any]
    ) -> int:
        refused = 0
        with connection.transaction():
            _many(connection, _keep_letter(self._table), letters)
            for row in rows:
                try:
                    with connection.transaction():
                        connection.execute(_upsert(self._table), values_of(row))
                except _OF_A_ROW as error:
                    refused += 1
                    letter = _refused(row, error.sqlstate or "")
                    connection.execute(_keep_letter(self._table), letter)
        return refused


def connect(url: str) -> Connection[Any]:
    """Connect. Raises: psycopg.Error."""
    given = conninfo_to_dict(url)
    options = {name: value for name, value in _OPTIONS.items() if name not in given}
    connection = psycopg.connect(url, autocommit=True, **options)
    for name, value in _SETTINGS.items():
        # What was set for the user, the database or in the URL is stronger.
        connection.execute(_SET_DEFAULT, [name, value, name])
    # Whoever is told that a record is there must not lose it in a crash.
    connection.execute(_SET_DURABLE)
    return connection


_SET_DEFAULT = (
    "SELECT set_config(%s, %s, false) FROM pg_settings "
    "WHERE name = %s AND source = 'default'"
)
_SET_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)


def read_records(url: str, table: str = DEFAULT_TABLE) -> Iterator[dict[str, Any]]:
    """
    Return the exported records, the right one for each hold, the oldest first.

    Each as `tokenweir.export.jsonl.read_records` returns it.

    Raises:
        UnreadableExportError: There is no such database or table.
    """
    query = sql.SQL("SELECT {} FROM {} ORDER BY recorded_at, entry_seq, hold").format(
        sql.SQL(", ").join(map(sql.Identifier, TYPES)), qualified(table)
    )
    try:
        with (
            connect(url) as connection,
            connection.transaction(),
            # A cursor of the server's: a table may be larger than memory.
            connection.cursor("tokenweir_read") as cursor,
        ):
            cursor.itersize = _READ_ROWS
            for values in cursor.execute(query):
                yield record_of_row(values)
    except psycopg.Error as error:
        raise UnreadableExportError(
            f"{postgres_place(url)} {table}: {reason_of(error)}"
        ) from None


def reason_of(error: psycopg.Error) -> str:
    """Return what *error* says, in words that quote nothing."""
    if error.sqlstate:
        return f"{type(error).__name__} ({error.sqlstate})"
    text = str(error)
    return next((reason for reason in _REASONS if reason in text), type(error).__name__)


def _told(action: Callable[[], T]) -> T:
    """Do *action*; its errors become a sink's."""
    try:
        return action()
    except errors.InsufficientPrivilege as error:
        raise SinkUnusableError(
            "this user may not create or write the tables: "
            f"GRANT what docs/export.md lists ({reason_of(error)})"
        ) from None
    except errors.InvalidSchemaName:
        raise SinkUnusableError(
            "there is no such schema, or this user may not use it: CREATE SCHEMA, or "
            "GRANT USAGE ON SCHEMA"
        ) from None
    except psycopg.ProgrammingError as error:
        if error.sqlstate:
            raise SinkUnavailableError(reason_of(error)) from None
        raise SinkUnusableError("its URL has an option that can't be read") from None
    except psycopg.Error as error:
        raise SinkUnavailableError(reason_of(error)) from None


def _prepare(connection: Connection[Any], table: str) -> None:
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise SinkUnusableError("the database's encoding must be UTF8")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATION_LOCK])
        create(connection, table)
        check(connection, table)


def _many(
    connection: Connection[Any], query: sql.Composed, rows: Sequence[Any]
) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(query, rows)


def _upsert(table: str) -> sql.Composed:
    columns = list(map(sql.Identifier, TYPES))
    changes = [sql.SQL("{} = excluded.{}").format(column, column) for column in columns]
    return sql.SQL(
        "INSERT INTO {} AS mine ({}) VALUES ({}) ON CONFLICT (hold) DO UPDATE SET {} "
        "WHERE (mine.outcome <> {lost}, mine.recorded_at, mine.entry_seq) "
        "< (excluded.outcome <> {lost}, excluded.recorded_at, excluded.entry_seq)"
    ).format(
        qualified(table),
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(sql.Placeholder() * len(columns)),
        sql.SQL(", ").join(changes),
        lost=sql.Literal(str(Outcome.LOST)),
    )


def _keep_letter(table: str) -> sql.Composed:
    return sql.SQL(
        "INSERT INTO {} (tag, entry, problem, fields) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING"
    ).format(qualified(table + DEAD_LETTERS))


def _letter(bad: BadEntry) -> tuple[Any, ...]:
    fields = {
        without_nul(name): without_nul(value) for name, value in bad.fields.items()
    }
    return (bad.tag, bad.entry, bad.problem, Jsonb(fields))


def _refused(row: Row, sqlstate: str) -> tuple[Any, ...]:
    fields = {
        name: "" if value is None else str(value) for name, value in row.fields.items()
    }
    problem = f"the database refuses it: {sqlstate}"
    return _letter(BadEntry(row.tag, str(row.entry), problem, fields))
