"""What the user asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenweir.transport.choice import DEFAULT, Transport

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class StackSettings:
    """
    A stack to run.

    Attributes:
        policy: The policy file; None: the demo's, with a mock provider.
        port: Where apps connect to, on loopback.
        admin_port: Of the first processor; each further one has the next.
        ledger_url: Of a Redis or Valkey; None: an embedded one, in memory.
        workers: Processors.
        transport: How processors serve Envoy.
        log_dir: Where logs stay; None: they go when the stack ends.
    """

    policy: Path | None = None
    port: int = 4000
    admin_port: int = 9090
    ledger_url: str | None = None
    workers: int = 1
    transport: Transport = DEFAULT
    log_dir: Path | None = None

    @property
    def admin_ports(self) -> tuple[int, ...]:
        """The admin port of each processor."""
        return tuple(self.admin_port + worker for worker in range(self.workers))
