"""Money and time zones as people write them."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
import zoneinfo
from decimal import Decimal

from tokenweir.core.budget import MAX_SPENT, NANOUSD_PER_USD
from tokenweir.core.price import (
    MAX_PICOUSD_PER_TOKEN,
    PICOUSD_PER_USD,
    TOKENS_PER_MILLION,
)

MAX_USD = MAX_SPENT // NANOUSD_PER_USD

DOLLARS_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,12})?$"
_DOLLARS = re.compile(DOLLARS_PATTERN)

_ZONES_NAME = "a name such as UTC, Asia/Tokyo or America/New_York"

# Names of the zone database, and no path that leads out of it.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")

# These are files beside the zones on some machines: what they mean differs, or is
# no time that clocks show.
_NO_ZONES = re.compile(r"localtime|posixrules|Factory|(posix|right)/.*")


def parse_usd(value: object) -> int:
    """
    Return *value*, US dollars as a number or as text, in nano-USD: exactly.

    Raises:
        ValueError: It is neither, or finer than a nano-USD, or out of range.
    """
    dollars = _dollars(value)
    if dollars is None:
        raise ValueError("must be US dollars, a number such as 50 or 0.25")
    if not 0 < dollars <= MAX_USD:
        raise ValueError(f"must be above 0, and at most {MAX_USD:,} US dollars")
    nanousd = dollars * NANOUSD_PER_USD
    if nanousd != int(nanousd):
        raise ValueError("must have at most 9 digits after the point")
    return int(nanousd)


def parse_usd_per_million(value: object) -> int:
    """
    Return *value*, US dollars for a million tokens, in pico-USD for one.

    Raises:
        ValueError: It is no amount, or finer than that, or out of range.
    """
    dollars = _dollars(value)
    if dollars is None:
        raise ValueError("must be US dollars for a million tokens, such as 2.5")
    picousd = dollars * PICOUSD_PER_USD / TOKENS_PER_MILLION
    if not 0 <= picousd <= MAX_PICOUSD_PER_TOKEN:
        raise ValueError("must be from 0 to 10,000 US dollars for a million tokens")
    if picousd != int(picousd):
        raise ValueError("must have at most 6 digits after the point")
    return int(picousd)


def parse_time_zone(value: object) -> zoneinfo.ZoneInfo:
    """
    Return the time zone of that name in the IANA database.

    Raises:
        ValueError: There is none.
    """
    if not isinstance(value, str) or not _ZONE.fullmatch(value):
        raise ValueError(f"must be {_ZONES_NAME}")
    if not _NO_ZONES.fullmatch(value):
        # A folder of zones is an OSError.
        with contextlib.suppress(KeyError, OSError, ValueError):
            return zoneinfo.ZoneInfo(value)
    close = _zone_like(value)
    if close:
        raise ValueError(f"is no time zone; did you mean `{close}`?")
    raise ValueError(f"is no time zone: say {_ZONES_NAME}")


def _zone_like(value: str) -> str | None:
    """Return the zone whose city *value* names, or that is spelled much like it."""
    wanted = value.lower()
    names = {
        name.lower(): name
        for name in sorted(zoneinfo.available_timezones())
        if not _NO_ZONES.fullmatch(name)
    }
    for lower, name in names.items():
        if wanted in (lower, lower.rpartition("/")[2]):
            return name
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.8)
    return names[close[0]] if close else None


def _dollars(value: object) -> Decimal | None:
    # True is an int to Python.
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float) and math.isfinite(value):
        # As it is written, not as it is stored: 0.1 is a tenth.
        return Decimal(repr(value))
    if isinstance(value, str) and _DOLLARS.fullmatch(value):
        return Decimal(value)
    return None
