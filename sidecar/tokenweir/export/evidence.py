"""
Exported records as evidence: of what was spent, see `tokenweir.core.reckoning`, and of
what sums should say, see `tokenweir.core.rollups`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tokenweir.core.rollups import Recorded, recorded
from tokenweir.core.usage_record import Exchange, UsageRecordError, exchange_of
from tokenweir.export.jsonl import read_records as read_lines
from tokenweir.export.open_sink import DEFAULT_TABLE, POSTGRES_SCHEMES
from tokenweir.export.sink import UnreadableExportError

SOURCE = "export"
# Where an exporter would write to: taken as well as the folder alone.
_KIND = "jsonl:"

T = TypeVar("T")


def exported(source: str, table: str = DEFAULT_TABLE) -> Iterator[Exchange]:
    """
    Return the exchanges that *source* tells of; one may come more than once.

    Args:
        source: A file or a folder of JSON lines, or a ``postgresql://`` URL.
        table: There.

    Raises:
        UnreadableExportError: It can't be read, or something in it is no record.
    """
    return _read(source, table, exchange_of)


def exported_figures(source: str, table: str = DEFAULT_TABLE) -> Iterator[Recorded]:
    """Return the same with what each adds to sums. Args and raises: see `exported`."""
    return _read(source, table, recorded)


def _read(
    source: str, table: str, reading: Callable[[Mapping[str, Any], str, str], T]
) -> Iterator[T]:
    if source.startswith(POSTGRES_SCHEMES):
        records = _rows(source, table)
    else:
        records = read_lines(Path(source.removeprefix(_KIND)))
    for record in records:
        try:
            yield reading(record, str(record["entry"]), SOURCE)
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
