"""
Names by which what is ours is known in a pod.

They are a contract: pods that run have them, and so have charts and policies of
clusters. A change needs uninject to know both.
"""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "tokenweir.io"
# "true" or "false"; on pods, and "true" on namespaces. Selectors see labels only.
INJECT_LABEL: Final = f"{DOMAIN}/inject"
# "true" on whatever has our sidecars: for monitors and network policies.
INJECTED_LABEL: Final = f"{DOMAIN}/injected"
STATUS_ANNOTATION: Final = f"{DOMAIN}/status"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

PROCESSOR: Final = "tokenweir-processor"
ENVOY: Final = "tokenweir-envoy"
CONTAINERS: Final = (PROCESSOR, ENVOY)
# Of transparent mode, only there.
GUARD: Final = "tokenweir-guard"
OURS: Final = (*CONTAINERS, GUARD)

RUN_VOLUME: Final = "tokenweir-run"
TMP_VOLUME: Final = "tokenweir-tmp"
POLICY_VOLUME: Final = "tokenweir-policy"
LEDGER_VOLUME: Final = "tokenweir-ledger"
CREDENTIALS_VOLUME: Final = "tokenweir-credentials"
CERTIFICATES_VOLUME: Final = "tokenweir-certificates"
VOLUMES: Final = (
    RUN_VOLUME,
    TMP_VOLUME,
    POLICY_VOLUME,
    LEDGER_VOLUME,
    CREDENTIALS_VOLUME,
    CERTIFICATES_VOLUME,
)

# Inside of our containers. Sockets and what Envoy follows are in the first one.
RUN_DIR: Final = "/run/tokenweir"
XDS_DIR: Final = f"{RUN_DIR}/xds"
SOCKET: Final = f"{RUN_DIR}/processor.sock"
LAST_GOOD_DIR: Final = f"{RUN_DIR}/last-good"
POLICY_DIR: Final = "/etc/tokenweir/policy"
LEDGER_DIR: Final = "/var/run/secrets/tokenweir/ledger"
CREDENTIALS_DIR: Final = "/var/run/secrets/tokenweir/credentials"
CERTIFICATES_DIR: Final = "/var/run/secrets/tokenweir/certificates"

LEDGER_VARIABLE: Final = "TOKENWEIR_LEDGER_URL"
GOVERNANCE_VARIABLE: Final = "TOKENWEIR_GOVERNANCE_KEY"
ADDRESS_VARIABLE: Final = "TOKENWEIR_POD_IP"
TENANT_VARIABLE: Final = "TOKENWEIR_TENANT"  # as `tokenweir.config.load` reads it

# Of the image. Both containers share files of mode 0600, so they are one user.
USER_ID: Final = 65532
# Of our containers where a guard has to tell them from others: images that run as nobody
# in particular often are 65532 themselves.
GUARD_GROUP: Final = 65417

# Proxies of service meshes, and what sets a pod up for them. They are nobody's apps, and
# a sidecar that calls a ledger before they run would call into the void.
MESH_CONTAINERS: Final = frozenset(
    {
        "istio-init",
        "istio-validation",
        "istio-proxy",
        "linkerd-init",
        "linkerd-network-validator",
        "linkerd-proxy",
    }
)
MESH_PROXIES: Final = frozenset({"istio-proxy", "linkerd-proxy"})
