"""What the sidecars of a pod are made with: a cluster's defaults, or one pod's."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tokenweir import __version__

FROM_LEDGER = "ledger"
# The first version in which a sidecar among the init containers needs no feature gate.
NATIVE_SINCE = (1, 29)
API_WORDS = ("openai", "anthropic", "azure", "gemini", "bedrock")


class Mode(enum.StrEnum):
    """How the sidecars stand in the pod."""

    AUTO = "auto"  # native, unless the cluster is too old for it
    NATIVE = "native"  # among the init containers, with restartPolicy Always
    PLAIN = "plain"  # among the containers


@dataclass(frozen=True, slots=True)
class KeyIn:
    """
    One entry of a Secret or ConfigMap.

    Attributes:
        name: The object's.
        key: The entry's.
    """

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Resources:
    """
    What one container asks for, and may use. Empty: it says nothing.

    Attributes:
        cpu_request: A quantity, such as ``100m``.
        cpu_limit: Ditto. None by default: a throttled proxy is a slow app.
        memory_request: Such as ``128Mi``.
        memory_limit: Ditto.
    """

    cpu_request: str = ""
    cpu_limit: str = ""
    memory_request: str = ""
    memory_limit: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What the sidecars are made with.

    Attributes:
        image: Has both programs.
        image_pull_policy: Of Kubernetes; empty: as the image's tag has it.
        kube_version: Major and minor, of the oldest node.
        mode: See `Mode`.
        policy: Where in a ConfigMap the policy is; None: it is published in the ledger.
        governance_key: Public keys of those who may publish, as text; or empty.
        tenant: Whose calls the pod's are, whatever key they have; empty: by key.
        ledger: Where in a Secret the ledger's URL is.
        credentials: Name of the Secret with providers' credentials, or empty.
        certificates: Name of the Secret with client certificates, or empty.
        api_key: Where in a Secret the app's key of Tokenweir is, or None.
        port: Where apps find Envoy, on loopback.
        admin_port: Health and metrics, on the pod's address.
        log_level: Of Envoy.
        containers: Names of those that are told where to call; empty: all.
        apis: Whose SDKs are told, see `variables.APIS`.
        guarded: Hosts that can't be called but through Envoy; see `guard`.
        processor: Resources of the processor.
        envoy: Resources of Envoy.
        fixed: Names of options that no pod may choose for itself.
    """

    image: str = f"tokenweir:{__version__}"
    image_pull_policy: str = ""
    kube_version: tuple[int, int] = NATIVE_SINCE
    mode: Mode = Mode.AUTO
    policy: KeyIn | None = field(
        default_factory=lambda: KeyIn("tokenweir-policy", "policy.yaml")
    )
    governance_key: str = ""
    tenant: str = ""
    ledger: KeyIn = field(default_factory=lambda: KeyIn("tokenweir-ledger", "url"))
    credentials: str = "tokenweir-credentials"
    certificates: str = ""
    api_key: KeyIn | None = None
    port: int = 4000
    admin_port: int = 4090
    log_level: str = "warning"
    containers: tuple[str, ...] = ()
    apis: tuple[str, ...] = API_WORDS
    guarded: tuple[str, ...] = ()
    processor: Resources = field(
        default_factory=lambda: Resources("50m", "", "192Mi", "512Mi")
    )
    envoy: Resources = field(
        default_factory=lambda: Resources("50m", "", "64Mi", "256Mi")
    )
    fixed: frozenset[str] = frozenset()
