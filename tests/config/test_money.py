"""Money is exact to the nano-USD, and a time zone is one that there is."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import zoneinfo
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.config.money import (
    DOLLARS_PATTERN,
    MAX_USD,
    parse_time_zone,
    parse_usd,
    parse_usd_per_million,
)
from tokenweir.core.budget import MAX_SPENT, NANOUSD_PER_USD


@pytest.mark.parametrize(
    ("value", "nanousd"),
    [
        (50, 50_000_000_000),
        (0.25, 250_000_000),
        (0.1, 100_000_000),
        (1e-9, 1),
        ("0.000000001", 1),
        ("0.100000000000", 100_000_000),
        ("007", 7_000_000_000),
        (4_499_999.123456789, 4_499_999_123_456_789),
        ("4499999.123456789", 4_499_999_123_456_789),
        (4_500_000, MAX_SPENT),
        (4.5e6, MAX_SPENT),
    ],
)
def test_dollars(value: object, nanousd: int) -> None:
    """A number is what is written, whatever a float makes of it."""
    assert parse_usd(value) == nanousd


@given(st.integers(1, MAX_SPENT))
def test_every_amount_can_be_written(nanousd: int) -> None:
    """As text and as a number, to the last digit."""
    text = f"{Decimal(nanousd) / NANOUSD_PER_USD:.9f}"

    assert re.fullmatch(DOLLARS_PATTERN, text)
    assert parse_usd(text) == nanousd
    assert parse_usd(float(text)) == nanousd


@pytest.mark.parametrize(
    "value",
    ["50 USD", "$50", "1,000", "1e3", "-5", "", ".5", "5.", "\u0665", "50\n", True, None, [],
     math.nan, math.inf, -math.inf],
)  # fmt: skip
def test_what_is_no_money(value: object) -> None:
    """Nothing that could be read in two ways is read."""
    with pytest.raises(ValueError, match=r"^must be US dollars, a number such as 50"):
        parse_usd(value)


@pytest.mark.parametrize(
    "value",
    [0, 0.0, -0.0, "0", "0.000", -1, -0.5, 4_500_000.000000001, 4_500_001, 10**400, 1e300,
     "4500000.000000001", "999999999999"],
)  # fmt: skip
def test_money_out_of_bounds(value: object) -> None:
    """The ledger counts exactly up to 4.5 million USD, and nothing is no budget."""
    with pytest.raises(
        ValueError, match=r"^must be above 0, and at most 4,500,000 US dollars$"
    ):
        parse_usd(value)


@pytest.mark.parametrize("value", ["0.0000000001", 1e-10, 5e-324, "1.0000000005"])
def test_money_that_is_too_fine(value: object) -> None:
    """What would have to be rounded is refused."""
    with pytest.raises(ValueError, match=r"^must have at most 9 digits after the"):
        parse_usd(value)


@pytest.mark.parametrize(
    ("value", "picousd"),
    [(0, 0), (2.5, 2_500_000), ("0.000001", 1), (0.15, 150_000), (10_000, 10**10)],
)
def test_prices(value: object, picousd: int) -> None:
    """A dollar for a million tokens is a million pico-USD for one; free is a price."""
    assert parse_usd_per_million(value) == picousd


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("$5", "must be US dollars for a million tokens, such as 2.5"),
        (None, "must be US dollars for a million tokens, such as 2.5"),
        (-1, "must be from 0 to 10,000 US dollars for a million tokens"),
        (10_000.01, "must be from 0 to 10,000 US dollars for a million tokens"),
        ("0.0000001", "must have at most 6 digits after the point"),
    ],
)
def test_what_is_no_price(value: object, text: str) -> None:
    """Nothing is rounded, and nothing is guessed."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        parse_usd_per_million(value)


def test_the_largest_amount() -> None:
    """It is the ledger's."""
    assert MAX_USD * NANOUSD_PER_USD == MAX_SPENT


@pytest.mark.parametrize(
    "name", ["UTC", "Asia/Tokyo", "America/Argentina/Ushuaia", "Etc/GMT+9", "EST5EDT"]
)
def test_time_zones(name: str) -> None:
    """Any name of the database will do."""
    assert parse_time_zone(name) == zoneinfo.ZoneInfo(name)


@pytest.mark.parametrize(
    ("value", "close"),
    [
        ("Tokyo", "Asia/Tokyo"),
        ("new_york", "America/New_York"),
        ("asia/tokyo", "Asia/Tokyo"),
        ("Europe/Berln", "Europe/Berlin"),
    ],
)
def test_zones_that_are_nearly_one(value: str, close: str) -> None:
    """The one that is probably meant is named."""
    with pytest.raises(ValueError, match=rf"^is no time zone; did you mean `{close}`"):
        parse_time_zone(value)


@pytest.mark.parametrize(
    "value",
    ["Nowhere", "Asia", "Indian", "localtime", "posixrules", "Factory",
     "posix/Asia/Tokyo", "right/Asia/Tokyo", "tzdata.zi", "zone1970"],
)  # fmt: skip
def test_what_is_no_time_zone(value: str) -> None:
    """A folder, or what some machines have beside the zones, is none."""
    with pytest.raises(
        ValueError, match=r"^(is no time zone: say|must be) a name such"
    ):
        parse_time_zone(value)


@pytest.mark.parametrize(
    "value",
    ["", "+09:00", "../../etc/passwd", "/etc/localtime", "Asia/../Asia/Tokyo", "A" * 5000,
     "Asia//Tokyo", "a/b/c/d", "Asia/Tokyo\x00", "Asia/Tokyo\n", 9, None, True, ["UTC"]],
)  # fmt: skip
def test_what_is_no_name(value: object) -> None:
    """Nothing leads out of the database, or asks the file system for nonsense."""
    with pytest.raises(ValueError, match=r"a name such as UTC, Asia/Tokyo or America"):
        parse_time_zone(value)


def test_a_slim_image_has_time_zones() -> None:
    """Where the system has no database, the one that is installed with us is used."""
    code = (
        "from tokenweir.config.money import parse_time_zone as parse\n"
        "import datetime\n"
        "print(datetime.datetime(2026, 7, 1, tzinfo=parse('Asia/Tokyo')).utcoffset())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONTZPATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")).utcoffset()

    assert expected == timedelta(hours=9)
    assert done.stdout.strip() == str(expected)
