"""What is asked of the tokenizer about a request."""

from __future__ import annotations

from tokenweir.core.admission import Target
from tokenweir.core.commands import CountPrompt
from tokenweir.core.counting import Hints
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.hold import Subject
from tokenweir.core.lesson import place_of


def count_prompt(target: Target, subject: Subject, prompt: Prompt) -> CountPrompt:
    """Return how to ask for the tokens of *prompt*, which *subject* sends to *target*."""
    model, name = target.model, target.upstream_name
    assert model is not None, "what names no model has no prompt"
    hints = Hints(
        place_of(subject, name),
        model.message_tokens,
        model.tokenize_server,
        model.calibrated,
    )
    return CountPrompt(prompt, name, model.tokenizer, hints)
