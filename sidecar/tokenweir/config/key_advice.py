"""What is right about a new issued key, but will not work with a policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.config.document import UnreadableDocumentError, read_document


def key_advice(policy: str, tenant: str, key_id: str) -> Iterator[str]:
    """
    Yield why the key *key_id* of *tenant* is ignored under a *policy*, a line each.

    *policy* is the text of one that was published. If it can't be read, nothing is
    told: who publishes policies hears of that.
    """
    try:
        content = read_document(policy.encode()).value
    except UnreadableDocumentError:
        return
    tenants = _mapping(_mapping(content).get("tenants"))
    if tenant not in tenants:
        yield (
            f"The published policy has no tenant {tenant}, so sidecars ignore this key "
            "until it has."
        )
    for name, entry in tenants.items():
        keys = _mapping(entry).get("keys")
        for key in keys if isinstance(keys, list) else ():
            if _mapping(key).get("id") == key_id:
                yield (
                    f"The published policy has a key of this id, of tenant {name}, "
                    "which counts: sidecars ignore this one. Revoke it, and issue one "
                    "under another id."
                )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
