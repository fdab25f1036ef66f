"""Why a pod gets no sidecars has a name, and a sentence that helps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inject.pods import small_pod
from tokenweir.inject import names
from tokenweir.inject.obstacles import (
    Obstacle,
    Refusal,
    Skip,
    is_native,
    obstacle,
    opted_out,
)
from tokenweir.inject.settings import KeyIn, Mode, Settings


def labelled(value: object) -> dict[str, Any]:
    """Return a pod with our label."""
    pod = small_pod()
    pod["metadata"]["labels"] = {names.INJECT_LABEL: value}
    return pod


def reason(found: Obstacle | None) -> str | None:
    """Return the name of what was *found*."""
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", None),
        ("false", Skip.OPTED_OUT),
        ("yes", Refusal.BAD_LABEL),
        (True, Refusal.BAD_LABEL),
    ],
)
def test_labels(value: object, expected: str | None) -> None:
    """There are two words; a slip is no way out."""
    assert reason(opted_out(labelled(value))) == expected


def test_without_a_label() -> None:
    """Whoever asks has decided."""
    assert opted_out(small_pod()) is None


def test_mirror_pods() -> None:
    """What a node runs by itself can't be changed here."""
    pod = small_pod()
    pod["metadata"]["annotations"] = {names.MIRROR_ANNOTATION: "x"}

    assert reason(opted_out(pod)) is Skip.MIRROR_POD


NEVER = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"hostNetwork": False}, None),
        ({"hostNetwork": True}, Refusal.HOST_NETWORK),
        ({"os": {"name": "windows"}}, Refusal.WINDOWS),
        ({"os": {"name": "linux"}}, None),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, Refusal.WINDOWS),
        ({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}, Refusal.WINDOWS),
        (NEVER, None),
        ({"volumes": [{"name": "tokenweir-run"}]}, Refusal.VOLUME_TAKEN),
        ({"volumes": [{"name": "data"}]}, None),
    ],
)
def test_pods(spec: dict[str, Any], expected: str | None) -> None:
    """Each reason is found where it is, and not elsewhere."""
    assert reason(obstacle(small_pod(**spec), Settings())) == expected


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(("port", "option"), [(4000, "port"), (4090, "admin-port")])
def test_ports(key: str, port: int, option: str) -> None:
    """A pod has one network: who has a port of ours is named, and the way out."""
    taken = {"name": "web", "image": "x", "ports": [{"containerPort": port}]}
    pod = small_pod()
    pod["spec"].setdefault(key, []).append(taken)
    found = obstacle(pod, Settings())

    assert found is not None
    assert found.reason is Refusal.PORT_TAKEN
    assert f"container web has port {port}" in found.text
    assert found.text.endswith(f"tokenweir.io/{option}")


def test_our_own_port_is_no_obstacle() -> None:
    """A pod that has its sidecars is not refused for them."""
    own = {"name": names.PROCESSOR, "ports": [{"containerPort": 4090}]}
    pod = small_pod(initContainers=[own], volumes=[{"name": "tokenweir-run"}])

    assert obstacle(pod, Settings()) is None


def test_jobs() -> None:
    """Plain sidecars never end; where they are native, or the pod stays, it is fine."""
    plain = Settings(kube_version=(1, 28))

    for policy in ("Never", "OnFailure"):
        pod = small_pod(restartPolicy=policy)
        assert reason(obstacle(pod, plain)) is Refusal.NEVER_ENDS
    assert obstacle(small_pod(restartPolicy="Always"), plain) is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), True),
        (Settings(kube_version=(1, 28)), False),
        (Settings(kube_version=(1, 28), mode=Mode.NATIVE), True),
        (Settings(kube_version=(1, 36), mode=Mode.PLAIN), False),
    ],
)
def test_native_or_plain(settings: Settings, expected: bool) -> None:
    """The version decides, unless somebody has."""
    assert is_native(small_pod()["spec"], settings) is expected


def test_a_mesh_without_a_way_out() -> None:
    """Its plain proxy begins after init containers: a ledger would not be reached."""
    mesh = small_pod(containers=[{"name": "app"}, {"name": "istio-proxy"}])["spec"]

    assert not is_native(mesh, Settings(policy=None))
    assert is_native(mesh, Settings(policy=KeyIn("p", "policy.yaml")))
    mesh["initContainers"] = [{"name": names.ENVOY}]
    assert is_native(mesh, Settings(policy=None))
