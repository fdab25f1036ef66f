"""AdmissionReviews as a kube-apiserver sends them: recorded, with names changed."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.inject.api_server import defaulted
from tests.inject.pods import small_pod
from tokenweir.inject.pod import inject
from tokenweir.inject.settings import Settings

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
_USER = {
    "username": "system:serviceaccount:kube-system:replicaset-controller",
    "uid": "6a1ad3d6-7b5e-4b9f-8f4e-9f8b6a5d4c3b",
    "groups": ["system:serviceaccounts", "system:authenticated"],
}
_OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web-6d4cf56db6",
    "uid": "e1f2a3b4-0000-4000-8000-000000000001",
    "controller": True,
    "blockOwnerDeletion": True,
}


def pod_of_a_replica_set(**spec: Any) -> dict[str, Any]:
    """Return a pod as its controller creates it: without a name yet."""
    metadata = {
        "generateName": "web-6d4cf56db6-",
        "creationTimestamp": None,
        "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
        "ownerReferences": [_OWNER],
    }
    whole = {"kind": "Pod", "apiVersion": "v1", "status": {}}
    return defaulted({**whole, "metadata": metadata, "spec": small_pod(**spec)["spec"]})


def review(pod: Any = None, **request: Any) -> dict[str, Any]:
    """Return the review of the creation of *pod*; *request* replaces members."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": _USER,
            "object": pod_of_a_replica_set() if pod is None else pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


def reinvocation() -> dict[str, Any]:
    """Return the second question about a pod, to which another webhook has added."""
    once = defaulted(inject(pod_of_a_replica_set(), Settings()).pod)
    pod = copy.deepcopy(once)
    pod["spec"]["containers"].append({"name": "late", "image": "example.test/late:1"})
    return review(defaulted(pod))


def body(content: Any) -> bytes:
    """Return *content* as it is sent."""
    return json.dumps(content).encode()
