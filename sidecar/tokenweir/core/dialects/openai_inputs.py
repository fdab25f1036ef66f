"""
Inputs that are no messages: a text, token ids, or a batch of either.

Completions take them as `prompt`, embeddings as `input`. What is none of that is the
provider's to refuse; until it does it is counted as far as it goes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tokenweir.core.dialects.base import Prompt
from tokenweir.core.dialects.content import Content
from tokenweir.core.dialects.fields import Members


def read_inputs(body: Members, name: str, known: AbstractSet[str]) -> Prompt:
    """
    Return what the model reads of *body*: the member *name*, and what is not *known*.

    Texts have no frame around them, as messages have.
    """
    content = Content()
    token_ids = 0
    value = body.get(name)
    waiting = [value] if value is not None else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(reversed(item))
        elif isinstance(item, str):
            content.add_text(item)
        elif type(item) is int:
            token_ids += 1
        else:
            content.add_unknown(item, names=True)
    content.add_rest(body, known)
    return Prompt((content.message(""),), token_ids=token_ids)


def inputs_in(body: Members, name: str) -> int:
    """Return how many inputs the member *name* has: each is answered; at least 1."""
    value = body.get(name)
    if not isinstance(value, list):
        return 1
    # Numbers beside each other are one input.
    batch = sum(1 for item in value if type(item) is not int)
    return batch + (len(value) > batch) or 1
