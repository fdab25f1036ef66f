"""An API server is answered about each pod, and told why not."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonpatch
import pytest

from tests.inject.pods import marked
from tests.inject.reviews import UID, pod_of_a_replica_set, reinvocation, review
from tokenweir.inject import names
from tokenweir.inject.admission import Answer, ReviewError, answer
from tokenweir.inject.pod import inject
from tokenweir.inject.settings import Settings
from tokenweir.inject.status import status_of

DEFAULTS = Settings()


def response(answered: Answer) -> dict[str, Any]:
    """Return the response, which has the form that is asked for."""
    assert answered.review["apiVersion"] == "admission.k8s.io/v1"
    assert answered.review["kind"] == "AdmissionReview"
    found: dict[str, Any] = answered.review["response"]
    assert found["uid"] == UID
    return found


def operations(answered: Answer) -> list[dict[str, Any]]:
    """Return the patch; an empty list if there is none."""
    found = response(answered)
    if "patch" not in found:
        assert "patchType" not in found
        return []
    assert found["patchType"] == "JSONPatch"
    decoded: list[dict[str, Any]] = json.loads(base64.b64decode(found["patch"]))
    return decoded


def test_a_new_pod() -> None:
    """The patch makes of it what `inject` does, by additions only."""
    pod = pod_of_a_replica_set()
    answered = answer(review(pod), DEFAULTS)
    patch = operations(answered)

    assert response(answered)["allowed"] is True
    assert jsonpatch.apply_patch(pod, patch) == inject(pod, DEFAULTS).pod
    assert {operation["op"] for operation in patch} == {"add"}
    assert (answered.outcome, answered.reason) == ("injected", "")
    assert answered.subject == {
        "namespace": "shop",
        "pod": "web-6d4cf56db6-",
        "owner": "ReplicaSet/web-6d4cf56db6",
    }


def test_reinvocation() -> None:
    """Only what is new is told where to call; then there is nothing to do."""
    asked = reinvocation()
    answered = answer(asked, DEFAULTS)
    patch = operations(answered)

    assert [operation["path"] for operation in patch] == [
        "/metadata/annotations/tokenweir.io~1status",
        "/spec/containers/1/env",
    ]
    done = jsonpatch.apply_patch(asked["request"]["object"], patch)
    again = answer(review(done), DEFAULTS)
    assert operations(again) == []
    assert (again.outcome, again.reason) == ("skipped", "already_injected")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run(dry_run: bool) -> None:
    """It is answered like any other, for nothing is done anyway; and it is known."""
    answered = answer(review(dryRun=dry_run), DEFAULTS)

    assert operations(answered) == operations(answer(review(), DEFAULTS))
    assert answered.dry_run is dry_run


@pytest.mark.parametrize("spec", [{"hostNetwork": True}, {"os": {"name": "windows"}}])
def test_what_could_never_have_them(spec: dict[str, Any]) -> None:
    """It comes in with the reason in its status, and who asked is warned."""
    pod = pod_of_a_replica_set(**spec)
    answered = answer(review(pod), DEFAULTS)
    status = status_of(jsonpatch.apply_patch(pod, operations(answered)))

    assert response(answered)["allowed"] is True
    assert answered.outcome == "skipped"
    assert status is not None
    assert status.skipped == answered.reason
    assert answered.reason in response(answered)["warnings"][0]


def test_what_is_wrong() -> None:
    """It is refused, with what to do; otherwise nobody would see that it is missing."""
    answered = answer(review(marked(pod_of_a_replica_set(), port="http")), DEFAULTS)
    found = response(answered)

    assert found["allowed"] is False
    assert found["status"]["code"] == 422
    assert found["status"]["message"] == (
        "tokenweir: bad_option: tokenweir.io/port: must be a TCP port from 1024 to 65535"
    )
    assert (answered.outcome, answered.reason) == ("refused", "bad_option")


def test_an_opted_out_pod() -> None:
    """A webhook that is asked too much lets it in as it is."""
    pod = pod_of_a_replica_set()
    pod["metadata"]["labels"][names.INJECT_LABEL] = "false"
    answered = answer(review(pod), DEFAULTS)

    assert response(answered) == {"uid": UID, "allowed": True}
    assert (answered.outcome, answered.reason) == ("skipped", "opted_out")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"operation": "UPDATE"}, "not_created"),
        ({"operation": "DELETE", "object": None}, "not_created"),
        ({"subResource": "ephemeralcontainers"}, "not_a_pod"),
        ({"kind": {"group": "apps", "kind": "Deployment"}}, "not_a_pod"),
        ({"kind": {"group": "example.com", "kind": "Pod"}}, "not_a_pod"),
        ({"kind": None}, "not_a_pod"),
    ],
)
def test_other_questions(request_: dict[str, Any], reason: str) -> None:
    """What is no new pod is let in as it is."""
    answered = answer(review(**request_), DEFAULTS)

    assert response(answered) == {"uid": UID, "allowed": True}
    assert (answered.outcome, answered.reason) == ("skipped", reason)


@pytest.mark.parametrize(
    ("asked", "reason", "told"),
    [
        ([], "bad_review", "must be an object"),
        ({}, "wrong_version", "apiVersion: must be admission.k8s.io/v1"),
        (
            {**review(), "apiVersion": "admission.k8s.io/v1beta1"},
            "wrong_version",
            "apiVersion: must be admission.k8s.io/v1",
        ),
        (
            {**review(), "kind": "List"},
            "wrong_version",
            "kind: must be AdmissionReview",
        ),
        ({**review(), "request": None}, "bad_review", "request: must be an object"),
        (review(uid=""), "bad_review", "request.uid: must be text"),
        (review(uid=7), "bad_review", "request.uid: must be text"),
        (review(kind="Pod"), "bad_review", "request.kind: must be an object"),
        (review([]), "bad_review", "request.object: must be a pod"),
    ],
)
def test_what_is_no_review(asked: Any, reason: str, told: str) -> None:
    """It is named, for who sent it and for metrics."""
    with pytest.raises(ReviewError) as caught:
        answer(asked, DEFAULTS)

    assert (caught.value.reason, str(caught.value)) == (reason, told)


@pytest.mark.parametrize(
    ("metadata", "subject"),
    [
        ({"name": "web-0"}, {"namespace": "shop", "pod": "web-0"}),
        ({"ownerReferences": "x"}, {"namespace": "shop"}),
        ({"ownerReferences": ["x"], "name": "y" * 999}, {"pod": "y" * 253}),
    ],
)
def test_names(metadata: dict[str, Any], subject: dict[str, str]) -> None:
    """Whom it was about is told by names, and no longer than names are."""
    pod = {**pod_of_a_replica_set(), "metadata": metadata}
    answered = answer(review(pod), DEFAULTS)

    assert answered.subject == {"namespace": "shop", **subject}
