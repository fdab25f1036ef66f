"""A text says which sink is meant; each has a group of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenweir.export.jsonl import JsonlSink
from tokenweir.export.open_sink import (
    SinkPlace,
    place_of,
    postgres_place,
    sink_at,
)
from tokenweir.export.parquet import ParquetSink
from tokenweir.export.postgres import PostgresSink
from tokenweir.export.sink import SinkUnusableError

URL = "postgresql://me:CANARY@db.example:5433/usage?sslmode=require"


def test_places() -> None:
    """A prefix or a scheme tells the kind."""
    assert place_of("jsonl:/var/x") == SinkPlace("jsonl", "/var/x")
    assert place_of("parquet:x:y") == SinkPlace("parquet", "x:y")
    assert place_of(URL) == SinkPlace("postgres", URL)
    assert place_of("postgres://x") == SinkPlace("postgres", "postgres://x")


@pytest.mark.parametrize(
    "text", ["", "x", "/var/x", "jsonl:", "csv:x", "mysql://CANARY"]
)
def test_what_is_no_place(text: str) -> None:
    """Anything else is told what it must be, and not repeated."""
    with pytest.raises(SinkUnusableError, match="must be jsonl:DIR") as told:
        place_of(text)
    assert "CANARY" not in str(told.value)


def test_groups() -> None:
    """The group's name tells the place, without a password, and other places differ."""
    jsonl = SinkPlace("jsonl", "x").default_name()
    assert jsonl == f"jsonl:{Path.cwd()}/x"
    assert SinkPlace("parquet", "/x").default_name() == "parquet:/x"
    name = SinkPlace("postgres", URL).default_name("t")
    assert name == "postgresql://db.example:5433/usage t"


def test_places_of_databases() -> None:
    """User, password and options are left out, but for a socket's folder."""
    assert postgres_place("postgresql:///x?host=/run/pg&user=a") == (
        "postgresql:///run/pg/x"
    )
    assert postgres_place("postgresql://[::1]/x") == "postgresql://[::1]/x"
    with pytest.raises(SinkUnusableError, match="port"):
        postgres_place("postgresql://x:CANARY/y")


def test_sinks(tmp_path: Path) -> None:
    """Each kind has its sink."""
    assert isinstance(sink_at(SinkPlace("jsonl", str(tmp_path))), JsonlSink)
    assert isinstance(sink_at(SinkPlace("parquet", str(tmp_path))), ParquetSink)
    assert isinstance(sink_at(SinkPlace("postgres", URL)), PostgresSink)


@pytest.mark.parametrize(
    ("kind", "library"), [("parquet", "pyarrow"), ("postgres", "psycopg")]
)
def test_a_library_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, kind: str, library: str
) -> None:
    """A library that is not installed is told of, with the command that does."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    wanted = rf"needs {library}.*: pip install 'tokenweir\[{kind}\]'"
    with pytest.raises(SinkUnusableError, match=wanted):
        sink_at(SinkPlace(kind, URL))
    assert isinstance(sink_at(SinkPlace("jsonl", "x")), JsonlSink)
