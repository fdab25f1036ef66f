"""Durations and sizes as people write them."""

from __future__ import annotations

import re

# Longer than any answer takes. What has no end is written as 0.
MAX_DURATION_MS = 24 * 60 * 60 * 1000

MIN_BODY_BYTES = 1024
# Envoy holds a body in memory until it is admitted, once for each exchange.
MAX_BODY_BYTES = 64 * 1024 * 1024

_DURATION = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

_SIZE = re.compile(r"(?P<number>[0-9]{1,9}) ?(?P<unit>B|KiB|MiB)")
_UNITS_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024 * 1024}


def parse_duration_ms(value: object) -> int:
    """
    Return *value*, seconds or text such as ``"10m"``, in milliseconds.

    Raises:
        ValueError: It is neither, or above a day.
    """
    duration_ms = _duration_ms(value)
    if duration_ms is None:
        raise ValueError("must be seconds, or text such as 500ms, 30s, 10m or 1h")
    if not 0 <= duration_ms <= MAX_DURATION_MS:
        raise ValueError("must be from 0 to 24h")
    return duration_ms


def _duration_ms(value: object) -> int | None:
    # True is an int to Python.
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # Cut before it is multiplied: a float may be near infinity.
        return round(min(max(value, -1), MAX_DURATION_MS) * 1000)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return int(match["number"]) * _UNITS_MS[match["unit"]] if match else None


def parse_body_limit_bytes(value: object) -> int:
    """
    Return *value*, bytes or text such as ``"8MiB"``, in bytes.

    Raises:
        ValueError: It is neither, or not from 1 KiB to 64 MiB.
    """
    size_bytes = _size_bytes(value)
    if size_bytes is None:
        raise ValueError("must be bytes, or text such as 512KiB or 8MiB")
    if not MIN_BODY_BYTES <= size_bytes <= MAX_BODY_BYTES:
        raise ValueError("must be from 1KiB to 64MiB")
    return size_bytes


def _size_bytes(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return int(match["number"]) * _UNITS_BYTES[match["unit"]] if match else None
