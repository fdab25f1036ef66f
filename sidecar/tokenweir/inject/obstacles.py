"""
Why a pod gets no sidecars.

There are pods that are not asked for (`Skip`), and such where it would not work though it
was (`Refusal`): a command line fails then, and an API server is told to refuse the pod,
for otherwise nobody would notice that it is not governed. Each has a name, for logs and
metrics, and a sentence that says what to do.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.inject import names
from tokenweir.inject.settings import NATIVE_SINCE, Mode, Settings


class Skip(enum.StrEnum):
    """Why nothing is to be done."""

    ALREADY_INJECTED = "already_injected"
    OPTED_OUT = "opted_out"
    MIRROR_POD = "mirror_pod"
    NO_WORKLOAD = "no_workload"


class Refusal(enum.StrEnum):
    """Why nothing can be done."""

    HOST_NETWORK = "host_network"
    WINDOWS = "windows"
    BAD_OPTION = "bad_option"
    BAD_LABEL = "bad_label"
    PORT_TAKEN = "port_taken"
    VOLUME_TAKEN = "volume_taken"
    NEVER_ENDS = "never_ends"
    MALFORMED = "malformed"


# Of refusals, those that are no mistake of anybody's: the webhook lets such pods in, with
# the reason in their status. A validating policy may see to it that they opt out.
TOLERATED = frozenset({Refusal.HOST_NETWORK, Refusal.WINDOWS})


_OPT_OUT = f'label it {names.INJECT_LABEL}: "false" if that is meant'
_OS_LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """
    Attributes:
        reason: Its name.
        text: For people: what is so, and what to do.
    """

    reason: Skip | Refusal
    text: str


def opted_out(pod: Mapping[str, Any]) -> Obstacle | None:
    """Return why *pod* is none of ours to look at."""
    metadata = pod.get("metadata") or {}
    if names.MIRROR_ANNOTATION in (metadata.get("annotations") or {}):
        return Obstacle(
            Skip.MIRROR_POD, "it mirrors a static pod, which only its node can change"
        )
    label = (metadata.get("labels") or {}).get(names.INJECT_LABEL)
    if label == "false":
        return Obstacle(Skip.OPTED_OUT, f"its label {names.INJECT_LABEL} says false")
    if label not in (None, "true"):
        return Obstacle(
            Refusal.BAD_LABEL,
            f'its label {names.INJECT_LABEL} must be "true" or "false", in quotes',
        )
    return None


def obstacle(pod: Mapping[str, Any], settings: Settings) -> Obstacle | None:
    """Return why *pod* can't get the sidecars of *settings*, the first reason."""
    spec = pod["spec"]
    found = (*_platform(spec), *_end(spec, settings), *_ports(spec, settings))
    return next(iter((*found, *_volumes(spec))), None)


def is_native(spec: Mapping[str, Any], settings: Settings) -> bool:
    """
    Tell if the sidecars of a pod with *spec* stand among its init containers.

    Those that are there stay where they are. New ones do not stand there in an old
    cluster; nor where a mesh's proxy is a plain container, and the policy is in the
    ledger: the way there begins to work only after all init containers.
    """
    init, plain = _names(spec, "initContainers"), _names(spec, "containers")
    if (init | plain) & set(names.CONTAINERS):
        return bool(init & set(names.CONTAINERS))
    if settings.mode is not Mode.AUTO:
        return settings.mode is Mode.NATIVE
    if settings.kube_version < NATIVE_SINCE:
        return False
    return settings.policy is not None or not plain & names.MESH_PROXIES


def _names(spec: Mapping[str, Any], key: str) -> set[str]:
    return {str(container.get("name")) for container in spec.get(key) or ()}


def _platform(spec: Mapping[str, Any]) -> Iterator[Obstacle]:
    if spec.get("hostNetwork"):
        yield Obstacle(
            Refusal.HOST_NETWORK,
            "it shares its node's network, where every pod could call with its "
            f"credentials; {_OPT_OUT}",
        )
    system = (spec.get("os") or {}).get("name")
    selector = spec.get("nodeSelector") or {}
    if "windows" in (system, *(selector.get(label) for label in _OS_LABELS)):
        yield Obstacle(
            Refusal.WINDOWS, f"it runs on Windows, and the image does not; {_OPT_OUT}"
        )


def _end(spec: Mapping[str, Any], settings: Settings) -> Iterator[Obstacle]:
    ends = spec.get("restartPolicy") in ("Never", "OnFailure")
    if ends and not is_native(spec, settings):
        yield Obstacle(
            Refusal.NEVER_ENDS,
            "it is to end, as Jobs do, and plain sidecars would keep it running: that "
            "takes Kubernetes 1.29 and native ones",
        )


def _ports(spec: Mapping[str, Any], settings: Settings) -> Iterator[Obstacle]:
    wanted = {settings.port: "port", settings.admin_port: "admin-port"}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        if container.get("name") in names.OURS:
            continue
        for port in container.get("ports") or ():
            option = wanted.get(port.get("containerPort"))
            if option is not None:
                yield Obstacle(
                    Refusal.PORT_TAKEN,
                    f"container {container.get('name')} has port "
                    f"{port['containerPort']}: choose another for us by the "
                    f"annotation {names.DOMAIN}/{option}",
                )


def _volumes(spec: Mapping[str, Any]) -> Iterator[Obstacle]:
    """Yield volumes that have a name of ours, in a pod that has no sidecar of ours."""
    there = _names(spec, "initContainers") | _names(spec, "containers")
    if there & set(names.CONTAINERS):
        return
    for volume in spec.get("volumes") or ():
        if volume.get("name") in names.VOLUMES:
            yield Obstacle(
                Refusal.VOLUME_TAKEN,
                f"its volume {volume['name']} has a name of ours: choose another",
            )
