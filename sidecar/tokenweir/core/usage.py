"""
What a model call consumed, in classes that do not overlap.

Providers nest their figures differently: OpenAI's `cached_tokens` is a part of
`prompt_tokens`, Anthropic's `cache_read_input_tokens` is beside `input_tokens`.
Each dialect turns its provider's figures into these classes, so that every
class has one price and sums are never counted twice.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields


class Source(enum.StrEnum):
    """Where a usage figure comes from, the best first."""

    REPORTED = "reported"  # by the provider
    COUNTED = "counted"  # by our tokenizer, over what passed
    ESTIMATED = "estimated"  # by arithmetic


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """
    Tokens that one call used, by disjoint class.

    Attributes:
        input_tokens: Input of none of the other classes: fresh text.
        cached_input_tokens: Input that the provider read from its cache.
        cache_write_tokens: Input written to a cache that lives five minutes.
        cache_write_1h_tokens: Input written to a cache that lives an hour.
        audio_input_tokens: Audio input.
        output_tokens: Generated text that the caller sees, tool calls included.
        reasoning_tokens: Generated text that the caller does not see.
        audio_output_tokens: Generated audio.
        image_input_tokens: Pictures, where the provider tells them apart.
        image_output_tokens: Generated pictures.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    audio_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    audio_output_tokens: int = 0
    image_input_tokens: int = 0
    image_output_tokens: int = 0

    @property
    def total_input_tokens(self) -> int:
        """Everything that went in: what an input-token quota counts."""
        return (
            self.input_tokens
            + self.cached_input_tokens
            + self.cache_write_tokens
            + self.cache_write_1h_tokens
            + self.audio_input_tokens
            + self.image_input_tokens
        )

    @property
    def total_output_tokens(self) -> int:
        """Everything that was generated: what an output-token quota counts."""
        return (
            self.output_tokens
            + self.reasoning_tokens
            + self.audio_output_tokens
            + self.image_output_tokens
        )

    @property
    def total_tokens(self) -> int:
        """What a total-token quota counts."""
        return self.total_input_tokens + self.total_output_tokens

    def by_class(self) -> dict[str, int]:
        """Return the classes that are not zero, by name."""
        figures = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tokens for name, tokens in figures.items() if tokens}
