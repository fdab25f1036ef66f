"""How header fields spell waits, moments and names."""

from __future__ import annotations

from datetime import UTC, datetime

MAX_NAME = 128
MAX_INTEGER = 10**15 - 1  # RFC 9651: at most 15 digits
MAX_UNIX_S = 253_402_300_799  # the last second of the year 9999


def whole_seconds(wait_ms: int) -> int:
    """Return *wait_ms* as RFC 9110 wants delay-seconds: rounded up, at least 1."""
    return max(1, -(-wait_ms // 1_000))


def duration(ms: int) -> str:
    """
    Return *ms* as OpenAI writes it: ``"120ms"``, ``"9s"``, ``"1m30s"``, ``"0s"``.

    From a second on rounded up to whole seconds: clients parse it by hand, and
    few expect a fraction.
    """
    if ms <= 0:
        return "0s"
    if ms < 1_000:
        return f"{ms}ms"
    minutes, seconds = divmod(whole_seconds(ms), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def printable_ascii(text: str, limit: int) -> str:
    """Return *text* as one line of at most *limit* printable ASCII characters."""
    line = text[:limit]
    if not (line.isascii() and line.isprintable()):
        line = "".join(c if " " <= c <= "~" else "?" for c in line)
    return line.strip()


def time_of_day(unix_ms: int) -> str:
    """Return *unix_ms* in RFC 3339 and UTC, rounded up to a second."""
    moment = datetime.fromtimestamp(min(-(-unix_ms // 1_000), MAX_UNIX_S), tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def sf_string(text: str) -> str:
    """Return *text* as a String of RFC 9651, never empty."""
    plain = printable_ascii(text, MAX_NAME).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain or "-"}"'


def sf_integer(value: int) -> int:
    """Return *value* as a non-negative Integer of RFC 9651."""
    return min(max(0, value), MAX_INTEGER)
