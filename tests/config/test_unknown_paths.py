"""What a policy lets pass unread is said in one word, or path by path."""

from __future__ import annotations

import pytest

from tokenweir.config.unknown_paths import parse_unknown_paths


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("refuse", ()),
        ("opaque", ("*",)),
        (["POST /v1/vector_stores"], ("POST /v1/vector_stores",)),
        (["GET /v1/files/*", "DELETE /"], ("GET /v1/files/*", "DELETE /")),
        (["OPTIONS /*"], ("OPTIONS /*",)),
    ],
)
def test_what_can_be_said(value: object, paths: tuple[str, ...]) -> None:
    """A word stands for nothing or everything, a list for what is in it."""
    assert parse_unknown_paths(value) == paths


@pytest.mark.parametrize(
    "value",
    [
        *(
            "pass",
            "",
            "*",
            "POST /v1/vector_stores",
            None,
            5,
            True,
            {},
            {"GET": "/"},
            [],
        ),
        *([5], [None], [""], ["*"], ["/v1/files"], ["GET"], ["GET "], ["GET v1"]),
        *(["get /v1"], ["CONNECT /"], ["TRACE /"], ["* /v1"], ["GET  /v1"]),
        *(["GET /v1/*/x"], ["GET /v1/**"], ["GET /a?b"], ["GET /a#b"], ["GET /a;b"]),
        *(["GET /a%2f"], ["GET /a\\b"], ["GET /a b"], ["GET /a\n"], ["GET /é"]),
        *(["GET /" + "a" * 300], ["GET /a", "GET"]),
    ],
)
def test_what_can_not(value: object) -> None:
    """Whatever could be read in two ways is refused, and not quoted."""
    with pytest.raises(ValueError, match=r"^must ") as caught:
        parse_unknown_paths(value)

    assert "CANARY" not in str(caught.value)
