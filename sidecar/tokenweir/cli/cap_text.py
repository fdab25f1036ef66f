"""Caps on output, in words: for `tokenweir check`."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.cap import Cap


def cap_text(cap: Cap) -> str:
    """Return *cap* in one line."""
    return f"{', '.join(_figures(cap))}, for {' and '.join(_scope(cap))}"


def _figures(cap: Cap) -> Iterator[str]:
    if cap.output_tokens is not None:
        yield f"at most {cap.output_tokens:,} output tokens"
    unset = cap.if_unset or cap.output_tokens
    yield f"{unset:,} set if the app sets no cap"


def _scope(cap: Cap) -> Iterator[str]:
    yield f"models {', '.join(cap.models)}" if cap.models else "all models"
    if cap.routes:
        yield f"routes {', '.join(cap.routes)}"
    yield f"tenants {', '.join(cap.tenants)}" if cap.tenants else "all tenants"
