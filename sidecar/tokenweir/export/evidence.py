"""Exported records as evidence of what was spent: see `tokenweir.core.reckoning`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenweir.core.usage_record import Exchange, UsageRecordError, exchange_of
from tokenweir.export.jsonl import read_records as read_lines
from tokenweir.export.open_sink import DEFAULT_TABLE, POSTGRES_SCHEMES
from tokenweir.export.sink import UnreadableExportError

SOURCE = "export"
# Where an exporter would write to: taken as well as the folder alone.
_KIND = "jsonl:"


def exported(source: str, table: str = DEFAULT_TABLE) -> Iterator[Exchange]:
    """
    Return the exchanges that *source* tells of; one may come more than once.

    Args:
        source: A file or a folder of JSON lines, or a ``postgresql://`` URL.
        table: There.

    Raises:
        UnreadableExportError: It can't be read, or something in it is no record.
    """
    if source.startswith(POSTGRES_SCHEMES):
        records = _rows(source, table)
    else:
        records = read_lines(Path(source.removeprefix(_KIND)))
    for record in records:
        try:
            yield exchange_of(record, str(record["entry"]), SOURCE)
        except UsageRecordError as error:
            raise UnreadableExportError(f"the export: {error}") from None


def _rows(url: str, table: str) -> Iterator[dict[str, Any]]:
    try:
        from tokenweir.export.postgres import read_records  # noqa: PLC0415 -- an extra
    except ImportError:
        raise UnreadableExportError(
            "PostgreSQL: psycopg is not installed: pip install 'tokenweir[postgres]'"
        ) from None
    return read_records(url, table)
