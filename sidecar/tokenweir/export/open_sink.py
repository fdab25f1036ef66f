"""Which sink a text means, such as ``jsonl:/var/lib/usage``."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tokenweir.export.sink import Sink, SinkUnusableError

FILE_KINDS = ("jsonl", "parquet")
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
WANTED = "must be jsonl:DIR, parquet:DIR or a postgresql:// URL"
DEFAULT_TABLE = "tokenweir_usage"
# What has to be installed for a kind, and as which extra.
_LIBRARIES: Mapping[str, str] = {"parquet": "pyarrow", "postgres": "psycopg"}


@dataclass(frozen=True, slots=True)
class SinkPlace:
    """
    Where to export to.

    Attributes:
        kind: ``"jsonl"``, ``"parquet"`` or ``"postgres"``.
        target: A folder, or a URL, which may hold a password.
    """

    kind: str
    target: str

    def default_name(self, table: str = DEFAULT_TABLE) -> str:
        """
        Return what its consumer group is called, unless it is called otherwise.

        Each place has a group of its own, and gets all records. No password in it.
        """
        if self.kind != "postgres":
            return f"{self.kind}:{Path(self.target).absolute()}"
        return f"{postgres_place(self.target)} {table}"


def place_of(text: str) -> SinkPlace:
    """Return what *text* means. Raises: SinkUnusableError; it repeats no text."""
    if text.startswith(POSTGRES_SCHEMES):
        return SinkPlace("postgres", text)
    kind, colon, folder = text.partition(":")
    if kind in FILE_KINDS and colon and folder:
        return SinkPlace(kind, folder)
    raise SinkUnusableError(WANTED)


def postgres_place(url: str) -> str:
    """Return *url* without user, password and options. Raises: SinkUnusableError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SinkUnusableError(
            f"has a host or port that can't be read; it {WANTED}"
        ) from None
    # A socket's folder is an option, and the only one that tells where it is.
    folder = dict(parse_qsl(parts.query)).get("host", "")
    place = f"[{host}]" if ":" in host else host or folder
    return f"postgresql://{place}{f':{port}' if port else ''}{parts.path}"


def sink_at(place: SinkPlace, *, table: str = DEFAULT_TABLE) -> Sink:
    """
    Return a sink that was not opened yet.

    Args:
        place: Where it is.
        table: In a database; it may have a schema before a dot.

    Raises:
        SinkUnusableError: It needs a library that is not installed.
    """
    library = _LIBRARIES.get(place.kind)
    if library and importlib.util.find_spec(library) is None:
        raise SinkUnusableError(
            f"needs {library}, which is not installed: "
            f"pip install 'tokenweir[{place.kind}]'"
        )
    if place.kind == "postgres":
        from tokenweir.export.postgres import PostgresSink  # noqa: PLC0415 -- optional

        return PostgresSink(place.target, table)
    if place.kind == "parquet":
        from tokenweir.export.parquet import ParquetSink  # noqa: PLC0415 -- optional

        return ParquetSink(Path(place.target))
    from tokenweir.export.jsonl import JsonlSink  # noqa: PLC0415 -- as the others

    return JsonlSink(Path(place.target))
