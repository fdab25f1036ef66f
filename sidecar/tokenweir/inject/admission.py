"""
What an API server asks, and what it is answered: AdmissionReview v1, as objects.

A pod that is none of ours is let in as it is. One that should have sidecars and can't is
refused, with what to do; but for those that could never have them (`TOLERATED`): they
come in, and their status says why. Nothing is done but to answer, so a dry run is
answered like any other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.core.errors import TokenweirError
from tokenweir.inject.json_patch import patch
from tokenweir.inject.obstacles import TOLERATED, Obstacle, Refusal, Skip
from tokenweir.inject.pod import annotate_skipped, inject
from tokenweir.inject.settings import Settings

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# `tokenweir.inject.obstacles` has the words for pods; these are for the rest.
INJECTED = "injected"
NOT_A_POD = "not_a_pod"
NOT_CREATED = "not_created"


class ReviewError(TokenweirError):
    """
    That is no review that we know. The text says what is wrong.

    Attributes:
        reason: The same in a word, for metrics.
    """

    def __init__(self, text: str, reason: str = "bad_review") -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Attributes:
        review: What the API server gets.
        outcome: ``injected``, ``skipped`` or ``refused``.
        reason: Why, if it was not injected: a `Skip`, a `Refusal` or a word of above.
        subject: Whom it was about, for logs: names only.
        dry_run: Whether nothing comes of it.
    """

    review: Mapping[str, Any]
    outcome: str
    reason: str
    subject: Mapping[str, str]
    dry_run: bool


def answer(review: object, defaults: Settings) -> Answer:
    """Return what to say to *review*. Raises: ReviewError."""
    request = _request(review)
    uid = str(request["uid"])
    subject = _subject(request)
    dry_run = request.get("dryRun") is True
    kind = request.get("kind") or {}
    pod = request.get("object")
    why = _none_of_ours(request, kind)
    if why is not None:
        return Answer(_allowed(uid), "skipped", why, subject, dry_run)
    if not isinstance(pod, dict):
        raise ReviewError("request.object: must be a pod")
    outcome = inject(pod, defaults)
    found = outcome.obstacle
    if found is None:
        allowed = _allowed(uid, pod, outcome.pod)
        return Answer(allowed, INJECTED, "", subject, dry_run)
    if isinstance(found.reason, Skip):
        return Answer(_allowed(uid), "skipped", found.reason, subject, dry_run)
    if found.reason in TOLERATED:
        marked = _allowed(uid, pod, annotate_skipped(pod, found.reason))
        marked["response"]["warnings"] = [_told(found)]
        return Answer(marked, "skipped", found.reason, subject, dry_run)
    return Answer(_refused(uid, found), "refused", found.reason, subject, dry_run)


def _request(review: object) -> Mapping[str, Any]:
    if not isinstance(review, dict):
        raise ReviewError("must be an object")
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if review.get(key) != wanted:
            raise ReviewError(f"{key}: must be {wanted}", "wrong_version")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request: must be an object")
    if not isinstance(request.get("uid"), str) or not request["uid"]:
        raise ReviewError("request.uid: must be text")
    if not isinstance(request.get("kind") or {}, dict):
        raise ReviewError("request.kind: must be an object")
    return request


def _none_of_ours(request: Mapping[str, Any], kind: Mapping[str, Any]) -> str | None:
    """Return why a request is not about a new pod: a webhook that asks for too much."""
    is_pod = kind.get("group", "") == "" and kind.get("kind") == "Pod"
    if not is_pod or request.get("subResource"):
        return NOT_A_POD
    return None if request.get("operation") == "CREATE" else NOT_CREATED


def _subject(request: Mapping[str, Any]) -> Mapping[str, str]:
    """Return who is asked about. A pod of a controller has no name yet."""
    pod = request.get("object")
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    said = metadata if isinstance(metadata, dict) else {}
    owners = said.get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners else {}
    found = {
        "namespace": request.get("namespace"),
        "pod": request.get("name") or said.get("name") or said.get("generateName"),
    }
    if isinstance(owner, dict) and owner.get("kind"):
        found["owner"] = f"{owner['kind']}/{owner.get('name')}"
    return {key: str(value)[:253] for key, value in found.items() if value}


# === answers ==================================================================


def _allowed(
    uid: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    operations = list(patch(before, after))
    if operations:
        text = json.dumps(operations, separators=(",", ":"))
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(text.encode()).decode()
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _refused(uid: str, found: Obstacle) -> dict[str, Any]:
    # What a validation would say: the pod is wrong, not who sent it.
    status = {"code": 422, "reason": "Invalid", "message": _told(found)}
    response = {"uid": uid, "allowed": False, "status": status}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _told(found: Obstacle) -> str:
    assert isinstance(found.reason, Refusal)
    return f"tokenweir: {found.reason}: {found.text}"
