"""What AWS' SDKs call an error."""

from __future__ import annotations

import json

import pytest

from tokenweir.core.dialects.base import ErrorFacts
from tokenweir.core.dialects.bedrock_error import error_body, error_type


def error(status: int, code: str | None = None) -> ErrorFacts:
    """Return an error of *status*."""
    return ErrorFacts(status, "", code, "Why.", None, {"refusal": "x"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "ValidationException"),
        (401, "UnrecognizedClientException"),
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (413, "ValidationException"),
        (415, "ValidationException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (502, "InternalServerException"),
        (503, "ServiceUnavailableException"),
        (504, "ModelTimeoutException"),
    ],
)
def test_kinds(status: int, kind: str) -> None:
    """A kind goes with each status, as AWS has it."""
    assert error_type(error(status)) == kind


def test_what_is_not_worth_waiting_for() -> None:
    """A spent budget is of a kind that SDKs do not send again by themselves."""
    kind = error_type(error(429, "insufficient_quota"))

    assert kind == "ServiceQuotaExceededException"


def test_the_body() -> None:
    """The message stands at the top, and the machine's object beside it."""
    assert json.loads(error_body(error(400))) == {
        "message": "Why.",
        "tokenweir": {"refusal": "x"},
    }
