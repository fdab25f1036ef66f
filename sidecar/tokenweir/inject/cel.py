"""
Objects of Kubernetes, written as expressions of CEL.

`literal` makes maps and lists, which a JSON patch takes. `typed` makes what an apply
configuration takes: there each object has the type of its place, such as
``Object.spec.containers.env``.
"""

from __future__ import annotations

import json
from typing import Any


def literal(value: Any) -> str:
    """Return the expression of *value*: what JSON can say, without fractions."""
    match value:
        case dict():
            entries = (
                f"{literal(key)}: {literal(each)}" for key, each in value.items()
            )
            return f"{{{', '.join(entries)}}}"
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            # CEL has JSON's escapes, but for pairs of surrogates.
            return json.dumps(value, ensure_ascii=False)


def typed(value: Any, place: str = "Object") -> str:
    """Return the expression of *value*, which stands at *place*."""
    match value:
        case dict():
            fields = (
                f"{key}: {typed(each, f'{place}.{key}')}" for key, each in value.items()
            )
            return f"{place}{{{', '.join(fields)}}}"
        case list():
            return f"[{', '.join(typed(each, place) for each in value)}]"
        case _:
            return literal(value)
