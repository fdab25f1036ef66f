"""Who speaks an API: where its apps put a key, and how it writes errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cases.refusals import ANTHROPIC_MEMBERS, ANTHROPIC_TYPES, OPENAI_MEMBERS

GOOGLE_WORDS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
GOOGLE_MEMBERS = {"code", "message", "status", "tokenweir"}


@dataclass(frozen=True)
class Speaker:
    """
    One API.

    Attributes:
        provider: The one in the policy.
        key_header: Where its SDKs put a key.
        error_in: Returns the error in a body, with a status, in the API's shape and
            no other.
        error: An error as its provider writes it, for a status.
    """

    provider: str
    key_header: str
    error_in: Callable[[bytes, int], dict[str, Any]]
    error: Callable[[int], bytes]

    def credentials(self, key: str) -> tuple[str, str]:
        """Return the header that proves who pays."""
        bearer = self.key_header == "authorization"
        return self.key_header, f"Bearer {key}" if bearer else key


def _openai_error_in(body: bytes, status: int) -> dict[str, Any]:
    del status
    whole = json.loads(body)
    error: dict[str, Any] = whole["error"]
    assert set(whole) == {"error"}
    assert set(error) == OPENAI_MEMBERS
    return error


def _anthropic_error_in(body: bytes, status: int) -> dict[str, Any]:
    whole = json.loads(body)
    error: dict[str, Any] = whole["error"]
    assert set(whole) == {"type", "error"}
    assert whole["type"] == "error"
    assert set(error) == ANTHROPIC_MEMBERS
    assert error["type"] == ANTHROPIC_TYPES[status]
    return error


def _google_error_in(body: bytes, status: int) -> dict[str, Any]:
    whole = json.loads(body)
    error: dict[str, Any] = whole["error"]
    assert set(whole) == {"error"}
    assert set(error) - {"details"} == GOOGLE_MEMBERS
    assert (error["code"], error["status"]) == (status, GOOGLE_WORDS[status])
    if status == 429:
        [told] = error["details"]
        wait_ms = error["tokenweir"]["retry_after_ms"]
        assert told["@type"].endswith("google.rpc.RetryInfo")
        assert told["retryDelay"] == f"{wait_ms // 1000}.{wait_ms % 1000:03}s"
    return error


def _aws_error_in(body: bytes, status: int) -> dict[str, Any]:
    del status
    error: dict[str, Any] = json.loads(body)
    assert set(error) == {"message", "tokenweir"}
    return error


def _openai_error(status: int) -> bytes:
    return (
        f'{{"error": {{"message": "No.", "type": "t", "code": "c{status}"}}}}'.encode()
    )


def _anthropic_error(status: int) -> bytes:
    kind = ANTHROPIC_TYPES[status]
    return f'{{"type":"error","error":{{"type":"{kind}","message":"No."}}}}'.encode()


def _google_error(status: int) -> bytes:
    return (
        f'[{{"error": {{"code": {status}, "message": "No.", "status": "S"}}}}]'.encode()
    )


def _aws_error(status: int) -> bytes:
    return f'{{"message": "No: {status}."}}'.encode()


OPENAI = Speaker("openai", "authorization", _openai_error_in, _openai_error)
ANTHROPIC = Speaker("anthropic", "x-api-key", _anthropic_error_in, _anthropic_error)
AZURE = Speaker("azure", "api-key", _openai_error_in, _openai_error)
GOOGLE = Speaker("google", "x-goog-api-key", _google_error_in, _google_error)
BEDROCK = Speaker("bedrock", "authorization", _aws_error_in, _aws_error)
VLLM = Speaker("vllm", "authorization", _openai_error_in, _openai_error)
