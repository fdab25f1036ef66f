"""Where exported records are: more in test_ledger.py."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from tokenweir.cli.ledger_option import LedgerOptionError
from tokenweir.cli.records_option import (
    add_records_options,
    read_all,
    records_source,
)


def test_options() -> None:
    """Sources can be several; without any there is none."""
    parser = argparse.ArgumentParser()
    add_records_options(parser)
    found = parser.parse_args(["--records", "a", "--records", "b", "--table", "t"])

    assert (found.records, found.table) == (["a", "b"], "t")
    assert parser.parse_args([]).records == []


def test_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what it says, or what a variable says; that may not be empty."""
    monkeypatch.setenv("TW_RECORDS", "postgresql://u:pw@db/x")

    assert records_source("folder") == "folder"
    assert records_source("env:TW_RECORDS") == "postgresql://u:pw@db/x"
    monkeypatch.setenv("TW_RECORDS", "")
    with pytest.raises(LedgerOptionError, match="TW_RECORDS is empty or not set"):
        records_source("env:TW_RECORDS")


def test_all_is_read() -> None:
    """One source after the other, from the table that is given, or the usual one."""

    def reading(source: str, table: str) -> Iterator[str]:
        yield f"{source}/{table}"

    assert list(read_all(["a", "b"], "t", reading)) == ["a/t", "b/t"]
    assert list(read_all(["a"], None, reading)) == ["a/tokenweir_usage"]
    assert list(read_all([], None, reading)) == []
