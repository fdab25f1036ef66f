"""Published policies are shown so that nothing in them can harm a terminal."""

from __future__ import annotations

from tests.governance.documents import signed
from tokenweir.cli.policy_text import as_object, difference, history_table
from tokenweir.governance.policy_desk import Entry


def test_differences() -> None:
    """What changed is told as `diff -u` does, and nothing if nothing did."""
    assert difference("a\nb\n", "a\nc\n", "version 1", "p.yaml") == (
        "--- version 1\n+++ p.yaml\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert difference("a\n", "a\n", "x", "y") == ""


def test_terminals_are_not_obeyed() -> None:
    """Control characters of a policy are not printed."""
    assert "\x1b" not in difference("", "a: \x1b[2J\n", "x", "y")


def test_history() -> None:
    """Each version has a line, with what is known of its signature."""
    entries = [
        Entry(signed(12, by="ann", comment="more"), verified=True),
        Entry(signed(3), verified=False),
        Entry(signed(2), verified=None),
    ]

    lines = history_table(entries, bold=False).splitlines()

    assert lines[1].split() == ["12", "2026-11-30T12:00:00Z", "ann", "valid", "more"]
    assert ["INVALID" in line for line in lines] == [False, False, True, False]
    assert "not checked" in lines[3]


def test_for_machines() -> None:
    """JSON says the same."""
    assert as_object(signed(2, "ä"), verified=None) == {
        "version": 2,
        "published_at": "2026-11-30T12:00:00Z",
        "by": "ann",
        "comment": "why not",
        "verified": None,
        "size_bytes": 2,
    }
