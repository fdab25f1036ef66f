"""What is asked: a request as an app would send it, and by which key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenweir.core.dialects import METERED_PATHS, dialect_of
from tokenweir.core.errors import TokenweirError
from tokenweir.core.events import Headers, RequestHead
from tokenweir.core.identify import KEY_HEADERS
from tokenweir.core.policy import KeyEnd, Policy

# Presented in place of a key that only the app has. No key of ours looks like it.
_STAND_IN = "the-key-of-this-id"


class UnknownKeyIdError(TokenweirError):
    """The policy has no key of that id. The text says which there are."""


@dataclass(frozen=True, slots=True)
class Question:
    """
    Attributes:
        policy: What decides.
        head: Of the request.
        body: Of the request; empty: there is none.
    """

    policy: Policy
    head: RequestHead
    body: bytes = b""


def question_of(
    policy: Policy,
    body: bytes,
    *,
    method: str | None = None,
    path: str | None = None,
    headers: Headers = (),
) -> Question:
    """
    Return the request with *body*, by the defaults that its content suggests.

    Args:
        policy: What decides.
        body: Empty: there is none.
        method: None: GET without a body, POST with one.
        path: None: of the API that the body's model speaks by the policy.
        headers: Names in any case.
    """
    lower = tuple((name.lower(), value) for name, value in headers)
    head = RequestHead(
        method or ("POST" if body else "GET"),
        path or path_for(policy, body),
        lower,
        ended=not body,
    )
    return Question(policy, head, body)


def with_key(question: Question, key: str) -> Question:
    """Return *question* as it is if the app sends *key*, and no other."""
    others = [pair for pair in question.head.headers if pair[0] not in KEY_HEADERS]
    headers = (("authorization", f"Bearer {key}"), *others)
    return replace(question, head=replace(question.head, headers=headers))


def with_key_id(question: Question, key_id: str) -> Question:
    """
    Return *question* as it is if the app sends the key of the id *key_id*.

    Only the app has that key. So the policy gets another one, of the same rights.

    Raises: UnknownKeyIdError.
    """
    policy = question.policy
    found = [key for key in policy.keys.values() if key.id == key_id]
    if not found:
        known = _listed(sorted({key.id for key in policy.keys.values()}))
        raise UnknownKeyIdError(f"no key of this policy has the id {key_id}: {known}")
    digest = hashlib.sha256(_STAND_IN.encode()).hexdigest()
    # A key that was rotated has two secrets for a while: the newer one is meant.
    key = max(found, key=lambda one: one.end is not KeyEnd.ROTATED)
    known_keys = {**policy.keys, digest: key}
    return with_key(
        replace(question, policy=replace(policy, keys=known_keys)), _STAND_IN
    )


def with_unknown_key(question: Question) -> Question:
    """Return *question* as it is if the app sends a key that nobody knows."""
    return with_key(question, _STAND_IN)


def path_for(policy: Policy, body: bytes) -> str:
    """Return the path of the API that the model in *body* is called by."""
    model = policy.model(_model_in(body))
    dialect = policy.providers[model.provider].dialect if model else ""
    for path in METERED_PATHS:
        known = dialect_of(path)
        if known is not None and known.name == dialect:
            return path
    return METERED_PATHS[0]


def _model_in(body: bytes) -> str:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = content.get("model") if isinstance(content, dict) else None
    return name if isinstance(name, str) else ""


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "it has no keys"
    more = f", and {len(names) - 10} more" if len(names) > 10 else ""
    return f"it has {', '.join(names[:10])}{more}"
