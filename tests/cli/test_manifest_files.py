"""Manifests are read from wherever they are, and printed only if all went well."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from tokenweir.cli.manifest_files import rewrite
from tokenweir.inject.manifest import Report, Rewritten
from tokenweir.inject.obstacles import Obstacle, Refusal, Skip


def changed(document: Any) -> Rewritten:
    """Do to a document what the tests want to see."""
    report = Report(f"pod/{document['name']}", changed=True)
    return Rewritten({**document, "done": True}, (report,))


def told(document: Any) -> Rewritten:
    """Report what the document says."""
    reports = {
        "same": Report("pod/same", changed=False),
        "own": Report("pod/own", changed=True, kept={"app": ("X", "Y"), "b": ("Z",)}),
        "skip": Report(
            "pod/skip", changed=False, obstacle=Obstacle(Skip.OPTED_OUT, "t")
        ),
        "bad": Report(
            "pod/bad", changed=False, obstacle=Obstacle(Refusal.WINDOWS, "t")
        ),
    }
    return Rewritten(document, (reports[document["name"]],))


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its documents are printed, a line for each is told; empty ones go."""
    file = tmp_path / "all.yaml"
    file.write_text("name: a\n---\n---\nname: b\n")

    assert rewrite(str(file), changed, "injected") == 0
    out, err = capsys.readouterr()
    assert list(yaml.safe_load_all(out)) == [
        {"name": "a", "done": True},
        {"name": "b", "done": True},
    ]
    assert err == "pod/a: injected\npod/b: injected\n"


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML and JSON in it, by name; not what is in folders below, as kubectl does."""
    (tmp_path / "b.yml").write_text("name: b")
    (tmp_path / "a.json").write_text('{"name": "a"}')
    (tmp_path / "c.yaml").write_text("name: c")
    (tmp_path / "notes.txt").write_text("name: d")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "e.yaml").write_text("name: e")

    assert rewrite(str(tmp_path), changed, "injected") == 0
    found = yaml.safe_load_all(capsys.readouterr().out)
    assert [document["name"] for document in found] == ["a", "b", "c"]


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dash is what a pipe gives; a byte order mark is no part of it."""
    stdin = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfname: a\n"))
    monkeypatch.setattr("sys.stdin", stdin)

    assert rewrite("-", changed, "injected") == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"name": "a", "done": True}


def test_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Skipped or not, and what an app says itself: each has its line."""
    file = tmp_path / "all.yaml"
    file.write_text("name: same\n---\nname: own\n---\nname: skip\n")

    assert rewrite(str(file), told, "injected") == 0
    assert capsys.readouterr().err.splitlines() == [
        "pod/same: skipped: nothing is to be done",
        "pod/own: injected; app keeps its own X, Y; b keeps its own Z",
        "pod/skip: skipped: opted_out: t",
    ]


def test_one_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed, so that nobody applies what is not governed."""
    file = tmp_path / "all.yaml"
    file.write_text("name: own\n---\nname: bad\n")

    assert rewrite(str(file), told, "injected") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[1:] == [
        "pod/bad: failed: windows: t",
        "1 of 2 can't be injected, so nothing was printed.",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: [", "line 1, column 5: expected the node content, but found"),
        (b"", "there is no resource in it."),
        (b"---\n---\n", "there is no resource in it."),
        (b"\xff\xfe", "is no text in UTF-8."),
    ],
)
def test_no_manifest(
    content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with what is wrong."""
    file = tmp_path / "f.yaml"
    file.write_bytes(content)

    assert rewrite(str(file), changed, "injected") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{file}: {problem}")


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That is a mistake of whoever called, who is told what could be given."""
    assert rewrite(str(tmp_path / "none"), changed, "injected") == 2
    assert "no such file or directory. Give a file, a folder" in capsys.readouterr().err
    assert rewrite(str(tmp_path), changed, "injected") == 1
    assert "there is no resource in it" in capsys.readouterr().err
