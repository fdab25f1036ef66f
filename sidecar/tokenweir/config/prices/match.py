"""
Whether a rule of genai-prices means a name, and not only one that begins like it.

Rules such as "begins with claude-sonnet-4-5" are written for dated names. They fit
next year's `claude-sonnet-4-5-turbo` too, which will have another price. So what a
rule leaves open must be a date or the like. And where a name says in which region a
model runs, it has that region's price, which the list does not know.
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
# eu/o4-mini, us-gov-east-1/amazon.nova-pro-v1:0, us-gov.anthropic.claude-opus-5. Not
# us.anthropic.…: for these the list has entries of their own.
_IN_REGION = re.compile(r"(?:^|/)(?:us-gov\.|(?:eu|us|[a-z]{2}(?:-[a-z]+)+-\d)/)")


# eu.amazon.nova-lite-v1:0 costs more than in the United States, unless the list has
# one price for all regions: it calls that model "regional.…".
_ABROAD = re.compile(r"(?:af|ap|apac|au|ca|eu|il|in|jp|me|mx|sa)\.")
_REGIONAL = "regional."


def means(model: ModelInfo, name: str) -> bool:
    """Tell if the lower-case *name*, which *model* matches, is a name of it alone."""
    if name == model.id.lower():
        return True
    if _IN_REGION.search(name):
        return False
    if _ABROAD.match(name) and not model.id.startswith(_REGIONAL):
        return False
    return _exactly(model.match, name)


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
