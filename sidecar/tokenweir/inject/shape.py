"""
Whether something has the shape of a pod, as far as we look at it.

An API server has looked at more than that. Of a manifest nobody has: it is refused by
its path, rather than by an error of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_LISTS = ("initContainers", "containers", "volumes")
_OBJECTS = ("securityContext", "nodeSelector", "os")


def malformed(pod: Mapping[str, Any]) -> str | None:
    """Return what of *pod* has another shape than pods have, the first thing."""
    return next(_problems(pod), None)


def _problems(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from _metadata(pod.get("metadata"))
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        yield "spec: must be an object"
        return
    if not spec.get("containers"):
        yield "spec.containers: there is none: is it a pod?"
    for key in _OBJECTS:
        if not isinstance(spec.get(key) or {}, dict):
            yield f"spec.{key}: must be an object"
    grace = spec.get("terminationGracePeriodSeconds")
    if not (grace is None or (type(grace) is int and grace >= 0)):
        yield "spec.terminationGracePeriodSeconds: must be a whole number"
    for key in _LISTS:
        yield from _named(spec.get(key), f"spec.{key}")
    for key in ("initContainers", "containers"):
        yield from _containers(spec.get(key), f"spec.{key}")


def _metadata(metadata: object) -> Iterator[str]:
    if not isinstance(metadata or {}, dict):
        yield "metadata: must be an object"
    elif isinstance(metadata, dict):
        for key in ("labels", "annotations"):
            if not isinstance(metadata.get(key) or {}, dict):
                yield f"metadata.{key}: must be an object"


def _named(listed: object, path: str) -> Iterator[str]:
    """Yield it unless it is a list of objects with names."""
    if not isinstance(listed or [], list):
        yield f"{path}: must be a list"
        return
    for index, entry in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            yield f"{path}[{index}]: must be an object with a name"


def _containers(listed: object, path: str) -> Iterator[str]:
    for index, container in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(container, dict):
            return  # it was told of
        yield from _named(container.get("env"), f"{path}[{index}].env")
        yield from _named(
            container.get("volumeMounts"), f"{path}[{index}].volumeMounts"
        )
        ports = container.get("ports") or []
        whole = isinstance(ports, list) and all(isinstance(p, dict) for p in ports)
        if not whole:
            yield f"{path}[{index}].ports: must be a list of objects"
