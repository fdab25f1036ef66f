"""
The two containers: a processor that Envoy asks, and Envoy, which follows its files.

They share one folder (an emptyDir), and nothing else: sockets, and what Envoy
starts with, which the processor writes before its startup probe passes. So the order of
native sidecars is all the waiting that is needed.

Probes. The kubelet calls the pod's address, so the admin port listens there, and answers
for Envoy too, whose own interface is a unix socket. There is a readiness probe on
neither: a silent ledger would take the app out of its Services. Native sidecars have no
preStop: it runs when the *app* begins to end, and would cut the app's last calls. Among
plain containers it is the only thing that lets the app end first.
"""

from __future__ import annotations

from typing import Any

from tokenweir.inject import names
from tokenweir.inject.settings import FROM_LEDGER, Resources, Settings

# What Kubernetes gives a pod to end, unless it says otherwise.
DEFAULT_GRACE_SECONDS = 30
# Of it, what is left to flush and leave: see `tokenweir serve --drain-seconds`.
LEAVE_SECONDS = 5
# As `EnvoySettings.arguments`, which this layer does not know; a test compares them.
ENVOY_ARGUMENTS = (
    *("--concurrency", "1"),
    "--disable-hot-restart",
    *("--file-flush-interval-msec", "1000"),
)
_ADMIN = "tokenweir-admin"
_BOOTSTRAP = f"{names.XDS_DIR}/bootstrap.json"
# Prices and vocabularies take seconds on a busy node; images are pulled before.
_PROCESSOR_START = {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 120}
_ENVOY_START = {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 60}
# A minute of silence, which no load causes.
_LIVENESS = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6}


def sidecars(
    settings: Settings, grace_seconds: int, *, native: bool
) -> list[dict[str, Any]]:
    """
    Return the processor's and Envoy's container, in this order.

    Args:
        settings: Of the pod.
        grace_seconds: What the pod has to end.
        native: For the list of init containers.
    """
    usable_seconds = max(1, grace_seconds - LEAVE_SECONDS)
    # Hook and drain are one after the other, in what the pod has for both.
    quiet_seconds = 0 if native else usable_seconds * 2 // 3
    drain_seconds = max(1, usable_seconds - quiet_seconds)
    made = [_processor(settings, drain_seconds), _envoy(settings)]
    for container in made:
        if native:
            container["restartPolicy"] = "Always"
        else:
            container["lifecycle"] = {"preStop": _quiet(settings, quiet_seconds)}
    if not native:  # both start at once
        made[1]["command"] = ["tokenweir", "after", _BOOTSTRAP, *made[1]["command"]]
    return made


def _processor(settings: Settings, drain_seconds: int) -> dict[str, Any]:
    policy = settings.policy
    where = FROM_LEDGER if policy is None else f"{names.POLICY_DIR}/{policy.key}"
    address = f"$({names.ADDRESS_VARIABLE}):{settings.admin_port}"
    command = [
        *("tokenweir", "serve", "--policy", where, "--socket", names.SOCKET),
        *("--ledger", f"env:{names.LEDGER_VARIABLE}", "--admin", address),
        *("--drain-seconds", str(drain_seconds), "--xds-dir", names.XDS_DIR),
        *("--envoy-listen", f"127.0.0.1:{settings.port}"),
    ]
    if settings.governance_key:
        command += ["--governance-key", f"env:{names.GOVERNANCE_VARIABLE}"]
        command += ["--last-good", names.LAST_GOOD_DIR]
    container = _container(names.PROCESSOR, command, settings, settings.processor)
    container["env"] = _environment(settings)
    if settings.credentials:
        container["envFrom"] = [{"secretRef": {"name": settings.credentials}}]
    container["ports"] = [
        {"name": _ADMIN, "containerPort": settings.admin_port, "protocol": "TCP"}
    ]
    container["startupProbe"] = _probe(settings, "/startz") | _PROCESSOR_START
    container["livenessProbe"] = _probe(settings, "/healthz") | _LIVENESS
    container["volumeMounts"] = _processor_mounts(settings)
    return container


def _envoy(settings: Settings) -> dict[str, Any]:
    command = ["envoy", "-c", _BOOTSTRAP]
    command += ["--log-level", settings.log_level, *ENVOY_ARGUMENTS]
    container = _container(names.ENVOY, command, settings, settings.envoy)
    container["startupProbe"] = _probe(settings, "/envoyz") | _ENVOY_START
    container["volumeMounts"] = _shared_mounts(settings)
    return container


def _container(
    name: str, command: list[str], settings: Settings, resources: Resources
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": settings.image}
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    container["command"] = command
    container["resources"] = _resources(resources)
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsGroup": names.GUARD_GROUP if settings.guarded else names.USER_ID,
        "runAsNonRoot": True,
        "runAsUser": names.USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return container


def _resources(resources: Resources) -> dict[str, Any]:
    requests = {"cpu": resources.cpu_request, "memory": resources.memory_request}
    limits = {"cpu": resources.cpu_limit, "memory": resources.memory_limit}
    parts = {"requests": requests, "limits": limits}
    said = {
        part: {what: value for what, value in values.items() if value}
        for part, values in parts.items()
    }
    return {part: values for part, values in said.items() if values}


def _environment(settings: Settings) -> list[dict[str, Any]]:
    ledger = {"name": settings.ledger.name, "key": settings.ledger.key}
    address = {"fieldPath": "status.podIP"}
    entries: list[dict[str, Any]] = [
        {"name": names.ADDRESS_VARIABLE, "valueFrom": {"fieldRef": address}},
        {"name": names.LEDGER_VARIABLE, "valueFrom": {"secretKeyRef": ledger}},
    ]
    if settings.governance_key:
        key = settings.governance_key
        entries.append({"name": names.GOVERNANCE_VARIABLE, "value": key})
    if settings.tenant:
        entries.append({"name": names.TENANT_VARIABLE, "value": settings.tenant})
    return entries


def _shared_mounts(settings: Settings) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": names.RUN_VOLUME, "mountPath": names.RUN_DIR},
        {"name": names.TMP_VOLUME, "mountPath": "/tmp"},  # noqa: S108 -- its own
    ]
    if settings.certificates:
        mounts.append(_read_only(names.CERTIFICATES_VOLUME, names.CERTIFICATES_DIR))
    return mounts


def _processor_mounts(settings: Settings) -> list[dict[str, Any]]:
    mounts = _shared_mounts(settings)
    if settings.policy is not None:
        mounts.append(_read_only(names.POLICY_VOLUME, names.POLICY_DIR))
    mounts.append(_read_only(names.LEDGER_VOLUME, names.LEDGER_DIR))
    if settings.credentials:
        mounts.append(_read_only(names.CREDENTIALS_VOLUME, names.CREDENTIALS_DIR))
    return mounts


def _read_only(volume: str, path: str) -> dict[str, Any]:
    return {"name": volume, "mountPath": path, "readOnly": True}


def _probe(settings: Settings, path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": settings.admin_port}}


def _quiet(settings: Settings, seconds: int) -> dict[str, Any]:
    """Return a hook that lasts until the app has made no call for a while."""
    path = f"/quiet?seconds={seconds}"
    return {"httpGet": {"path": path, "port": settings.admin_port}}


def volumes(settings: Settings) -> list[dict[str, Any]]:
    """Return the pod's volumes that `sidecars` mount."""
    made: list[dict[str, Any]] = [
        {"name": names.RUN_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": names.TMP_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    if settings.policy is not None:
        source = {"name": settings.policy.name}
        made.append({"name": names.POLICY_VOLUME, "configMap": source})
    secrets = (
        (names.LEDGER_VOLUME, settings.ledger.name),
        (names.CREDENTIALS_VOLUME, settings.credentials),
        (names.CERTIFICATES_VOLUME, settings.certificates),
    )
    for volume, secret in secrets:
        if secret:
            made.append({"name": volume, "secret": {"secretName": secret}})
    return made
