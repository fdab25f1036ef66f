"""
Pods in manifests: where they are, and what became of each.

A manifest is any YAML or JSON that `kubectl apply` takes: several documents, Lists, and
whatever has a pod's template. What has none is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.inject.obstacles import Obstacle, Refusal, Skip
from tokenweir.inject.pod import Outcome, inject, uninject
from tokenweir.inject.settings import Settings
from tokenweir.inject.shape import malformed

Document = dict[str, Any]
Rewrite = Callable[[dict[str, Any]], Outcome]

_TEMPLATE = ("spec", "template")
_JOB_TEMPLATE = ("spec", "jobTemplate", "spec", "template")
# By kind and group, where the pod is.
_PODS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Pod", ""): (),
    ("ReplicationController", ""): _TEMPLATE,
    ("Deployment", "apps"): _TEMPLATE,
    ("StatefulSet", "apps"): _TEMPLATE,
    ("DaemonSet", "apps"): _TEMPLATE,
    ("ReplicaSet", "apps"): _TEMPLATE,
    ("Job", "batch"): _TEMPLATE,
    ("CronJob", "batch"): _JOB_TEMPLATE,
}
_NO_POD = Obstacle(Skip.NO_WORKLOAD, "it has no pod, as far as is known here")


@dataclass(frozen=True, slots=True)
class Report:
    """
    What became of one resource.

    Attributes:
        resource: As kubectl names it: ``deployment/web``, with its namespace if it says.
        changed: Whether it is another one now.
        obstacle: Why not; None: nothing was in the way.
        kept: By container, which variables were there before, and stay.
    """

    resource: str
    changed: bool
    obstacle: Obstacle | None = None
    kept: Mapping[str, tuple[str, ...]] | None = None

    @property
    def failed(self) -> bool:
        """Whether it should have got sidecars, and could not."""
        return self.obstacle is not None and isinstance(self.obstacle.reason, Refusal)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """
    Attributes:
        document: The new one.
        reports: One for each resource in it.
    """

    document: Any
    reports: tuple[Report, ...]


def inject_manifest(document: Any, settings: Settings) -> Rewritten:
    """Return *document*, one of a manifest, with sidecars in each pod."""
    return _rewritten(document, lambda pod: inject(pod, settings))


def uninject_manifest(document: Any) -> Rewritten:
    """Return *document* without sidecars of ours."""
    return _rewritten(document, _without)


def _without(pod: dict[str, Any]) -> Outcome:
    wrong = malformed(pod)
    if wrong is not None:
        return Outcome(pod, None, Obstacle(Refusal.MALFORMED, wrong))
    return Outcome(uninject(pod), None)


def _rewritten(document: Any, rewrite: Rewrite) -> Rewritten:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        told = "it is no resource of Kubernetes: it has no kind"
        report = Report("document", changed=False, obstacle=_refused(told))
        return Rewritten(document, (report,))
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        parts = [_item(document, item, rewrite) for item in document["items"]]
        items = [part.document for part in parts]
        reports = tuple(report for part in parts for report in part.reports)
        return Rewritten({**document, "items": items}, reports)
    return _of_resource(document, rewrite)


def _item(listed: Document, item: Any, rewrite: Rewrite) -> Rewritten:
    """Return what became of *item*, which may leave out what a `PodList` says of all."""
    kind = listed["kind"].removesuffix("List")
    if not kind or not isinstance(item, dict) or "kind" in item:
        return _rewritten(item, rewrite)
    said = {"apiVersion": listed.get("apiVersion"), "kind": kind}
    result = _rewritten({**said, **item}, rewrite)
    rest = {key: value for key, value in result.document.items() if key not in said}
    own = {key: value for key, value in item.items() if key in said}
    return Rewritten(own | rest, result.reports)


def _of_resource(document: Document, rewrite: Rewrite) -> Rewritten:
    resource = name_of(document)
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    path = _PODS.get((document["kind"], group))
    if path is None:
        return Rewritten(document, (Report(resource, changed=False, obstacle=_NO_POD),))
    pod = _at(document, path)
    if pod is None:
        report = Report(
            resource,
            changed=False,
            obstacle=_refused(f"{'.'.join(path)}: it is not there"),
        )
        return Rewritten(document, (report,))
    outcome = rewrite(pod)
    status = outcome.status
    report = Report(
        resource,
        changed=outcome.pod != pod,
        obstacle=outcome.obstacle,
        kept=status.kept if status else None,
    )
    return Rewritten(_put(document, path, outcome.pod), (report,))


def _refused(text: str) -> Obstacle:
    return Obstacle(Refusal.MALFORMED, text)


def name_of(document: Mapping[str, Any]) -> str:
    """Return what kubectl calls the resource *document*."""
    metadata = document.get("metadata")
    said = metadata if isinstance(metadata, dict) else {}
    name = said.get("name") or said.get("generateName") or "?"
    where = f" in {said['namespace']}" if said.get("namespace") else ""
    return f"{str(document.get('kind', '?')).lower()}/{name}{where}"


def _at(document: Document, path: tuple[str, ...]) -> dict[str, Any] | None:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _put(document: Document, path: tuple[str, ...], pod: dict[str, Any]) -> Document:
    if not path:
        return pod
    key, *rest = path
    return {**document, key: _put(document[key], tuple(rest), pod)}
