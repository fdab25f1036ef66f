"""URLs of ledgers: which can be used, and what of them is told."""

from __future__ import annotations

import pytest

from tokenweir.ledger.address import LedgerUrlError, place, require_url

SECRET = "CANARY"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6380/2", "redis://127.0.0.1:6380"),
        ("redis://", "redis://localhost:6379"),
        (f"redis://user:{SECRET}@host", "redis://host:6379"),
        (f"rediss://:{SECRET}@[::1]:1?ssl_cert_reqs=none", "rediss://[::1]:1"),
        (f"unix://:{SECRET}@/run/redis.sock?db=3", "unix:///run/redis.sock"),
    ],
)
def test_what_can_be_used_is_told_by_its_place(url: str, shown: str) -> None:
    """Every form that is used in the field is taken, and its password is not told."""
    require_url(url)

    assert place(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "bad",
        "",
        "redis",
        "redis:/host",
        "http://127.0.0.1:6379",
        f"redis://:{SECRET}@host:port",
        f"redis://:{SECRET}@host:99999",
        f"redis://:{SECRET}@[::1",
        f"redis://host?{SECRET}=1",
        f"redis://host?socket_timeout={SECRET}",
        f"rediss://host?ssl_cert_reqs={SECRET}",
        "unix://",
        "unix://relative.sock",
    ],
)
def test_what_can_not_be_used_is_refused_with_an_example(url: str) -> None:
    """The message says what a URL looks like, and repeats nothing of this one."""
    with pytest.raises(LedgerUrlError, match=r"redis://127\.0\.0\.1:6379") as refusal:
        require_url(url)

    assert SECRET not in str(refusal.value)
