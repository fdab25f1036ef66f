"""
The function that all is about: pod → pod, and back.

Laws, for any pod and any settings, which tests hold it to:

- ``inject(inject(p)) = inject(p)``, also if an API server has filled in defaults, and
  with other settings: what is there by name stays.
- ``uninject(inject(p)) = p``. Empty lists and objects count as none, as they do for
  Kubernetes.
- Fields of other containers than ours stay as they are, but for variables that are added
  to the end of their ``env``.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenweir.inject import names
from tokenweir.inject.containers import DEFAULT_GRACE_SECONDS, sidecars, volumes
from tokenweir.inject.guard import guard
from tokenweir.inject.obstacles import (
    Obstacle,
    Refusal,
    Skip,
    is_native,
    obstacle,
    opted_out,
)
from tokenweir.inject.options import OptionError, settings_for
from tokenweir.inject.settings import Settings
from tokenweir.inject.shape import malformed
from tokenweir.inject.status import Status, status_of
from tokenweir.inject.variables import kept, missing

Pod = dict[str, Any]
_NO_KEY = (
    "its policy is in the ledger, which needs the public keys of those who may publish: "
    "--governance-key"
)
_LISTS = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What became of a pod.

    Attributes:
        pod: A new one, or the very one that was given if nothing has changed.
        status: What it says of itself now; None: nothing.
        obstacle: Why nothing was injected; None: it was, now or before.
    """

    pod: Pod
    status: Status | None
    obstacle: Obstacle | None = None


def inject(pod: Pod, defaults: Settings) -> Outcome:
    """
    Return *pod* with sidecars.

    Args:
        pod: With ``metadata`` and ``spec``, as in a manifest or an admission review. It
            stays as it is.
        defaults: For whatever its annotations do not say.
    """
    decided = _decided(pod, defaults)
    if isinstance(decided, Obstacle):
        return Outcome(pod, status_of(pod), decided)
    changed = _injected(pod, decided)
    if changed == pod:
        told = "it has its sidecars; `tokenweir uninject` takes them out"
        done = Obstacle(Skip.ALREADY_INJECTED, told)
        return Outcome(pod, status_of(pod), done)
    return Outcome(changed, status_of(changed))


def _decided(pod: Pod, defaults: Settings) -> Settings | Obstacle:
    """Return what to give *pod*, or why it gets nothing."""
    wrong = malformed(pod)
    if wrong is not None:
        return Obstacle(Refusal.MALFORMED, wrong)
    found = opted_out(pod)
    if found is not None:
        return found
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    try:
        settings = settings_for(annotations, defaults)
    except OptionError as error:
        told = "; ".join(f"{names.DOMAIN}/{problem}" for problem in error.problems)
        return Obstacle(Refusal.BAD_OPTION, told)
    if settings.policy is None and not settings.governance_key:
        return Obstacle(Refusal.BAD_OPTION, _NO_KEY)
    return obstacle(pod, settings) or settings


def annotate_skipped(pod: Pod, reason: str) -> Pod:
    """Return *pod* with a status that says why it has no sidecars."""
    changed = copy.deepcopy(pod)
    _annotate(changed, Status(skipped=reason))
    return changed


def uninject(pod: Pod) -> Pod:
    """Return *pod* without anything that `inject` has added."""
    changed = copy.deepcopy(pod)
    spec, status = changed.get("spec") or {}, status_of(pod)
    _leave_out(spec, "volumes", names.VOLUMES)
    for key in _LISTS:
        _leave_out(spec, key, names.OURS)
        for container in spec.get(key) or ():
            ours = () if status is None else status.variables.get(_name(container), ())
            _leave_out(container, "env", ours)
    metadata = changed.get("metadata") or {}
    for key, name in (
        ("annotations", names.STATUS_ANNOTATION),
        ("labels", names.INJECTED_LABEL),
    ):
        _drop(metadata, key, name)
    if metadata == {} and "metadata" in changed and pod.get("metadata"):
        del changed["metadata"]
    return changed if changed != pod else pod


# === inject ===================================================================


def _injected(pod: Pod, settings: Settings) -> Pod:
    changed = copy.deepcopy(pod)
    spec = changed["spec"]
    before = status_of(pod)
    native = is_native(spec, settings)
    guarded = _add_guard(spec, settings)
    added = guarded + _add_sidecars(spec, settings, native=native)
    mounted = _add_volumes(spec, settings)
    set_here = _add_variables(spec, settings, native=native)
    if not (added or mounted or set_here) and before is not None:
        return changed  # as it is, whoever has written its status
    status = _merged(before, set_here)
    status = replace(
        status,
        mode="native" if native else "plain",
        containers=tuple(dict.fromkeys((*status.containers, *added))),
        volumes=tuple(
            dict.fromkeys((*status.volumes, *(volume["name"] for volume in mounted)))
        ),
        kept=_kept(spec, status.variables, settings, native=native),
    )
    _annotate(changed, status)
    metadata = changed["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | {names.INJECTED_LABEL: "true"}
    return changed


def _add_sidecars(
    spec: dict[str, Any], settings: Settings, *, native: bool
) -> list[str]:
    key = "initContainers" if native else "containers"
    grace = spec.get("terminationGracePeriodSeconds")
    grace_seconds = DEFAULT_GRACE_SECONDS if grace is None else int(grace)
    there = list(spec.get(key) or ())
    added = []
    place = _place(there) if native else len(there)
    for container in sidecars(settings, grace_seconds, native=native):
        found = [_name(each) for each in there]
        if container["name"] in found:
            place = found.index(container["name"]) + 1
            continue
        there.insert(place, container)
        place += 1
        added.append(container["name"])
    if added:
        spec[key] = there
    return added


def _add_guard(spec: dict[str, Any], settings: Settings) -> list[str]:
    """Put the guard before all others, who might call; sidecars must know of it."""
    there = list(spec.get("initContainers") or ())
    found = {_name(each) for each in (*there, *spec["containers"])}
    if not settings.guarded or found & set(names.OURS):
        return []
    spec["initContainers"] = [guard(settings), *there]
    return [names.GUARD]


def _place(init_containers: list[dict[str, Any]]) -> int:
    """Return where native sidecars begin: first, but for a mesh's and the guard."""
    before = {names.GUARD, *names.MESH_CONTAINERS}
    after = [
        index + 1
        for index, container in enumerate(init_containers)
        if _name(container) in before
    ]
    return max(after, default=0)


def _add_volumes(spec: dict[str, Any], settings: Settings) -> list[dict[str, Any]]:
    there = list(spec.get("volumes") or ())
    found = {_name(volume) for volume in there}
    mounted = _mounted(spec)
    added = [
        volume
        for volume in volumes(settings)
        if volume["name"] not in found and volume["name"] in mounted
    ]
    if added:
        spec["volumes"] = there + added
    return added


def _mounted(spec: Mapping[str, Any]) -> set[str]:
    """Return what our containers mount: with other settings it may be less than ours."""
    return {
        _name(mount)
        for key in _LISTS
        for container in spec.get(key) or ()
        if _name(container) in names.CONTAINERS
        for mount in container.get("volumeMounts") or ()
    }


def _apps(
    spec: dict[str, Any], settings: Settings, *, native: bool
) -> list[dict[str, Any]]:
    """Return the containers that can call, and are to be told where to."""
    started = list(spec["containers"])
    if native:
        init = spec.get("initContainers") or []
        found = [_name(container) for container in init]
        after = max(found.index(n) + 1 for n in names.CONTAINERS if n in found)
        started = init[after:] + started
    others = {*names.OURS, *names.MESH_CONTAINERS}
    return [
        container
        for container in started
        if _name(container) not in others
        and (not settings.containers or _name(container) in settings.containers)
    ]


def _add_variables(
    spec: dict[str, Any], settings: Settings, *, native: bool
) -> dict[str, tuple[str, ...]]:
    added = {}
    for container in _apps(spec, settings, native=native):
        entries = missing(container, settings)
        if entries:
            container["env"] = list(container.get("env") or ()) + entries
            added[_name(container)] = tuple(entry["name"] for entry in entries)
    return added


def _merged(before: Status | None, added: Mapping[str, tuple[str, ...]]) -> Status:
    """Return a status that has the variables of an earlier call, too."""
    if before is None or not before.mode:
        return Status(variables=dict(added))
    merged = {
        name: (*before.variables.get(name, ()), *added.get(name, ()))
        for name in {**before.variables, **added}
    }
    return replace(before, variables=merged)


def _kept(
    spec: dict[str, Any],
    ours: Mapping[str, tuple[str, ...]],
    settings: Settings,
    *,
    native: bool,
) -> dict[str, tuple[str, ...]]:
    found = {
        _name(container): tuple(
            kept(container, settings, frozenset(ours.get(_name(container), ())))
        )
        for container in _apps(spec, settings, native=native)
    }
    return {name: had for name, had in found.items() if had}


def _annotate(pod: Pod, status: Status) -> None:
    metadata = pod.get("metadata") or {}
    said = {names.STATUS_ANNOTATION: status.text()}
    metadata["annotations"] = (metadata.get("annotations") or {}) | said
    pod["metadata"] = metadata


# === uninject =================================================================


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name", ""))


def _leave_out(where: dict[str, Any], key: str, ours: Collection[str]) -> None:
    """Leave out of a list what is *ours* by name; a list that had only that goes."""
    there = where.get(key) or []
    stay = [entry for entry in there if _name(entry) not in ours]
    if len(stay) == len(there):
        return
    if stay:
        where[key] = stay
    else:
        del where[key]


def _drop(metadata: dict[str, Any], key: str, name: str) -> None:
    there = metadata.get(key) or {}
    if name not in there:
        return
    rest = {other: value for other, value in there.items() if other != name}
    if rest:
        metadata[key] = rest
    else:
        del metadata[key]
