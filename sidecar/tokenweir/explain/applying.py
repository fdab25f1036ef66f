"""
Which of the caller's quotas apply to a request, and why the others do not.

That one applies is what the core has said. Why another does not is read from the
quota: the core has no words for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tokenweir.core.admission import TOKEN_FREE_AXES
from tokenweir.core.identify import Caller, Door, Entry
from tokenweir.core.name_pattern import matches
from tokenweir.core.policy import Quota
from tokenweir.explain.explanation import QuotaAnswer

REFUSED_BEFORE = "the request is refused before any quota is looked at"


def quota_answers(
    caller: Caller, entry: Entry, model: str, applied: Collection[str]
) -> Iterator[QuotaAnswer]:
    """
    Yield what there is to say about each quota of *caller*.

    Args:
        caller: Whose quotas they are.
        entry: The door that the request came by.
        model: That answers; ``""``: none was reached.
        applied: Ids of those that the core has held the request against.
    """
    for quota in caller.quotas:
        is_key = quota in caller.key.quotas
        why_not = "" if quota.id in applied else _why_not(quota, entry, model)
        yield QuotaAnswer(quota, is_key, why_not)


def _why_not(quota: Quota, entry: Entry, model: str) -> str:
    if entry.door is not Door.METERED and quota.axis not in TOKEN_FREE_AXES:
        return "it limits tokens, and requests on this path have none"
    if quota.routes and entry.route not in quota.routes:
        return f"it is for the routes {', '.join(quota.routes)}"
    if quota.models and not matches(model, quota.models):
        return f"it is for the models {', '.join(quota.models)}"
    return REFUSED_BEFORE
