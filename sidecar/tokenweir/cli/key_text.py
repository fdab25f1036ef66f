"""What a key may do, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.policy import ApiKey, KeyEnd


def key_text(key: ApiKey, now_ms: int) -> str | None:
    """Return what binds *key* besides its tenant; None: nothing but quotas may."""
    parts = list(_parts(key, now_ms))
    return ", ".join(parts) if parts else None


def _parts(key: ApiKey, now_ms: int) -> Iterator[str]:
    from tokenweir.config.moment import moment_text  # noqa: PLC0415 -- slow

    if key.models:
        yield f"models {_listed(key.models)} only"
    if key.routes:
        yield f"routes {_listed(key.routes)} only"
    if key.ends_at_ms is None:
        return
    if key.end is KeyEnd.REVOKED or now_ms >= key.ends_at_ms:
        yield f"{key.end} since {moment_text(key.ends_at_ms)}"
    else:
        yield f"until {moment_text(key.ends_at_ms)}"


def _listed(names: tuple[str, ...]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
