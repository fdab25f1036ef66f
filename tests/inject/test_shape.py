"""What is no pod is told by its path."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inject.pods import small_pod
from tokenweir.inject.shape import malformed

ONE = {"name": "app"}


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        ({}, "spec"),
        ({"spec": []}, "spec"),
        ({"spec": {"containers": None}}, "spec.containers"),
        ({"spec": {"containers": "app"}}, "spec.containers"),
        (small_pod(containers=["app"]), "spec.containers[0]"),
        (small_pod(containers=[ONE, {}]), "spec.containers[1]"),
        (small_pod(initContainers={}), None),
        (small_pod(initContainers={"a": 1}), "spec.initContainers"),
        (small_pod(volumes=[{"name": 3}]), "spec.volumes[0]"),
        (small_pod(os="linux"), "spec.os"),
        (small_pod(nodeSelector=["x"]), "spec.nodeSelector"),
        (small_pod(terminationGracePeriodSeconds="30"), "spec.terminationGraceP"),
        (small_pod(terminationGracePeriodSeconds=True), "spec.terminationGraceP"),
        (small_pod(terminationGracePeriodSeconds=-1), "spec.terminationGraceP"),
        (small_pod(terminationGracePeriodSeconds=0), None),
        (small_pod(containers=[{**ONE, "env": "X=1"}]), "spec.containers[0].env"),
        (small_pod(containers=[{**ONE, "env": [{}]}]), "spec.containers[0].env[0]"),
        (small_pod(containers=[{**ONE, "ports": [80]}]), "spec.containers[0].ports"),
        (small_pod(containers=[{**ONE, "ports": 80}]), "spec.containers[0].ports"),
        (
            small_pod(containers=[{**ONE, "volumeMounts": [1]}]),
            "spec.containers[0].volumeMounts[0]",
        ),
        ({**small_pod(), "metadata": "web"}, "metadata"),
        ({**small_pod(), "metadata": {"labels": []}}, None),
        ({**small_pod(), "metadata": {"labels": ["x"]}}, "metadata.labels"),
        ({**small_pod(), "metadata": {"annotations": "x"}}, "metadata.annotations"),
        ({**small_pod(), "metadata": None}, None),
        (small_pod(), None),
    ],
)
def test_shapes(pod: dict[str, Any], path: str | None) -> None:
    """The first thing that is wrong is named; empty is as good as absent."""
    found = malformed(pod)

    if path is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(path)
