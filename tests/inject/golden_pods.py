"""
Manifests of all kinds that people inject, and what is made of each, in golden/.

`python -m tests.inject.golden_pods` writes golden/ anew; look at the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.inject.api_server import defaulted
from tokenweir.inject import names
from tokenweir.inject.manifest import Rewritten, inject_manifest
from tokenweir.inject.options import settings_with
from tokenweir.inject.settings import Settings
from tokenweir.inject.yaml_text import written

FOLDER = Path(__file__).with_name("golden")
GOVERNANCE_KEY = "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

_APP = {"name": "app", "image": "example.test/app:1"}


@dataclass(frozen=True)
class Golden:
    """
    Attributes:
        document: Before.
        given: Options of the command line.
        settings: Where options start from.
        reason: Why it gets no sidecars, if it does not.
        versions: Of Kubernetes that take what comes out, from and to.
    """

    document: dict[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    reason: str | None = None
    versions: tuple[int, int] = (29, 37)

    def result(self) -> Rewritten:
        """Return what is made of it."""
        return inject_manifest(self.document, settings_with(self.settings, self.given))


def _pod(spec: str = "{}", **said: Any) -> dict[str, Any]:
    """Return a pod template of *spec* (YAML), with annotations of ours."""
    content = {"containers": [_APP], **yaml.safe_load(spec)}
    metadata: dict[str, Any] = {"labels": {"app": "web", **said.pop("labels", {})}}
    annotations = said.pop("annotations", {}) | {
        f"{names.DOMAIN}/{name.replace('_', '-')}": value
        for name, value in said.items()
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": content}


def _bare(pod: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "web", **pod["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}


def _workload(
    kind: str, pod: dict[str, Any], version: str = "apps/v1", **spec: Any
) -> dict[str, Any]:
    made = {"template": pod, **spec}
    if version == "apps/v1":
        made["selector"] = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": made,
    }


def _deployment(spec: str = "{}", **said: Any) -> dict[str, Any]:
    return _workload("Deployment", _pod(spec, **said))


_OWN_URL = """
containers:
- name: app
  image: example.test/app:1
  env: [{name: OPENAI_BASE_URL, value: "http://gateway.shop:8080/v1"}]
"""
_OWN_KEY = """
containers:
- name: app
  image: example.test/app:1
  env:
  - {name: OPENAI_API_KEY, valueFrom: {secretKeyRef: {name: keys, key: app}}}
  - {name: ANTHROPIC_AUTH_TOKEN, valueFrom: {secretKeyRef: {name: keys, key: app}}}
"""
_ENV_FROM = """
containers:
- name: app
  image: example.test/app:1
  envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: keys}}]
"""
_INIT = """
initContainers:
- {name: migrate, image: "example.test/migrate:1", command: [migrate, "--to=1e3"]}
- {name: warm, image: "example.test/warm:1"}
"""
_MANY = """
containers:
- {name: app, image: "example.test/app:1", ports: [{containerPort: 8080, name: http}]}
- {name: worker, image: "example.test/worker:1", env: [{name: THREADS, value: "08"}]}
- {name: log, image: "example.test/log:1"}
"""
_ISTIO = """
initContainers:
- {name: istio-init, image: "istio/proxyv2:1.27"}
- name: istio-proxy
  image: istio/proxyv2:1.27
  restartPolicy: Always
  startupProbe: {httpGet: {path: /healthz/ready, port: 15021}}
- {name: migrate, image: "example.test/migrate:1"}
"""
_ISTIO_PLAIN = """
initContainers: [{name: istio-init, image: "istio/proxyv2:1.20"}]
containers:
- {name: istio-proxy, image: "istio/proxyv2:1.20"}
- {name: app, image: "example.test/app:1"}
"""
_LINKERD = """
initContainers:
- {name: linkerd-init, image: "linkerd/proxy-init:v2"}
- {name: linkerd-proxy, image: "linkerd/proxy:stable", restartPolicy: Always}
"""
_LINKERD_PLAIN = """
initContainers: [{name: linkerd-init, image: "linkerd/proxy-init:v2"}]
containers:
- {name: linkerd-proxy, image: "linkerd/proxy:stable"}
- {name: app, image: "example.test/app:1"}
"""
_NATIVE = """
initContainers:
- {name: vault-agent-init, image: "vault:1.15"}
- {name: vault-agent, image: "vault:1.15", restartPolicy: Always}
"""
_PROJECTED = """
containers:
- name: app
  image: example.test/app:1
  volumeMounts: [{name: all, mountPath: /all, readOnly: true}]
volumes:
- name: all
  projected:
    defaultMode: 0400
    sources:
    - {secret: {name: keys, items: [{key: app, path: app.key}]}}
    - {configMap: {name: settings}}
    - {serviceAccountToken: {path: token, expirationSeconds: 3600, audience: vault}}
    - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
"""
_EPHEMERAL = """
ephemeralContainers:
- {name: debugger, image: "busybox:1", targetContainerName: app, stdin: true, tty: true}
"""
_STRICT = """
automountServiceAccountToken: false
shareProcessNamespace: true
securityContext: {runAsUser: 1000, fsGroup: 2000, runAsNonRoot: true}
terminationGracePeriodSeconds: 120
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: zone
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {matchLabels: {app: web}}
"""
_PORTS = """
containers:
- {name: app, image: "example.test/app:1", ports: [{containerPort: 4000}]}
"""
_VOLUMES = """
containers:
- name: app
  image: example.test/app:1
  volumeMounts: [{name: data, mountPath: /data}, {name: tmp, mountPath: /tmp}]
volumes: [{name: tmp, emptyDir: {medium: Memory}}]
"""
_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
_NEVER = "restartPolicy: Never"
_OLD = {"kube-version": "1.28"}
_EVERY_OPTION = {
    "tenant": "acme",
    "policy": "configmap:search-policy/search.yaml",
    "ledger_secret": "search-redis/uri",
    "credentials_secret": "search-providers",
    "certificates_secret": "search-mtls",
    "key_secret": "search-keys/worker",
    "containers": "worker",
    "apis": "openai,anthropic",
    "image": "example.test/tokenweir:0.1.0",
    "image_pull_policy": "IfNotPresent",
    "log_level": "info",
    "port": "4100",
    "admin_port": "4190",
    "kube_version": "1.33",
    "mode": "native",
    "processor_cpu_request": "200m",
    "processor_cpu_limit": "1",
    "processor_memory_request": "256Mi",
    "processor_memory_limit": "1Gi",
    "envoy_cpu_request": "100m",
    "envoy_cpu_limit": "1",
    "envoy_memory_request": "128Mi",
    "envoy_memory_limit": "",
}

GOLDEN: Mapping[str, Golden] = {
    "deployment": Golden(_deployment()),
    "stateful-set": Golden(
        _workload(
            "StatefulSet",
            _pod(_VOLUMES),
            serviceName="web",
            volumeClaimTemplates=[_CLAIM],
        )
    ),
    "daemon-set": Golden(_workload("DaemonSet", _pod())),
    "replica-set": Golden(_workload("ReplicaSet", _pod())),
    "job": Golden(_workload("Job", _pod(_NEVER), "batch/v1", backoffLimit=2)),
    "cron-job": Golden(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "0 3 * * *",
                "jobTemplate": {"spec": {"template": _pod("restartPolicy: OnFailure")}},
            },
        }
    ),
    "pod": Golden(_bare(_pod())),
    "pod-with-defaults": Golden(defaulted(_bare(_pod()))),
    "init-containers": Golden(_deployment(_INIT)),
    "many-containers": Golden(_deployment(_MANY)),
    "some-containers": Golden(_deployment(_MANY, containers="app,worker")),
    "own-base-url": Golden(_deployment(_OWN_URL)),
    "own-keys": Golden(_deployment(_OWN_KEY)),
    "keys-from-a-secret": Golden(_deployment(_ENV_FROM)),
    "its-key-from-a-secret": Golden(_deployment(_ENV_FROM, key_secret="web-key")),
    "other-native-sidecars": Golden(_deployment(_NATIVE)),
    "istio": Golden(_deployment(_ISTIO)),
    "istio-plain": Golden(_deployment(_ISTIO_PLAIN)),
    "linkerd": Golden(_deployment(_LINKERD)),
    "linkerd-plain-and-published-policy": Golden(
        _deployment(_LINKERD_PLAIN),
        {"policy": "ledger"},
        Settings(governance_key=GOVERNANCE_KEY),
    ),
    "published-policy": Golden(
        _deployment(), {"policy": "ledger"}, Settings(governance_key=GOVERNANCE_KEY)
    ),
    "projected-volumes": Golden(_deployment(_PROJECTED)),
    "ephemeral-containers": Golden(_bare(_pod(_EPHEMERAL))),
    "strict-and-patient": Golden(_deployment(_STRICT)),
    "every-option": Golden(_deployment(_MANY, **_EVERY_OPTION)),
    "transparent": Golden(
        _deployment(_ISTIO, transparent="api.openai.com, vllm.shop:8000")
    ),
    "no-credentials": Golden(
        _deployment(), {"credentials-secret": "", "apis": "openai"}
    ),
    "old-cluster": Golden(_deployment(_INIT), _OLD, versions=(27, 37)),
    "plain-by-annotation": Golden(_deployment(mode="plain"), versions=(27, 37)),
    "job-in-an-old-cluster": Golden(
        _workload("Job", _pod(_NEVER), "batch/v1"), _OLD, reason="never_ends"
    ),
    "host-network": Golden(
        _workload("DaemonSet", _pod("hostNetwork: true")), reason="host_network"
    ),
    "windows": Golden(_deployment("os: {name: windows}"), reason="windows"),
    "windows-nodes": Golden(
        _deployment("nodeSelector: {kubernetes.io/os: windows}"), reason="windows"
    ),
    "opted-out": Golden(
        _deployment(labels={names.INJECT_LABEL: "false"}), reason="opted_out"
    ),
    "mirror-pod": Golden(
        _bare(_pod(annotations={names.MIRROR_ANNOTATION: "f3a1"})), reason="mirror_pod"
    ),
    "taken-port": Golden(_deployment(_PORTS), reason="port_taken"),
    "misspelt-option": Golden(_deployment(tenat="acme"), reason="bad_option"),
}


def main() -> None:
    """Write what is made of each."""
    for stale in FOLDER.glob("*.yaml"):
        stale.unlink()
    for name, golden in GOLDEN.items():
        text = written([golden.result().document])
        (FOLDER / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
