"""Texts out of packages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.accuracy import corpora, environment
from bench.accuracy.corpora import Source, pieces

PAGE = b"""<html><body>\n<h1>Rights</h1>\n  <p>All <b>are</b> born free.</p>\n"""
CATALOGUE = b"""msgid ""
msgstr ""
"Language: de\\n"

msgid "Yes"
msgstr "Ja, gern"

msgid "%d day"
msgid_plural "%d days"
msgstr[0] "%d Tag"
msgstr[1] ""
"%d Tage, "
"\\"viele\\""
"""
ROFF = rb""".\" a remark
.TH LS 1
.SH NAME
ls \- list \fIdirectory\fR contents\(em
.B \-a
"""


def test_texts_are_read_out_of_their_formats() -> None:
    """Without what is no language: mark-up, macros, keys, licences."""
    assert corpora.marked_up(PAGE) == "Rights\nAll are born free."
    assert corpora.translated(CATALOGUE) == 'Ja, gern\n%d Tag\n%d Tage, "viele"'
    assert corpora.chat(b"conversations:\n- [Hi, 5]\n- [Yo]\n") == "Hi\n5\nYo"
    assert corpora.source_code(b"/* GPL */\nlet a;") == "let a;"
    assert corpora.indented(b'{"a":"\xc3\xa9"}') == '{\n  "a": "é"\n}'
    assert corpora.manual(gzip.compress(ROFF)) == (
        "NAME\nls - list directory contents—\n-a\n"
    )


def test_pieces_are_of_several_lengths() -> None:
    """Cut at line ends, but for lines without end; evenly out of the whole."""
    lines = "".join(f"line {number:04}\n" for number in range(1_000))
    found = list(corpora.cut(lines, 100))

    assert "".join(found) == lines[: sum(map(len, found))]
    assert {len(piece) // 100 for piece in found} >= {2, 4, 8, 16, 30}
    assert len(list(corpora.cut(lines, 3))) == 3
    assert [len(piece) for piece in corpora.cut("x" * 7_000, 9)] == [
        3_000,
        3_000,
        1_000,
    ]


def test_half_of_the_files_is_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is on both sides, and the log that is made up is there as well."""
    monkeypatch.setattr(environment, "HOME", tmp_path)
    for number in range(10):
        file = tmp_path / "pkg" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"file": number, "text": "word " * 300}))
    source = Source("JSON", "data", "pkg==1", "*.json", corpora.plain)

    found = pieces([source])
    sides = [
        {piece.text[:10] for piece in found if piece.kind == "data" and piece.held_out},
        {p.text[:10] for p in found if p.kind == "data" and not p.held_out},
    ]

    assert [len(side) for side in sides] == [5, 5]
    assert not sides[0] & sides[1]
    assert sum(piece.language == "logs" for piece in found) == 80
    assert pieces([source]) == found
