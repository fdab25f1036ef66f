"""The cluster is told to ask about the right pods, and what to refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.inject.kube_schema import check
from tokenweir.inject import names
from tokenweir.inject.registration import (
    PATH,
    Registration,
    selected,
    sidecars_present,
    validating_policy,
    webhook_configuration,
)
from tokenweir.inject.settings import Settings

HERE = Registration()


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell if *labels* are selected, as Kubernetes has it."""
    return all(
        (labels.get(each["key"]) in each["values"]) is (each["operator"] == "In")
        for each in selector["matchExpressions"]
    )


def asked(namespace: Mapping[str, str], pod: Mapping[str, str]) -> list[str]:
    """Return which of the webhooks are asked about a pod."""
    return [
        which
        for which, selectors in selected(HERE).items()
        if matches(selectors["namespaceSelector"], namespace)
        and matches(selectors["objectSelector"], pod)
    ]


def named(name: str, **labels: str) -> dict[str, str]:
    """Return the labels of a namespace."""
    return {"kubernetes.io/metadata.name": name, **labels}


IN = {names.INJECT_LABEL: "true"}
OUT = {names.INJECT_LABEL: "false"}


@pytest.mark.parametrize(
    ("namespace", "pod", "expected"),
    [
        (named("shop", **IN), {}, ["namespaces"]),
        (named("shop", **IN), IN, ["namespaces"]),
        (named("shop", **IN), OUT, []),
        (named("shop"), {}, []),
        (named("shop"), IN, ["pods"]),
        (named("shop", **OUT), IN, ["pods"]),
        (named("shop"), OUT, []),
        (named("kube-system", **IN), IN, []),
        (named("tokenweir-system", **IN), IN, []),
        (named("kube-node-lease"), IN, []),
    ],
)
def test_who_is_meant(
    namespace: dict[str, str], pod: dict[str, str], expected: list[str]
) -> None:
    """Nobody without a label, nobody twice, and never what the webhook needs itself."""
    assert asked(namespace, pod) == expected


def test_the_webhook() -> None:
    """It fails closed, answers soon, has no side effects and may be asked again."""
    made = webhook_configuration(Registration(ca_bundle="Q0E="))

    assert [each["name"] for each in made["webhooks"]] == [
        "namespaces.inject.tokenweir.io",
        "pods.inject.tokenweir.io",
    ]
    for webhook in made["webhooks"]:
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["timeoutSeconds"] == 5
        assert webhook["sideEffects"] == "None"
        assert webhook["reinvocationPolicy"] == "IfNeeded"
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["rules"][0]["operations"] == ["CREATE"]
        assert webhook["rules"][0]["resources"] == ["pods"]
        assert webhook["clientConfig"] == {
            "service": {
                "name": "tokenweir-webhook",
                "namespace": "tokenweir-system",
                "path": PATH,
                "port": 443,
            },
            "caBundle": "Q0E=",
        }


def test_cert_manager() -> None:
    """It is told by an annotation whose authority to put in."""
    made = webhook_configuration(Registration(cert_manager="ns/cert"))

    assert made["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "ns/cert"
    }
    assert "caBundle" not in made["webhooks"][0]["clientConfig"]
    assert "annotations" not in webhook_configuration(HERE)["metadata"]


def test_the_validating_policy() -> None:
    """It denies, also if it can't be evaluated, for the same pods as the webhook."""
    policy, *bindings = validating_policy(HERE, Settings())

    assert policy["spec"]["failurePolicy"] == "Fail"
    assert {each["spec"]["policyName"] for each in bindings} == {
        policy["metadata"]["name"]
    }
    for binding, selectors in zip(bindings, selected(HERE).values(), strict=True):
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert binding["spec"]["matchResources"] == selectors


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("tokenweir:0.1.0", "tokenweir"),
        ("example.test:5000/llm/tokenweir", "example.test:5000/llm/tokenweir"),
        ("example.test/tokenweir:1@sha256:ab", "example.test/tokenweir"),
    ],
)
def test_a_fixed_image(image: str, repository: str) -> None:
    """Only then a container has to be ours by more than its name; versions may differ."""
    fixed = Settings(image=image, fixed=frozenset({"image"}))

    assert f'["{repository}:", "{repository}@"]' in sidecars_present(fixed)
    assert "image" not in sidecars_present(Settings(image=image))


def test_kubernetes_takes_them() -> None:
    """Every version that it is for, to the letter."""
    settings = Settings(fixed=frozenset({"image"}))
    check(webhook_configuration(Registration(cert_manager="a/b", ca_bundle="Q0E=")))
    for manifest in validating_policy(HERE, settings):
        check(manifest, 30)
