"""
What a cluster is told: whom to ask about new pods, and what to refuse.

Chart and kustomize are compared with it. Which pods are meant is said by two selectors,
of which never both hold: pods of labelled namespaces that have not opted out, and pods
with a label of their own elsewhere. The namespace of Tokenweir itself and those of
Kubernetes are neither: a webhook that is down must never keep itself from coming back.

Three ways, of which the first two go together:

- `webhook_configuration`: the API server asks `tokenweir webhook`.
- `validating_policy`: CEL, no server. It refuses a meant pod that has no sidecars,
  whoever has lost them.
- `mutating_policy` (`tokenweir.inject.mutating_policy`): instead of a webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.inject import names
from tokenweir.inject.cel import literal
from tokenweir.inject.settings import Settings

Manifest = dict[str, Any]

ADMISSION_V1 = "admissionregistration.k8s.io/v1"
PATH = "/inject"
TIMEOUT_SECONDS = 5
CERT_MANAGER = "cert-manager.io/inject-ca-from"
_KUBE_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_NEW_PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "Namespaced",
}
# Neither can be told anything by whoever makes it.
MATCH_CONDITIONS = [
    {
        "name": "no-mirror-pod",
        "expression": "!has(object.metadata.annotations) || "
        f"!({literal(names.MIRROR_ANNOTATION)} in object.metadata.annotations)",
    }
]


@dataclass(frozen=True, slots=True)
class Registration:
    """
    Attributes:
        name: Of the configurations, and the first part of others' names.
        namespace: Where Tokenweir is.
        service: Of the webhook, there.
        port: Of the service.
        ca_bundle: PEM in base64, of who vouches for the webhook; empty: it is put in by
            somebody else.
        cert_manager: ``NAMESPACE/NAME`` of a Certificate, whose authority cert-manager
            puts in; or empty.
    """

    name: str = "tokenweir"
    namespace: str = "tokenweir-system"
    service: str = "tokenweir-webhook"
    port: int = 443
    ca_bundle: str = ""
    cert_manager: str = ""


def webhook_configuration(registration: Registration) -> Manifest:
    """Return the MutatingWebhookConfiguration."""
    metadata = _metadata(registration.name)
    if registration.cert_manager:
        metadata["annotations"] = {CERT_MANAGER: registration.cert_manager}
    return {
        "apiVersion": ADMISSION_V1,
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [
            _webhook(registration, f"{which}.inject.{names.DOMAIN}", selectors)
            for which, selectors in selected(registration).items()
        ],
    }


def validating_policy(registration: Registration, settings: Settings) -> list[Manifest]:
    """
    Return a ValidatingAdmissionPolicy and its bindings.

    With an image that is fixed, a container of our names has to have it, in any version.
    """
    name = f"{registration.name}-sidecars"
    policy = {
        "apiVersion": ADMISSION_V1,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(name),
        "spec": {
            "failurePolicy": "Fail",
            "matchConditions": MATCH_CONDITIONS,
            "matchConstraints": {"resourceRules": [_NEW_PODS]},
            "validations": [
                {
                    "expression": sidecars_present(settings),
                    "message": "this pod is to have Tokenweir's sidecars and has not: "
                    "its status annotation or the webhook's log says why. Without them "
                    f'it needs the label {names.INJECT_LABEL}: "false"',
                    "reason": "Forbidden",
                }
            ],
        },
    }
    bindings = bound("ValidatingAdmissionPolicyBinding", name, registration)
    for binding in bindings:
        binding["spec"]["validationActions"] = ["Deny"]
    return [policy, *bindings]


def sidecars_present(settings: Settings) -> str:
    """Return the expression that holds of pods with both sidecars."""
    ours = literal(list(names.CONTAINERS))
    image = ""
    if "image" in settings.fixed:
        repository = _repository(settings.image)
        prefixes = literal([f"{repository}:", f"{repository}@"])
        image = f" && {prefixes}.exists(p, c.image.startsWith(p))"
    native = "has(c.restartPolicy) && c.restartPolicy == 'Always'"
    return (
        f"{ours}.all(name, has(object.spec.initContainers) && "
        f"object.spec.initContainers.exists(c, c.name == name && {native}{image})) || "
        f"{ours}.all(name, object.spec.containers.exists(c, c.name == name{image}))"
    )


def bound(kind: str, name: str, registration: Registration) -> list[Manifest]:
    """Return the bindings of the policy *name*: one for each way to be meant."""
    return [
        {
            "apiVersion": ADMISSION_V1,
            "kind": kind,
            "metadata": _metadata(f"{name}-{which}"),
            "spec": {"policyName": name, "matchResources": selectors},
        }
        for which, selectors in selected(registration).items()
    ]


def selected(registration: Registration) -> Mapping[str, Manifest]:
    """Return the two ways to be meant, as selectors of namespace and pod."""
    label = names.INJECT_LABEL
    excluded = [registration.namespace, *_KUBE_NAMESPACES]
    elsewhere = _expression(_NAMESPACE_NAME, "NotIn", excluded)
    return {
        "namespaces": {
            "namespaceSelector": {
                "matchExpressions": [_expression(label, "In", ["true"]), elsewhere]
            },
            "objectSelector": {
                "matchExpressions": [_expression(label, "NotIn", ["false"])]
            },
        },
        "pods": {
            "namespaceSelector": {
                "matchExpressions": [_expression(label, "NotIn", ["true"]), elsewhere]
            },
            "objectSelector": {
                "matchExpressions": [_expression(label, "In", ["true"])]
            },
        },
    }


def _webhook(
    registration: Registration, name: str, selectors: Mapping[str, Any]
) -> Manifest:
    client: Manifest = {
        "service": {
            "name": registration.service,
            "namespace": registration.namespace,
            "path": PATH,
            "port": registration.port,
        }
    }
    if registration.ca_bundle:
        client["caBundle"] = registration.ca_bundle
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "rules": [_NEW_PODS],
        **selectors,
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def _metadata(name: str) -> Manifest:
    return {"name": name, "labels": {"app.kubernetes.io/name": "tokenweir"}}


def _expression(key: str, operator: str, values: list[str]) -> Manifest:
    return {"key": key, "operator": operator, "values": values}


def _repository(image: str) -> str:
    """Return *image* without tag and digest."""
    bare = image.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    return head + slash + last.partition(":")[0]
