"""What is kept of prompts: the section `audit` of the policy file."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tokenweir.config.entry import Entry
from tokenweir.config.scalar import Name

Tenants = Annotated[list[Name], Field(min_length=1)]


class AuditEntry(Entry):
    """What is kept of prompts, for `tokenweir audit prompts`."""

    prompts: bool = Field(
        default=True,
        description="Keeps hashes of prompts' parts that repeat, and what they cost. "
        "`false`: nothing is kept.",
    )
    prompts_of: Tenants | None = Field(
        default=None,
        description="Tenants whose prompts are audited. Without it: all.",
    )
    keep_prompt_text: bool = Field(
        default=False,
        description="Keeps the first 2,048 characters of the text of such a part, too, "
        "for 35 days.",
    )
    keep_prompt_text_of: Tenants | None = Field(
        default=None,
        description="Tenants whose text is kept. Without it: all that are audited.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.prompts and (self.keep_prompt_text or self.prompts_of):
            raise ValueError(
                "has `prompts: false`, with which `prompts_of` and `keep_prompt_text` "
                "do not go: remove one"
            )
        if self.keep_prompt_text_of and not self.keep_prompt_text:
            raise ValueError(
                "has `keep_prompt_text_of`, which only goes with `keep_prompt_text: true`"
            )
        return self
