"""
A policy file, before it is published.

It is held to what every sidecar will hold it to, but for what only a sidecar has:
secrets and certificates. Files of prices are no such thing. They would have to be the
same in each pod, and a change of one would be no new version, so a policy that refers
to some is not published unless its author says that they are there.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tokenweir.config.document import (
    Document,
    UnreadableDocumentError,
    read_document,
)
from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.config.load import parse_policy
from tokenweir.config.problem import Problem, listed
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.governance.envelope import MAX_CONTENT_BYTES

_FILE = (
    "is a file that each sidecar would need: mount it in all of them and publish with "
    "--allow-files, or leave it out"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """
    What may be published.

    Attributes:
        content: The file's text.
        policy: What it means, without secrets.
    """

    content: str
    policy: Policy


def read_candidate(path: pathlib.Path, *, allow_files: bool = False) -> Candidate:
    """
    Return the policy in the file *path*.

    Raises:
        PolicyError: With every problem, one a line.
    """
    try:
        source = Files().read(path, MAX_CONTENT_BYTES)
    except UnreadableFileError as error:
        raise PolicyError([f"policy: {error}"]) from None
    return candidate_of(source, allow_files=allow_files)


def candidate_of(source: bytes, *, allow_files: bool = False) -> Candidate:
    """Return the policy that *source* is. Raises: PolicyError. See `read_candidate`."""
    problems: list[str] = []
    try:
        policy = parse_policy(source, {}, credentials=False)
    except PolicyError as error:
        problems += error.problems
    if not allow_files:
        problems += listed(_price_files(source))
    if problems:
        raise PolicyError(problems)
    try:
        return Candidate(source.decode(), policy)
    except UnicodeDecodeError:
        raise PolicyError(["policy: must be in UTF-8 to be published"]) from None


def _price_files(source: bytes) -> Iterator[Problem]:
    document = _document(source)
    content = document.value if document else None
    prices = content.get("prices") if isinstance(content, Mapping) else None
    overlays = prices.get("overlays") if isinstance(prices, Mapping) else None
    if document is None or not isinstance(overlays, list):
        return
    for index in range(len(overlays)):
        problem = Problem(("prices", "overlays", index), _FILE)
        yield replace(problem, line=document.line(problem.path))


def _document(source: bytes) -> Document | None:
    try:
        return read_document(source)
    except UnreadableDocumentError:  # `parse_policy` has said what is wrong
        return None
