"""What may count, and who may be asked."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.config.policies import CANARY
from tokenweir.config.tokenize_entry import (
    TokenizeEntry,
    is_file,
    origin_of,
    parse_tokenize_url,
    parse_tokenizer,
)

URL = "http://vllm:8000/tokenize"


@pytest.mark.parametrize("name", ["qwen", "claude-4.7", "file:/a b/tokenizer.json"])
def test_tokenizers(name: str) -> None:
    """A family's name, or a file by its absolute path."""
    assert parse_tokenizer(name) == name
    assert is_file(name) == name.startswith("file:")


@pytest.mark.parametrize(
    "name", ["", "file:x.json", "file:", "file:/a\nb", "/x", 5, None]
)
def test_no_tokenizers(name: object) -> None:
    """What is neither is refused."""
    with pytest.raises(ValueError, match=r"absolute path of a tokenizer\.json"):
        parse_tokenizer(name)


@pytest.mark.parametrize("url", [URL, "https://a.b/v1/tokenize?x=1", "HTTP://10.0.0.1"])
def test_urls(url: str) -> None:
    """Any server, over http or https."""
    assert parse_tokenize_url(url) == url
    assert origin_of(url).port in (443, 80, 8000)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "vllm:8000",
        "ftp://a/b",
        "http://a/b#c",
        "http://a/ b",
        f"http://u:{CANARY}@a/tokenize",
        f"http://a:99999/{CANARY}",
        f"http://a/{'x' * 3_000}",
        7,
    ],
)
def test_no_urls(url: object) -> None:
    """What can't be posted to is refused, in words that repeat none of it."""
    with pytest.raises(ValueError, match="must") as caught:
        parse_tokenize_url(url)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"deadline": "2s"}, "at most 1s"),
        ({"deadline": 0}, "at most 1s"),
        ({"min_bytes": 9, "max_bytes": 8}, "none is asked"),
        ({"header": "a b"}, "pattern"),
        ({"credential": "sk-x"}, "must say where the secret is"),
    ],
)
def test_what_makes_no_sense(members: dict[str, object], why: str) -> None:
    """Is refused."""
    with pytest.raises(ValidationError, match=why):
        TokenizeEntry.model_validate({"url": URL, **members})


def test_defaults() -> None:
    """Every text up to a megabyte is asked about, for a tenth of a second."""
    entry = TokenizeEntry.model_validate({"url": URL})

    assert (entry.deadline, entry.min_bytes, entry.max_bytes) == (100, 0, 1_000_000)
