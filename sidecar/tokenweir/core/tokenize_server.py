"""Who can be asked how many tokens a prompt has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a policy has models, which have this
    from tokenweir.core.policy import Secret


@dataclass(frozen=True, slots=True)
class TokenizeServer:
    """
    A server with vLLM's ``/tokenize``.

    Attributes:
        url: `http` or `https`, without credentials.
        header: What the credential is sent as.
        credential: The header's value, or None.
        deadline_ms: For each answer; then what is counted here is used.
        min_bytes: Smaller prompts are counted here.
        max_bytes: Larger ones too.
    """

    url: str = field(repr=False)
    header: str = "authorization"
    credential: Secret | None = None
    deadline_ms: int = 100
    min_bytes: int = 0
    max_bytes: int = 1_000_000
