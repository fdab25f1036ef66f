"""`--ledger`: a URL, or the name of a variable with one."""

from __future__ import annotations

import pytest

from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url


def test_a_url_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL with a password need not be in the list of processes."""
    monkeypatch.setenv("LEDGER", "redis://:secret@host")

    assert ledger_url("redis://one") == "redis://one"
    assert ledger_url("env:LEDGER") == "redis://:secret@host"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("env:NOT_SET", "--ledger: the variable NOT_SET is empty or not set"),
        ("env:WRONG", "--ledger: the variable WRONG must be a redis://"),
        ("http://:CANARY@host", "--ledger: must be a redis://"),
    ],
)
def test_what_is_no_ledger_is_told(
    given: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said where the URL should be and what one looks like, not what was there."""
    monkeypatch.setenv("WRONG", "CANARY")
    monkeypatch.delenv("NOT_SET", raising=False)

    with pytest.raises(LedgerOptionError) as refusal:
        ledger_url(given)

    assert str(refusal.value).startswith(told)
    assert "CANARY" not in str(refusal.value)
