"""Whose prompts are audited, and how costs add up."""

from __future__ import annotations

import pytest

from tokenweir.core.prompt_part import Audit, PromptCost


def test_costs_add_up() -> None:
    """Figure by figure."""
    one = PromptCost(1, 100, 90, 40, 200, 5)

    assert one + PromptCost() == one
    assert one + PromptCost(2, 10, 9, 4, 20, 7) == PromptCost(3, 110, 99, 44, 220, 12)


@pytest.mark.parametrize(
    ("audit", "is_for", "keeps_text"),
    [
        (Audit(), (True, True), (False, False)),
        (Audit(prompts=False, keep_prompt_text=True), (False, False), (False, False)),
        (Audit(prompts_of=("acme",)), (True, False), (False, False)),
        (Audit(keep_prompt_text=True), (True, True), (True, True)),
        (
            Audit(keep_prompt_text=True, keep_prompt_text_of=("acme",)),
            (True, True),
            (True, False),
        ),
        (
            Audit(
                prompts_of=("globex",),
                keep_prompt_text=True,
                keep_prompt_text_of=("acme",),
            ),
            (False, True),
            (False, False),
        ),
    ],
)
def test_whose(
    audit: Audit, is_for: tuple[bool, bool], keeps_text: tuple[bool, bool]
) -> None:
    """All are audited by default, and nobody's text is kept."""
    tenants = ("acme", "globex")

    assert tuple(map(audit.is_for, tenants)) == is_for
    assert tuple(map(audit.keeps_text_of, tenants)) == keeps_text
