"""
Sidecars without a webhook: a MutatingAdmissionPolicy, for Kubernetes from 1.36 on.

It knows what `inject` would do with a cluster's defaults, as CEL. What it can't do: read
annotations, stand behind a mesh's proxies, write a status, or say what is wrong. Pods
that could not have sidecars it leaves alone, and the validating policy refuses them.
"""

from __future__ import annotations

from typing import Any

from tokenweir.inject import names
from tokenweir.inject.cel import literal, typed
from tokenweir.inject.containers import DEFAULT_GRACE_SECONDS, sidecars, volumes
from tokenweir.inject.guard import guard
from tokenweir.inject.registration import (
    ADMISSION_V1,
    MATCH_CONDITIONS,
    Manifest,
    Registration,
    bound,
)
from tokenweir.inject.settings import Settings
from tokenweir.inject.variables import APIS, missing


def mutating_policy(registration: Registration, settings: Settings) -> list[Manifest]:
    """Return a MutatingAdmissionPolicy and its bindings."""
    name = f"{registration.name}-inject"
    policy = {
        "apiVersion": ADMISSION_V1,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "tokenweir"},
        },
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConditions": [*MATCH_CONDITIONS, *_CAN_HAVE],
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": _additions(settings)},
                },
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": _told(settings)},
                },
            ],
        },
    }
    return [policy, *bound("MutatingAdmissionPolicyBinding", name, registration)]


_CAN_HAVE = [
    {
        "name": "own-network",
        "expression": "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
    },
    {
        "name": "no-windows",
        "expression": "!(has(object.spec.os) && object.spec.os.name == 'windows') && "
        "!(has(object.spec.nodeSelector) && 'kubernetes.io/os' in "
        "object.spec.nodeSelector && "
        "object.spec.nodeSelector['kubernetes.io/os'] == 'windows')",
    },
]


def _additions(settings: Settings) -> str:
    """Return the list of JSON patches that add what is not there by name."""
    made = [guard(settings)] if settings.guarded else []
    made += sidecars(settings, DEFAULT_GRACE_SECONDS, native=True)
    # Each at the front, so the last one comes first.
    containers = [
        _added("initContainers", container, front=True) for container in made[::-1]
    ]
    mounted = [_added("volumes", volume, front=False) for volume in volumes(settings)]
    return " +\n".join([_labelled(), *_lists(), *containers, *mounted])


def _labelled() -> str:
    path = f"/metadata/labels/{names.INJECTED_LABEL.replace('/', '~1')}"
    return (
        "(has(object.metadata.labels) ? [] : "
        f"[{_patch('/metadata/labels', {})}]) + [{_patch(path, 'true')}]"
    )


def _lists() -> list[str]:
    """Return what makes the lists that are not there yet."""
    return [
        f"(has(object.spec.{key}) ? [] : [{_patch(f'/spec/{key}', [])}])"
        for key in ("initContainers", "volumes")
    ]


def _added(key: str, value: dict[str, Any], *, front: bool) -> str:
    path = f"/spec/{key}/{'0' if front else '-'}"
    there = f"object.spec.{key}.exists(e, e.name == {literal(value['name'])})"
    return f"(has(object.spec.{key}) && {there} ? [] : [{_patch(path, value)}])"


def _patch(path: str, value: Any) -> str:
    return f'JSONPatch{{op: "add", path: {literal(path)}, value: {literal(value)}}}'


def _told(settings: Settings) -> str:
    """Return the apply configuration that tells apps where to call."""
    apps = _variables("containers", settings)
    init = _variables("initContainers", settings)
    there = "has(object.spec.initContainers) ? object.spec.initContainers : []"
    return (
        "Object{spec: Object.spec{"
        f"containers: object.spec.containers{apps}, initContainers: ({there}){init}}}}}"
    )


def _variables(key: str, settings: Settings) -> str:
    others = literal([*names.OURS, *sorted(names.MESH_CONTAINERS)])
    wanted = f"!(c.name in {others})"
    if settings.containers:
        wanted += f" && c.name in {literal(list(settings.containers))}"
    entries = missing({}, settings)
    said = typed(entries, f"Object.spec.{key}.env")
    keys = literal([APIS[word].key for word in settings.apis])
    rules = ["!(has(c.env) && c.env.exists(e, e.name == v.name))"]
    if settings.api_key is None:
        rules.append(f"!(has(c.envFrom) && v.name in {keys})")
    for word in settings.apis:
        api = APIS[word]
        if api.instead:
            rules.append(
                f"!(v.name == {literal(api.key)} && has(c.env) && "
                f"c.env.exists(e, e.name in {literal(list(api.instead))}))"
            )
    return (
        f".filter(c, {wanted}).map(c, Object.spec.{key}{{name: c.name, "
        f"env: {said}.filter(v, {' && '.join(rules)})}})"
    )
