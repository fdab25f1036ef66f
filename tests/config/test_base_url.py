"""A base URL is taken apart, or told what is wrong with it."""

from __future__ import annotations

import re

import pytest

from tests.config.policies import CANARY
from tokenweir.config.base_url import BaseUrl, parse_base_url


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://api.openai.com", ("https", "api.openai.com", 443, "")),
        ("https://api.openai.com/", ("https", "api.openai.com", 443, "")),
        ("https://api.openai.com/v1", ("https", "api.openai.com", 443, "")),
        ("https://api.openai.com/v1/", ("https", "api.openai.com", 443, "")),
        ("HTTPS://API.OpenAI.com", ("https", "api.openai.com", 443, "")),
        ("https://a.example/openai/v1", ("https", "a.example", 443, "/openai")),
        ("https://a.example/anthropic", ("https", "a.example", 443, "/anthropic")),
        ("https://a.example/v1beta", ("https", "a.example", 443, "/v1beta")),
        ("https://a.example/x/v1/v1", ("https", "a.example", 443, "/x/v1")),
        ("http://127.0.0.1:8000/v1", ("http", "127.0.0.1", 8000, "")),
        ("http://my_llm", ("http", "my_llm", 80, "")),
        ("http://[::1]:9", ("http", "::1", 9, "")),
        ("http://a:1", ("http", "a", 1, "")),
        ("http://a:65535/a.b/~c", ("http", "a", 65535, "/a.b/~c")),
    ],
)
def test_urls(text: str, parts: tuple[str, str, int, str]) -> None:
    """Scheme, host, port and prefix; a version that apps send themselves is dropped."""
    assert parse_base_url(text) == BaseUrl(*parts)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, "must begin with https:// or http://"),
        ("api.openai.com", "must begin with https:// or http://"),
        ("ftp://a", "must begin with https:// or http://"),
        (f"https://{CANARY}@a", "must not hold a user name or password: use `credential`"),
        (f"https://a/?{CANARY}", "must not hold a query or fragment: end it before ? or #"),
        (f"https://a#{CANARY}", "must not hold a query or fragment: end it before ? or #"),
        ("https://", "must have a host name or address after //"),
        ("https:///v1", "must have a host name or address after //"),
        ("https://a b", "must have a host name or address after //"),
        ("https://a\n", "must have a host name or address after //"),
        ("https://-a", "must have a host name or address after //"),
        ("https://a:", "must have a host name or address after //"),
        ("https://a:x", "must have a host name or address after //"),
        ("https://::1", "must have a host name or address after //"),
        ("https://[::1", "must have a host name or address after //"),
        ("https://[1.2.3:4]", "must have a host name or address after //"),
        ("https://1.2.3.400", "must have a host name or address after //"),
        ("https://" + "a" * 254, "must have a host name or address after //"),
        ("https://a:0", "must have a port from 1 to 65535"),
        ("https://a:65536", "must have a port from 1 to 65535"),
        ("https://a/v1/chat/completions", "must not name an endpoint: leave /chat/completions out"),
        ("https://a/v1/messages/", "must not name an endpoint: leave /messages out"),
        ("https://a/../b", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a/b/..", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a//b", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a/b c", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a/b\\c", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a/b%2e", "must have a path of letters, digits and -._~ between slashes"),
        ("https://a/b\n", "must have a path of letters, digits and -._~ between slashes"),
    ],
)  # fmt: skip
def test_wrong_urls(value: object, problem: str) -> None:
    """Each mistake is named, and nothing of the value is repeated."""
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_base_url(value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("localhost", True),
        ("llm.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("notlocalhost", False),
    ],
)
def test_loopback(host: str, is_loopback: bool) -> None:
    """Only what never leaves the machine counts, by name or address."""
    assert parse_base_url(f"http://{host}").is_loopback is is_loopback
