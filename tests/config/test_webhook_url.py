"""A webhook's URL is one that nothing is sent to in the clear."""

from __future__ import annotations

import re

import pytest

from tests.config.policies import CANARY
from tokenweir.config.webhook_url import MAX_CHARS, URL_PATTERN, parse_webhook_url


@pytest.mark.parametrize(
    "url",
    [
        "https://ops.example",
        "https://ops.example/",
        "https://ops.example:8443/hooks/T0/B1?team=llm&x=@y",
        "https://10.0.0.7/hook",
        "https://[2001:db8::1]/hook",
        "HTTPS://ops.example/Hook",
        "http://127.0.0.1:9000/hook",
        "http://127.8.8.8/hook",
        "http://[::1]:9000/hook",
        "http://localhost/hook",
    ],
)
def test_urls(url: str) -> None:
    """Over TLS anywhere, without it on this machine only; as they were written."""
    assert parse_webhook_url(url) == url
    assert re.search(URL_PATTERN, url, re.IGNORECASE)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (5, "begins with https://"),
        ("", "begins with https://"),
        (f"ftp://{CANARY}.example/", "begins with https://"),
        (f"//{CANARY}.example/", "begins with https://"),
        (f"https://ops.example/{CANARY} x", "begins with https://"),
        (f"https://ops.example/{CANARY}\n", "begins with https://"),
        (f"https://{CANARY}@ops.example/", "user name or password"),
        (f"https://ops.example/#{CANARY}", "fragment"),
        (f"http://{CANARY}.example/", "unless it is on this machine"),
        ("http://127.0.0.1.example/", "unless it is on this machine"),
        (f"http://{CANARY}.localhost/", "unless it is on this machine"),
        ("https:///hook", "host name or address"),
        ("https://127.0.0.256/hook", "host name or address"),
        ("https://ops.example:0/", "port from 1"),
        ("https://ops.example/" + MAX_CHARS * "a", "at most 2,048"),
    ],
)
def test_what_is_no_webhook(url: object, problem: str) -> None:
    """What is wrong is told, and no part of the URL."""
    with pytest.raises(ValueError, match=problem) as caught:
        parse_webhook_url(url)

    assert CANARY not in str(caught.value)
