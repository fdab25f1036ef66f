"""Published policies as text: who, when, and what changed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tokenweir.cli.table import Amount, table
from tokenweir.governance.envelope import Envelope
from tokenweir.governance.in_force import moment
from tokenweir.governance.policy_desk import Entry

_SIGNATURES = {True: "valid", False: "INVALID", None: "not checked"}


def difference(old: str, new: str, old_name: str, new_name: str) -> str:
    """Return a unified diff, as `diff -u` prints it; ``""``: they are the same."""
    lines = difflib.unified_diff(
        _lines(old), _lines(new), old_name, new_name, lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def history_table(entries: Sequence[Entry], *, bold: bool) -> str:
    """Return a table of *entries*."""
    rows = [
        (
            Amount(entry.envelope.version),
            moment(entry.envelope.published_at_ms),
            entry.envelope.by,
            _SIGNATURES[entry.verified],
            entry.envelope.comment,
        )
        for entry in entries
    ]
    return table(("version", "when", "by", "signature", "comment"), rows, bold=bold)


def as_object(envelope: Envelope, *, verified: bool | None) -> Mapping[str, object]:
    """Return what JSON says of a version; *verified* as in `Entry`."""
    return {
        "version": envelope.version,
        "published_at": moment(envelope.published_at_ms),
        "by": envelope.by,
        "comment": envelope.comment,
        "verified": verified,
        "size_bytes": len(envelope.content.encode()),
    }


def _lines(text: str) -> list[str]:
    """Return lines that a terminal can be shown: a policy is text of anybody's."""
    return [
        "".join(
            c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}"
            for c in line
        )
        for line in text.splitlines()
    ]
