"""
What the request side hands to the response side.

The two sides are two filters of Envoy, and may meet two different processors.
The ticket crosses between them in Envoy's dynamic metadata, where no client can
write, so that whoever sees the response can settle it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tokenweir.core.hold import Hold, LimitState
from tokenweir.core.prompt_part import PromptParts
from tokenweir.core.rejection import QuotaFailure


@dataclass(frozen=True, slots=True)
class Ticket:
    """
    Attributes:
        hold: What was reserved.
        started_ms: When the request's head came.
        method: Of the request.
        dialect: Route of the dialect that reads the response; ``""``: nobody does.
        counting_model: What the tokenizer goes by.
        tokenizer: Family of the tokenizer, or None: by *counting_model*.
        output_cap: The cap for all choices, as the provider was told it, or None.
        choices: How many answers were asked for.
        max_output_tokens: The most that the model can generate in one choice, or None
            if the policy does not say.
        expected_tokens: What a choice could have been expected to have at the most if
            the policy had not put its own cap in place of the app's; else 0.
        instead_of: Provider and model, as the provider names it, that the app asked
            for, if another one answers; else None.
        text_tokens: What the prompt was taken for, before any correction, if it is all
            text; 0: nothing can be learned from it.
        uncorrected: What any prompt was taken for, before any correction: it is charged
            no less where nothing is reported.
        calibrated: See `tokenweir.core.policy.Model`.
        prompt: What of the prompt can repeat, or None: nobody asks.
        states: How the limits stood after the reserve.
        shadowed: Quotas in shadow mode that would have refused.
        flags: Such as ``"ledger_open"``.
        governor_ms: Time that the request waited for the decision.
        ledger_ms: The share of it that was spent waiting for the ledger.
    """

    hold: Hold
    started_ms: int
    method: str
    dialect: str = ""
    counting_model: str = ""
    tokenizer: str | None = None
    output_cap: int | None = None
    choices: int = 1
    max_output_tokens: int | None = None
    expected_tokens: int = 0
    instead_of: tuple[str, str] | None = None
    text_tokens: int = 0
    uncorrected: int = 0
    calibrated: bool = True
    prompt: PromptParts | None = None
    states: tuple[LimitState, ...] = ()
    shadowed: tuple[QuotaFailure, ...] = ()
    flags: tuple[str, ...] = ()
    governor_ms: float = 0.0
    ledger_ms: float = 0.0

    @property
    def owed_input(self) -> int:
        """Input tokens that are charged where nothing is reported."""
        return max(self.hold.amounts.input_tokens, self.uncorrected)

    def to_text(self) -> str:
        """Return what `from_text` reads."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Ticket:
        """Read *text*. Raises: ValueError, if it is not a ticket."""
        return msgspec.json.decode(text, type=cls)
