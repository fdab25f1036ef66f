"""Manifests that commands are given: a file, a folder, or standard input."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE
from tokenweir.core.errors import TokenweirError

if TYPE_CHECKING:
    from tokenweir.inject.manifest import Report, Rewritten

HELP = "a file, a folder with *.yaml, *.yml and *.json in it, or - for standard input"
_PATTERNS = ("*.yaml", "*.yml", "*.json")
STDIN = "-"


class ManifestError(TokenweirError):
    """
    Nothing can be made of what was given.

    Attributes:
        code: For the shell.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def rewrite(source: str, change: Callable[[Any], Rewritten], done: str) -> int:
    """
    Print what *change* makes of the manifests in *source*; return the exit code.

    What became of each resource is told on standard error; *done* is the word for those
    that are others now. If one of them failed, nothing is printed: whoever pipes the
    output on to kubectl would apply it.
    """
    from tokenweir.inject.yaml_text import written  # noqa: PLC0415 -- slow

    try:
        parts = [change(document) for document in _documents(source)]
    except ManifestError as error:
        print(error, file=sys.stderr)
        return error.code
    reports = [report for part in parts for report in part.reports]
    for report in reports:
        print(_line(report, done), file=sys.stderr)
    failed = sum(report.failed for report in reports)
    if failed:
        print(
            f"{failed} of {len(reports)} can't be {done}, so nothing was printed.",
            file=sys.stderr,
        )
        return EXIT_PROBLEMS
    print(written([part.document for part in parts]), end="")
    return EXIT_FINE


def _line(report: Report, done: str) -> str:
    """Return what became of a resource, in one line."""
    found = report.obstacle
    if report.failed and found is not None:
        return f"{report.resource}: failed: {found.reason}: {found.text}"
    if found is not None:
        return f"{report.resource}: skipped: {found.reason}: {found.text}"
    if not report.changed:
        return f"{report.resource}: skipped: nothing is to be done"
    own = "; ".join(
        f"{container} keeps its own {', '.join(variables)}"
        for container, variables in (report.kept or {}).items()
    )
    return f"{report.resource}: {done}" + (f"; {own}" if own else "")


def _documents(source: str) -> Iterator[Any]:
    """Yield what is in *source*, but for empty documents. Raises: ManifestError."""
    from tokenweir.inject.yaml_text import YamlError, read  # noqa: PLC0415 -- slow

    found = False
    for name, text in _texts(source):
        try:
            for document in read(text):
                if document is not None:
                    found = True
                    yield document
        except YamlError as error:
            raise ManifestError(f"{name}: {error}", EXIT_PROBLEMS) from None
    if not found:
        raise ManifestError(f"{source}: there is no resource in it.", EXIT_PROBLEMS)


def _texts(source: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file. Raises: ManifestError."""
    if source == STDIN:
        yield "standard input", _decoded(sys.stdin.buffer.read(), "standard input")
        return
    path = pathlib.Path(source)
    files = [path]
    if path.is_dir():
        files = sorted({file for like in _PATTERNS for file in path.glob(like)})
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            why = (error.strerror or "it can't be read").lower()
            raise ManifestError(f"{file}: {why}. Give {HELP}.", EXIT_USAGE) from None
        yield str(file), _decoded(content, str(file))


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError(f"{name}: is no text in UTF-8.", EXIT_PROBLEMS) from None
