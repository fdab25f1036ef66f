"""
Whether a rule of genai-prices means a name, and not only one that begins like it.

Rules such as "begins with claude-sonnet-4-5" are written for dated names. They fit
next year's `claude-sonnet-4-5-turbo` too, which will have another price. So what a
rule leaves open must be a date or the like.
"""

from __future__ import annotations

import re

from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
)

from tokenweir.config.prices.names import is_decoration

# OpenAI's names of models that were tuned, ft:gpt-4o-2024-08-06:org:name:id: behind
# the date all is the customer's.
_TUNED = "ft:"
_OF_CUSTOMER = re.compile(r"[-\d]*(?::.*)?")


def means(model: ModelInfo, name: str) -> bool:
    """Tell if the lower-case *name*, which *model* matches, is a name of it alone."""
    return name == model.id.lower() or _exactly(model.match, name)


def _exactly(rule: MatchLogic, name: str) -> bool:
    if not rule.is_match(name):
        return False
    match rule:
        case ClauseStartsWith(starts_with=text):
            rest = name[len(text) :]
            return is_decoration(rest) or (
                text.startswith(_TUNED) and _OF_CUSTOMER.fullmatch(rest) is not None
            )
        case ClauseContains(contains=text):
            return is_decoration(name.partition(text.lower())[2])
        case ClauseRegex(regex=text):
            return text.endswith("$")
        case ClauseOr(or_=rules) | ClauseAnd(and_=rules):
            return any(_exactly(part, name) for part in rules)
        case _:
            return True  # equals, or ends with: nothing is left open
