"""
The tables that records are exported to, and whether they are what they should be.

A row is the newest record of one hold. Types say what values are: times are
`timestamptz`, tokens and durations `bigint`, and money is `numeric(20,9)` in US
dollars. People write queries on this table by hand: `sum(cost_usd)` is dollars, exact
to the billionth, and nobody divides by the wrong power of ten. (A sum of `bigint` is
`numeric` as well, so nothing would be saved.)

Columns of your own may be added, as long as they have a default or may be null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, LiteralString

from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.export.record import COLUMNS, OPTIONAL_NUMBERS, EntryId, Row, is_number
from tokenweir.export.sink import SinkUnusableError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOUSD, _USD = "_nanousd", "_usd"
_MONEY, _MOMENT = "numeric(20,9)", "timestamp with time zone"
DEAD_LETTERS = "_dead_letters"
_LETTER_TYPES: Mapping[str, LiteralString] = {
    "tag": "text",
    "entry": "text",
    "problem": "text",
    "fields": "jsonb",
}


def column_of(name: str) -> str:
    """Return the column that a field of a record is in."""
    if name.endswith(_NANOUSD):
        return name.removesuffix(_NANOUSD) + _USD
    return "reserved_at" if name == "reserved_at_ms" else name


def _type_of(name: str) -> LiteralString:
    if name.endswith(_NANOUSD):
        return _MONEY
    if name == "reserved_at_ms":
        return _MOMENT
    if name == "correction":
        return "boolean"
    return "bigint" if is_number(name) else "text"


# Beside the fields of a record: when it was written, its number in that millisecond,
# whose stream it was in, and fields that this version has not heard of.
TYPES: Mapping[str, LiteralString] = {
    **{column_of(name): _type_of(name) for name in COLUMNS},
    "recorded_at": _MOMENT,
    "entry_seq": "bigint",
    "tag": "text",
    "extra": "jsonb",
}
NULLABLE = (*OPTIONAL_NUMBERS, "extra")


def values_of(row: Row) -> tuple[Any, ...]:
    """Return *row* in the order of `TYPES`."""
    fields = [_stored(name, row.fields[name]) for name in COLUMNS]
    extra = Jsonb(_without_nul(row.extra)) if row.extra else None
    return (*fields, _moment(row.entry.ms), row.entry.seq, row.tag, extra)


def record_of_row(values: Sequence[Any]) -> dict[str, Any]:
    """Return what `values_of` was made from, as `Row.as_dict` has it."""
    *fields, recorded_at, seq, tag, extra = values
    record = {
        name: _read(name, value) for name, value in zip(COLUMNS, fields, strict=True)
    }
    entry = EntryId(_ms(recorded_at), seq)
    return {"tag": tag, "entry": str(entry), **record, **(extra or {})}


def qualified(table: str) -> sql.Identifier:
    """Return *table*, which may have a schema before a dot, as SQL has it."""
    return sql.Identifier(*table.split("."))


def create(connection: Connection[Any], table: str) -> None:
    """Make the two tables, unless they are there."""
    if not _exists(connection, table):
        columns = [
            sql.SQL("{} " + kind + ("" if name in NULLABLE else " NOT NULL")).format(
                sql.Identifier(name)
            )
            for name, kind in TYPES.items()
        ]
        _make(connection, table, columns, ("hold",))
        index = sql.SQL("CREATE INDEX ON {} (reserved_at)")
        connection.execute(index.format(qualified(table)))
    if not _exists(connection, table + DEAD_LETTERS):
        columns = [
            sql.SQL("{} " + kind + " NOT NULL").format(sql.Identifier(name))
            for name, kind in _LETTER_TYPES.items()
        ]
        _make(connection, table + DEAD_LETTERS, columns, ("tag", "entry"))


def check(connection: Connection[Any], table: str) -> None:
    """Return if both tables have the right form. Raises: SinkUnusableError."""
    problems = [
        *_problems(connection, table, TYPES, ("hold",)),
        *_problems(connection, table + DEAD_LETTERS, _LETTER_TYPES, ("tag", "entry")),
    ]
    if problems:
        raise SinkUnusableError("; ".join(problems))


def _make(
    connection: Connection[Any],
    table: str,
    columns: Sequence[sql.Composable],
    key: Sequence[str],
) -> None:
    statement = sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(
        qualified(table),
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(map(sql.Identifier, key)),
    )
    connection.execute(statement)


def _exists(connection: Connection[Any], table: str) -> bool:
    name = qualified(table).as_string(connection)
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
    return bool(found and found[0])


def _problems(
    connection: Connection[Any],
    table: str,
    types: Mapping[str, LiteralString],
    key: Sequence[str],
) -> list[str]:
    name = qualified(table).as_string(connection)
    found = {
        column: (kind, is_free)
        for column, kind, is_free in connection.execute(_COLUMNS_QUERY, [name])
    }
    problems = [
        f"{table}.{column} is {found[column][0]}, must be {kind}"
        for column, kind in types.items()
        if column in found and found[column][0] != kind
    ]
    additions = [
        f"ADD COLUMN {column} {kind}{_default_of(column, kind)}"
        for column, kind in types.items()
        if column not in found
    ]
    if additions:
        problems.append(f"run: ALTER TABLE {table} {', '.join(additions)}")
    problems += [
        f"{table}.{column} is not known and may not be null: give it a default"
        for column, (_, is_free) in found.items()
        if column not in types and not is_free
    ]
    keys = [row[0] for row in connection.execute(_KEYS_QUERY, [name])]
    if sorted(key) not in map(sorted, keys):
        problems.append(f"{table} has no unique index on ({', '.join(key)})")
    return problems


def _default_of(column: str, kind: str) -> str:
    if column in NULLABLE:
        return ""
    blank = {"text": "''", "boolean": "false", _MOMENT: "'epoch'", "jsonb": "'{}'"}
    return f" NOT NULL DEFAULT {blank.get(kind, '0')}"


_COLUMNS_QUERY = """
SELECT attname, format_type(atttypid, atttypmod),
       NOT attnotnull OR atthasdef OR attidentity <> ''
FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
# Unique, for all rows, at once, and on columns only: what ON CONFLICT can go by.
_KEYS_QUERY = """
SELECT array(SELECT attname::text FROM pg_attribute
             WHERE attrelid = indrelid AND attnum = ANY (indkey))
FROM pg_index
WHERE indrelid = to_regclass(%s) AND indisunique AND indimmediate AND indisvalid
  AND indpred IS NULL AND indexprs IS NULL AND indnkeyatts = indnatts
"""


def _stored(name: str, value: Any) -> Any:
    if name.endswith(_NANOUSD):
        return Decimal(value) / NANOUSD_PER_USD
    if name == "reserved_at_ms":
        return _moment(value)
    if name == "correction":
        return value == "1"
    return without_nul(value) if isinstance(value, str) else value


def _read(name: str, value: Any) -> Any:
    if name.endswith(_NANOUSD):
        return int(value * NANOUSD_PER_USD)
    if name == "reserved_at_ms":
        return _ms(value)
    if name == "correction":
        return "1" if value else "0"
    return value


def without_nul(text: str) -> str:
    """Return *text* as a database can keep it: no text there has a zero byte."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _without_nul(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        without_nul(name): without_nul(value) if isinstance(value, str) else value
        for name, value in fields.items()
    }


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
