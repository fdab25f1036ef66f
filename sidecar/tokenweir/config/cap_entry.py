"""How long answers may be: entries of `caps` in the policy file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tokenweir.config.entry import Entry
from tokenweir.config.scalar import ModelFamilies, Name, OutputTokens

# Only requests on these have answers that have a length.
CappedRoute = Literal[
    "chat_completions",
    "messages",
    "responses",
    "completions",
    "generate_content",
    "converse",
    "invoke_model",
]

_FIGURES = ("output_tokens", "if_unset")


class CapEntry(Entry):
    """The most that answers may be long, and for whom."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in _FIGURES]}
    )

    output_tokens: OutputTokens | None = Field(
        default=None,
        description="The most tokens that an answer (each of several) may have: a "
        "request that asks for more is lowered to it. Without it: none is lowered.",
    )
    if_unset: OutputTokens | None = Field(
        default=None,
        description="What is set if the app has no cap of its own. Without it: "
        "`output_tokens`.",
    )
    models: ModelFamilies | None = Field(
        default=None,
        description="Only for these models (names; a `*` at the end for a family). "
        "Without it: for all.",
    )
    routes: Annotated[list[CappedRoute], Field(min_length=1)] | None = Field(
        default=None, description="Only for these routes. Without it: for all."
    )
    tenants: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None, description="Only for these tenants. Without it: for all."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.output_tokens is None and self.if_unset is None:
            raise ValueError("must have output_tokens, if_unset or both")
        if self.output_tokens and self.if_unset and self.if_unset > self.output_tokens:
            raise ValueError(
                "has an `if_unset` above its output_tokens, which would cap it: lower "
                "it, or remove it"
            )
        return self
