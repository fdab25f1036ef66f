"""Who is told what budgets have passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a policy has one
    from tokenweir.core.policy import Secret


@dataclass(frozen=True, slots=True)
class Webhook:
    """
    Who is told what budgets have passed.

    Attributes:
        url: `https`, or `http` on this machine. It may hold a token.
        secret: That messages are signed with.
        timeout_ms: Of each try.
        ca_file: Bundle that the certificate is checked against; None: the system's.
    """

    url: str = field(repr=False)
    secret: Secret
    timeout_ms: int = 5_000
    ca_file: str | None = None
