"""
What a refusal must look like, whoever made it and whatever for.

    expect(answer, OPENAI, 400, "malformed_request")

The shape is that of the API that was called, every header comes once, and what the
headers say of retrying is what the body says.
"""

from __future__ import annotations

import re
from typing import Any

from tests.cases.apis import OPENAI, Api
from tests.cases.connection import Answer

OPENAI_MEMBERS = {"message", "type", "code", "param", "tokenweir"}
ANTHROPIC_MEMBERS = {"type", "message", "tokenweir"}
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
    414: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
}
MAX_BODY_BYTES = 16 * 1024
# RFC 9110, 5.5: visible characters, with blanks inside only.
_FIELD_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def expect(answer: Answer, api: Api, status: int, refusal: str) -> dict[str, Any]:
    """Demand that *answer* is this *refusal*, in the shape of *api*; return the error."""
    assert (answer.status, answer.refusal) == (status, refusal), answer.body
    error = error_in(answer, api)
    assert error["tokenweir"]["refusal"] == refusal
    assert answer.header("content-type") == "application/json"
    assert len(answer.body) <= MAX_BODY_BYTES
    expect_clean_headers(answer)
    _expect_agreement(answer, error["tokenweir"])
    return error


def error_in(answer: Answer, api: Api) -> dict[str, Any]:
    """Return the error that *answer* holds, in the shape of *api* and no other."""
    body = answer.json()
    error: dict[str, Any] = body["error"]
    if api is OPENAI:
        assert set(body) == {"error"}
        assert set(error) == OPENAI_MEMBERS
    else:
        assert set(body) == {"type", "error"}
        assert body["type"] == "error"
        assert set(error) == ANTHROPIC_MEMBERS
        known = ANTHROPIC_TYPES.get(answer.status)
        assert known is None or error["type"] == known
    assert error["message"]
    return error


def expect_clean_headers(answer: Answer) -> None:
    """Demand that each header comes once, and has one line of something to say."""
    names = [name for name, _ in answer.head.headers]
    assert len(names) == len(set(names)), names
    for name, value in answer.head.headers:
        assert _FIELD_VALUE.fullmatch(value), (name, value)


def _expect_agreement(answer: Answer, detail: dict[str, Any]) -> None:
    wait_ms = detail.get("retry_after_ms")
    if wait_ms is None:
        assert answer.header("retry-after") is None
        assert answer.header("retry-after-ms") is None
    else:
        assert detail["retryable"] is True
        seconds = max(1, -(-wait_ms // 1_000))
        assert answer.header("retry-after") == str(seconds)
    if not detail["retryable"]:
        assert answer.header("x-should-retry") in ("false", None)
