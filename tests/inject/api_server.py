"""
What an API server does to a pod, as far as it concerns sidecars: a small emulation.

`defaulted` fills in what Kubernetes 1.29 and later do (`pkg/apis/core/v1/defaults.go`),
and the service account's token, which an admission plugin mounts into every container.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

Pod = dict[str, Any]

TOKEN_VOLUME = "kube-api-access-x7k2p"
_TOKEN_MOUNT = {
    "name": TOKEN_VOLUME,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def defaulted(pod: Mapping[str, Any]) -> Pod:
    """Return *pod* as an API server stores it."""
    made = copy.deepcopy(dict(pod))
    spec = made["spec"]
    for key, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("serviceAccountName", "default"),
        ("serviceAccount", "default"),
        ("enableServiceLinks", True),
        ("securityContext", {}),
        ("preemptionPolicy", "PreemptLowerPriority"),
        ("priority", 0),
    ):
        spec.setdefault(key, value)
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    _mount_token(spec)
    return made


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("initContainers", "containers"):
        yield from spec.get(key) or ()


def _default_container(container: dict[str, Any]) -> None:
    image = str(container.get("image", ""))
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for what, value in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(what, value)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    _default_calls(container)
    for entry in container.get("env") or ():
        if "fieldRef" in (entry.get("valueFrom") or {}):
            entry["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")


def _default_calls(container: dict[str, Any]) -> None:
    """Fill in how the kubelet calls a container."""
    probes = [container[key] for key in _PROBES if key in container]
    for probe in probes:
        for key, value in _PROBE_DEFAULTS.items():
            probe.setdefault(key, value)
    for call in (*probes, container.get("lifecycle", {}).get("preStop", {})):
        if "httpGet" in call:
            call["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: dict[str, Any]) -> None:
    for source in ("secret", "configMap", "projected", "downwardAPI"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)


def _mount_token(spec: dict[str, Any]) -> None:
    volumes = spec.setdefault("volumes", [])
    if not any(volume["name"] == TOKEN_VOLUME for volume in volumes):
        source = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
        projected = {"sources": [source], "defaultMode": 0o644}
        volumes.append({"name": TOKEN_VOLUME, "projected": projected})
    for container in _containers(spec):
        mounts = container.setdefault("volumeMounts", [])
        if not any(m["mountPath"] == _TOKEN_MOUNT["mountPath"] for m in mounts):
            mounts.append(dict(_TOKEN_MOUNT))
