"""URLs of ledgers: which can be used, and what of them is told."""

from __future__ import annotations

import pytest

from tokenweir.ledger.address import (
    Kind,
    LedgerUrlError,
    address_of,
    place,
    require_url,
)

SECRET = "CANARY"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6380/2", "redis://127.0.0.1:6380"),
        ("redis://", "redis://localhost:6379"),
        (f"redis://user:{SECRET}@host", "redis://host:6379"),
        (f"rediss://:{SECRET}@[::1]:1?ssl_cert_reqs=none", "rediss://[::1]:1"),
        (f"unix://:{SECRET}@/run/redis.sock?db=3", "unix:///run/redis.sock"),
        (f"valkey://:{SECRET}@host/3", "redis://host:6379"),
        ("valkeys://host:1", "rediss://host:1"),
        ("redis+cluster://a,b:7001,[::1]:2", "redis+cluster://a:6379,b:7001,[::1]:2"),
        (f"rediss+cluster://u:{SECRET}@a/0?db=0", "rediss+cluster://a:6379"),
        (
            f"redis+sentinel://u:{SECRET}@a,b:7/main/2?sentinel_password={SECRET}",
            "redis+sentinel://a:26379,b:7/main",
        ),
        (f"valkeys+sentinel://:{SECRET}@a/m?protocol=3", "rediss+sentinel://a:26379/m"),
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
        "redis+nothing://host",
        "unix+cluster:///run/redis.sock",
        "redis://a:1,b:2",
        f"redis+cluster://:{SECRET}@a:1,b:port",
        f"redis+cluster://a?{SECRET}=1",
        f"redis+cluster://a?sentinel_password={SECRET}",
        f"redis+sentinel://a/m?sentinel_{SECRET}=1",
    ],
)
def test_what_can_not_be_used_is_refused_with_an_example(url: str) -> None:
    """The message says what a URL looks like, and repeats nothing of this one."""
    with pytest.raises(LedgerUrlError, match=r"redis://127\.0\.0\.1:6379") as refusal:
        require_url(url)

    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"redis+sentinel://:{SECRET}@a:26379", "names no service"),
        (f"redis+sentinel://:{SECRET}@a:26379/", "names no service"),
        (f"redis+cluster://:{SECRET}@a/1", "only one"),
        (f"redis+cluster://:{SECRET}@a?db=1", "only one"),
        (f"redis://:{SECRET}@h?password_file=/no/{SECRET}", "leave out one"),
        (f"redis://h?password_file=/no/{SECRET}", "password_file"),
        (f"unix:///s?password_file=/no/{SECRET}", "password_file"),
        (f"redis+cluster://u@h?password_file=/no/{SECRET}", "password_file"),
        (f"redis+sentinel://h/m?sentinel_password_file=/no/{SECRET}", "password_file"),
        (f"redis://:{SECRET}@a,b", "several hosts, but not what they are"),
        (f"rediss://h?ssl_ca_certs=/no/{SECRET}.pem", "ssl_ca_certs"),
        (f"rediss+cluster://h?ssl_certfile=/no/{SECRET}.pem", "ssl_certfile"),
        (f"rediss+sentinel://h/m?ssl_ca_certs=/no/{SECRET}.pem", "ssl_ca_certs"),
    ],
)
def test_a_common_mistake_is_named(url: str, told: str) -> None:
    """Whoever made it is told what is missing, and reads no password."""
    with pytest.raises(LedgerUrlError, match=told) as refusal:
        require_url(url)

    assert SECRET not in str(refusal.value)


def test_sentinels_and_servers_have_users_of_their_own() -> None:
    """The URL's user is the servers'; TLS and protocol are the same for both."""
    address = address_of(
        f"rediss+sentinel://app:{SECRET}@a,b/main/2?protocol=2&ssl_cert_reqs=none"
        f"&sentinel_username=watch&sentinel_password={SECRET}2"
    )

    assert address.kind is Kind.SENTINEL
    assert address.service == "main"
    assert address.hosts == (("a", 26379), ("b", 26379))
    shared = {"protocol": 2, "ssl_cert_reqs": "none"}
    connection_class = address.options["connection_class"]
    assert address.options == {
        "connection_class": connection_class,
        "username": "app",
        "password": SECRET,
        "db": 2,
        **shared,
    }
    assert address.sentinel_options == {
        "connection_class": connection_class,
        "username": "watch",
        "password": f"{SECRET}2",
        **shared,
    }
    assert SECRET not in repr(address)
