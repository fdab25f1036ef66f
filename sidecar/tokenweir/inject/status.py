"""
What a pod says of its sidecars, in one annotation: for people, and for `uninject`.

    {"containers":["tokenweir-processor","tokenweir-envoy"],"mode":"native",
     "variables":{"app":["ANTHROPIC_BASE_URL"]},"kept":{"app":["OPENAI_BASE_URL"]},
     "version":"0.1.0"}
    {"skipped":"host_network","version":"0.1.0"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenweir import __version__
from tokenweir.inject.names import STATUS_ANNOTATION


@dataclass(frozen=True, slots=True)
class Status:
    """
    Attributes:
        version: Of Tokenweir, that did it.
        mode: ``native`` or ``plain``; empty: nothing was injected.
        containers: What was added, by name.
        volumes: Ditto.
        variables: What was added to which container.
        kept: What of the same names containers had before.
        skipped: Why nothing was injected.
    """

    version: str = __version__
    mode: str = ""
    containers: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: str = ""

    def text(self) -> str:
        """Return the annotation's value."""
        said = {
            "version": self.version,
            "mode": self.mode,
            "containers": list(self.containers),
            "volumes": list(self.volumes),
            "variables": {name: list(found) for name, found in self.variables.items()},
            "kept": {name: list(found) for name, found in self.kept.items()},
            "skipped": self.skipped,
        }
        told = {name: value for name, value in said.items() if value}
        return json.dumps(told, separators=(",", ":"), sort_keys=True)


def status_of(pod: Mapping[str, Any]) -> Status | None:
    """Return what *pod* says; None: nothing, or what is none of ours."""
    try:
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        said = json.loads(annotations.get(STATUS_ANNOTATION, ""))
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    return Status(
        version=_word(said.get("version")),
        mode=_word(said.get("mode")),
        containers=_words(said.get("containers")),
        volumes=_words(said.get("volumes")),
        variables=_lists(said.get("variables")),
        kept=_lists(said.get("kept")),
        skipped=_word(said.get("skipped")),
    )


# It may have been edited by anybody: what has another shape says nothing.


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _words(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(word for word in listed if isinstance(word, str))


def _lists(value: object) -> dict[str, tuple[str, ...]]:
    listed = value if isinstance(value, dict) else {}
    return {name: _words(found) for name, found in listed.items()}
