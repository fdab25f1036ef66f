"""What a processor is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.governance.source import SourceSettings
from tokenweir.transport.choice import DEFAULT, Transport


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """
    What a processor is started with.

    Attributes:
        policy: Where the policy is.
        socket_path: Where Envoy finds this processor, and no other.
        ledger_url: See `tokenweir.ledger.address`.
        ledger_timeout_seconds: For each call.
        admin_host: Address of the admin port.
        admin_port: 0: a free one.
        drain_seconds: How long open exchanges may take after SIGTERM.
        transport: How Envoy is served.
        envoy: The Envoy beside, which follows the policy; None: it follows none.
        envoy_binary: That is asked whether it would do with another policy, or None.
    """

    policy: SourceSettings
    socket_path: Path
    ledger_url: str
    ledger_timeout_seconds: float = 0.2
    admin_host: str = "127.0.0.1"
    admin_port: int = 9090
    drain_seconds: float = 25.0
    transport: Transport = DEFAULT
    envoy: EnvoySettings | None = None
    envoy_binary: Path | None = None
