"""`tokenweir export`: what can be asked for, and what can't."""

from __future__ import annotations

import pytest

from tokenweir.cli.main import main

URL = "redis://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "SINK is missing"),
        (("jsonl:x", "--json"), "--json goes with --lag"),
        (("jsonl:x",), "TOKENWEIR_LEDGER_URL is empty or not set"),
        (("--lag",), "TOKENWEIR_LEDGER_URL is empty or not set"),
        (("csv:x", "--ledger", URL), "must be jsonl:DIR, parquet:DIR or a postgresql"),
        (("env:NONE", "--ledger", URL), "is a variable, NONE, that is empty"),
        (("jsonl:x", "--ledger", "http://CANARY"), "redis://"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    """What is missing or can't be is told, with what would be right."""
    monkeypatch.delenv("TOKENWEIR_LEDGER_URL", raising=False)
    assert main(["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "CANARY" not in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--batch-rows", "1"), "must be 2 to 50,000"),
        (("--interval", "0"), "must be 1 to 3,600"),
        (("--admin", "9090"), "must be HOST:PORT"),
        (("--admin", "h:70000"), "must be HOST:PORT"),
    ],
)
def test_options(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    """Numbers and addresses out of range are wrong usage."""
    with pytest.raises(SystemExit) as left:
        main(["export", "jsonl:x", *arguments])
    assert left.value.code == 2
    assert told in capsys.readouterr().err
