"""Pods are found wherever manifests have them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inject.pods import small_pod
from tokenweir.inject import names
from tokenweir.inject.manifest import (
    Report,
    Rewritten,
    inject_manifest,
    name_of,
    uninject_manifest,
)
from tokenweir.inject.obstacles import Refusal, Skip
from tokenweir.inject.settings import Settings

TEMPLATES = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
]


def resource(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    """Return a resource named web."""
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def deployment() -> dict[str, Any]:
    """Return a Deployment."""
    return resource("apps/v1", "Deployment", template=small_pod(), replicas=2)


def done(document: Any) -> Rewritten:
    """Return *document* with sidecars."""
    return inject_manifest(document, Settings())


def only(rewritten: Rewritten) -> Report:
    """Return the one report."""
    (report,) = rewritten.reports
    return report


def has_sidecars(pod: dict[str, Any]) -> bool:
    """Tell if both are in *pod*."""
    found = [each["name"] for each in pod["spec"].get("initContainers", ())]
    return found[:2] == list(names.CONTAINERS)


@pytest.mark.parametrize(("api_version", "kind"), TEMPLATES)
def test_templates(api_version: str, kind: str) -> None:
    """The template's pod is changed; the rest is as it was."""
    document = resource(api_version, kind, template=small_pod(), replicas=2)
    result = done(document)

    assert has_sidecars(result.document["spec"]["template"])
    assert only(result) == Report(f"{kind.lower()}/web in shop", changed=True, kept={})
    assert result.document["spec"]["replicas"] == 2
    assert uninject_manifest(result.document).document == document


def test_cron_jobs() -> None:
    """Theirs is a template in a template."""
    template = {"spec": {"template": small_pod(restartPolicy="Never")}}
    document = resource("batch/v1", "CronJob", jobTemplate=template, schedule="@daily")
    result = done(document)

    assert has_sidecars(result.document["spec"]["jobTemplate"]["spec"]["template"])
    assert uninject_manifest(result.document).document == document


def test_pods() -> None:
    """A pod is its own template."""
    pod = {"apiVersion": "v1", "kind": "Pod", **small_pod()}
    result = done(pod)

    assert has_sidecars(result.document)
    assert only(result).resource == "pod/web-0"


def test_lists() -> None:
    """Each item has its own line, and those without a pod stay."""
    service = resource("v1", "Service", ports=[])
    items = [deployment(), service]
    result = done({"apiVersion": "v1", "kind": "List", "items": items})

    assert [report.resource for report in result.reports] == [
        "deployment/web in shop",
        "service/web in shop",
    ]
    assert result.document["items"][1] is service
    assert has_sidecars(result.document["items"][0]["spec"]["template"])


def test_lists_of_one_kind() -> None:
    """Items of a `PodList` need not say what they are, and do not afterwards."""
    document = {"apiVersion": "v1", "kind": "PodList", "items": [small_pod()]}
    result = done(document)
    (item,) = result.document["items"]

    assert has_sidecars(item)
    assert "kind" not in item
    assert uninject_manifest(result.document).document == document


def test_what_has_no_pod() -> None:
    """It is passed on, and so are kinds of others that are only named alike."""
    for document in (
        resource("v1", "Service"),
        resource("example.com/v1", "Deployment", template=small_pod()),
    ):
        result = done(document)
        report = only(result)

        assert result.document is document
        assert not report.failed
        assert report.obstacle is not None
        assert report.obstacle.reason is Skip.NO_WORKLOAD


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("text", "it has no kind"),
        ({"kind": 3}, "it has no kind"),
        ({"kind": "List", "items": ["x"]}, "it has no kind"),
        (resource("apps/v1", "Deployment"), "spec.template: it is not there"),
        (resource("batch/v1", "CronJob", jobTemplate=[]), "spec.jobTemplate.spec"),
        (resource("apps/v1", "Deployment", template={"spec": {}}), "spec.containers"),
    ],
)
def test_what_is_no_manifest(document: Any, told: str) -> None:
    """It is told, and fails."""
    for result in (done(document), uninject_manifest(document)):
        report = only(result)
        assert report.failed
        assert report.obstacle is not None
        assert report.obstacle.reason is Refusal.MALFORMED
        assert told in report.obstacle.text


def test_what_can_not_be_injected() -> None:
    """It fails, and is as it was."""
    document = resource("apps/v1", "DaemonSet", template=small_pod(hostNetwork=True))
    result = done(document)

    assert only(result).failed
    assert result.document == document


def test_what_is_kept_is_told() -> None:
    """An app with an address of its own is not governed: its line says so."""
    own = {"name": "OPENAI_BASE_URL", "value": "http://gateway/v1"}
    pod = small_pod(containers=[{"name": "app", "image": "a", "env": [own]}])
    result = done(resource("apps/v1", "Deployment", template=pod))

    assert only(result).kept == {"app": ("OPENAI_BASE_URL",)}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"kind": "Job", "metadata": {"generateName": "run-"}}, "job/run-"),
        ({"kind": "Job", "metadata": None}, "job/?"),
        ({}, "?/?"),
    ],
)
def test_names(document: dict[str, Any], name: str) -> None:
    """Whatever it says of itself."""
    assert name_of(document) == name
