"""What repeats in prompts, as it crosses from the request to the ledger: no text."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.StrEnum):
    """Which part of a prompt it is, in the order in which providers read them."""

    TOOLS = "tools"  # definitions of tools, and the schema of the answer
    SYSTEM = "system"  # all system and developer messages
    PREFIX = "prefix"  # how the first other message begins
    PREFIX_8K = "prefix_8k"  # how it goes on, up to 8,000 characters
    PREFIX_32K = "prefix_32k"  # and up to 32,000


@dataclass(frozen=True, slots=True)
class PromptPart:
    """
    Attributes:
        kind: Which part it is.
        digest: Sixteen hex digits, of another tenant's equal part others.
        size_bytes: Of its text.
    """

    kind: Kind
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PromptParts:
    """
    Attributes:
        parts: In the order of `Kind`.
        total_bytes: Of the whole prompt, media as if they were text.
    """

    parts: tuple[PromptPart, ...]
    total_bytes: int


@dataclass(frozen=True, slots=True)
class PromptCost:
    """
    What parts of one kind and digest came to, in one call or in many.

    Attributes:
        calls: Requests that had it.
        tokens: Of the part, by its share of the bytes.
        reported_tokens: Those of them in calls whose usage the provider reported.
        cached_tokens: Those of them that it read from its cache.
        input_tokens: Of the whole requests.
        cost_nanousd: Of the part's tokens.
    """

    calls: int = 0
    tokens: int = 0
    reported_tokens: int = 0
    cached_tokens: int = 0
    input_tokens: int = 0
    cost_nanousd: int = 0

    def __add__(self, other: PromptCost) -> PromptCost:
        """Return the sum of both."""
        return PromptCost(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.reported_tokens + other.reported_tokens,
            self.cached_tokens + other.cached_tokens,
            self.input_tokens + other.input_tokens,
            self.cost_nanousd + other.cost_nanousd,
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """
    A rule of the policy on what is kept of prompts.

    Attributes:
        prompts: Whether anything is.
        prompts_of: Only of these tenants; empty: of all.
        keep_prompt_text: Whether the beginning of a text that repeats is kept.
        keep_prompt_text_of: Only of these; empty: of all whose prompts are audited.
    """

    prompts: bool = True
    prompts_of: tuple[str, ...] = ()
    keep_prompt_text: bool = False
    keep_prompt_text_of: tuple[str, ...] = ()

    def is_for(self, tenant: str) -> bool:
        """Tell if digests and sums of *tenant*'s prompts are kept."""
        return self.prompts and (not self.prompts_of or tenant in self.prompts_of)

    def keeps_text_of(self, tenant: str) -> bool:
        """Tell if texts of *tenant*'s prompts are kept."""
        named = not self.keep_prompt_text_of or tenant in self.keep_prompt_text_of
        return self.keep_prompt_text and named and self.is_for(tenant)


DEFAULT_AUDIT = Audit()
