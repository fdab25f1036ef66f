import json
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extproc.rejections import (
    ALL,
    ANTHROPIC,
    ANTHROPIC_TYPES,
    OPENAI,
    OVER_TPM,
    REJECTIONS,
    SLOTS,
    anthropic_error,
    openai_error,
)
from tokenweir.core.dialects.base import Dialect
from tokenweir.core.dialects.bedrock import Bedrock
from tokenweir.core.policy import Axis, KeyEnd
from tokenweir.core.reason import reason_of
from tokenweir.core.rejection import (
    EncodingNotMetered,
    EndedKey,
    Malformed,
    ModelNotAllowed,
    PathNotMetered,
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    RouteNotAllowed,
    UnknownKey,
    Unsatisfiable,
)
from tokenweir.extproc.respond import respond


def test_table_is_whole() -> None:
    """The table below has every class of rejection."""
    assert {type(rejection) for rejection in ALL} == set(get_args(Rejection))


@pytest.mark.parametrize(("rejection", "status", "kind", "code"), REJECTIONS)
def test_openai(rejection: Rejection, status: int, kind: str, code: str) -> None:
    """Each rejection has its status, type and code in OpenAI's shape."""
    reply = respond(rejection, OPENAI)
    error = openai_error(reply)

    assert reply.status == status
    assert (error["type"], error["code"]) == (kind, code)
    assert error["message"]
    assert "param" in error
    assert error["tokenweir"]["refusal"] == reason_of(rejection)


@pytest.mark.parametrize("rejection", ALL)
def test_anthropic(rejection: Rejection) -> None:
    """In Anthropic's shape status, message and detail are the same, the type its own."""
    reply, other = respond(rejection, ANTHROPIC), respond(rejection, OPENAI)
    error = anthropic_error(reply)

    assert (reply.status, reply.headers) == (other.status, other.headers)
    assert error["type"] == ANTHROPIC_TYPES[reply.status]
    assert error["message"] == openai_error(other)["message"]
    assert error["tokenweir"] == openai_error(other)["tokenweir"]


@pytest.mark.parametrize(("rejection", "status", "kind", "code"), REJECTIONS)
def test_bedrock(rejection: Rejection, status: int, kind: str, code: str) -> None:
    """In Bedrock's shape the kind is in a header, and is one that goes with the status."""
    reply, other = respond(rejection, Bedrock()), respond(rejection, OPENAI)
    body = json.loads(reply.body)

    assert (reply.status, reply.headers[:-1]) == (status, other.headers)
    name, told = reply.headers[-1]
    assert name == "x-amzn-errortype"
    assert told.endswith("Exception")
    is_spent = code == "insufficient_quota"
    assert (told == "ServiceQuotaExceededException") is is_spent
    assert (told == "ThrottlingException") is (status == 429 and not is_spent)
    assert body["message"] == openai_error(other)["message"]
    assert body["tokenweir"] == openai_error(other)["tokenweir"]


def test_exhausted_golden() -> None:
    """The detail has the worst limit's figures, then every limit that failed."""
    assert openai_error(respond(OVER_TPM, OPENAI)) == {
        "message": (
            "Tenant acme is over its tokens-per-minute limit: this request needs "
            "8,200 tokens, and of the 60,000 of quota acme.tokens_per_minute "
            "(tenant=acme), 41,000 are used and 19,000 are held by requests in "
            "flight; 60,000 come back a minute. Retry in 8.2 s, or shorten the prompt or "
            "set a lower max_tokens (all of it is reserved until the answer is "
            "complete). Also over: quota acme.requests_per_minute (tenant=acme)."
        ),
        "type": "tokens",
        "code": "rate_limit_exceeded",
        "param": None,
        "tokenweir": {
            "limit": "tokens_per_minute",
            "quota": "acme.tokens_per_minute",
            "partition": "tenant=acme",
            "window": "1m",
            "rate_per_minute": 60_000,
            "capacity": 60_000,
            "used": 41_000,
            "reserved": 19_000,
            "requested": 8_200,
            "retry_after_ms": 8_200,
            "retryable": True,
            "refusal": "quota_exhausted",
            "failures": [
                {
                    "limit": "tokens_per_minute",
                    "quota": "acme.tokens_per_minute",
                    "partition": "tenant=acme",
                    "window": "1m",
                    "rate_per_minute": 60_000,
                    "capacity": 60_000,
                    "used": 41_000,
                    "reserved": 19_000,
                    "requested": 8_200,
                    "retry_after_ms": 8_200,
                },
                {
                    "limit": "requests_per_minute",
                    "quota": "acme.requests_per_minute",
                    "partition": "tenant=acme",
                    "window": "1m",
                    "rate_per_minute": 600,
                    "capacity": 600,
                    "used": 600,
                    "reserved": 0,
                    "requested": 1,
                    "retry_after_ms": 100,
                },
            ],
        },
    }


def test_concurrency_has_no_window() -> None:
    """Slots are not counted over time."""
    detail = openai_error(respond(QuotaExhausted("acme", (SLOTS,)), OPENAI))[
        "tokenweir"
    ]

    assert detail["limit"] == "concurrency"
    assert detail["window"] is None
    assert detail["rate_per_minute"] is None
    assert detail["failures"][0]["window"] is None


def test_unsatisfiable_detail() -> None:
    """What can never fit has its figures, and no wait."""
    never = Unsatisfiable(
        "acme.tpm", Axis.TOKENS, "tenant=acme", 60_000, 130_000, 9_000
    )

    assert openai_error(respond(never, OPENAI))["tokenweir"] == {
        "limit": "tokens_per_minute",
        "quota": "acme.tpm",
        "partition": "tenant=acme",
        "window": "1m",
        "rate_per_minute": 9_000,
        "capacity": 60_000,
        "requested": 130_000,
        "retryable": False,
        "refusal": "request_exceeds_limit",
    }


def test_params() -> None:
    """The offending member is named where there is one."""
    malformed = respond(Malformed("no", "messages[0].role"), OPENAI)

    assert openai_error(malformed)["param"] == "messages[0].role"
    assert openai_error(respond(Malformed("no"), OPENAI))["param"] is None
    assert openai_error(respond(ModelNotAllowed("m"), OPENAI))["param"] == "model"


@pytest.mark.parametrize("rejection", ALL)
def test_retryable_agrees_with_headers(rejection: Rejection) -> None:
    """The body says the same as the headers: whether to come back, and when."""
    reply = respond(rejection, OPENAI)
    detail, headers = openai_error(reply)["tokenweir"], dict(reply.headers)

    assert detail["retryable"] is (headers["x-should-retry"] == "true")
    # A budget says when its window turns, though nobody is to wait for it.
    told = headers.get("retry-after-ms")
    assert detail.get("retry_after_ms") == (None if told is None else int(told))


@pytest.mark.parametrize("rejection", ALL)
def test_l18_retry_after(rejection: Rejection) -> None:
    """L18: Retry-After is digits, at least 1, and on every 429 and 5xx of ours."""
    reply = respond(rejection, OPENAI)
    retry_after = dict(reply.headers).get("retry-after")

    if reply.status == 429 or reply.status >= 500:
        assert re.fullmatch(r"[1-9][0-9]*", retry_after or "")
    else:
        assert retry_after is None


@pytest.mark.parametrize("rejection", ALL)
def test_whose_it_is(rejection: Rejection) -> None:
    """An answer of ours is always tellable from a provider's."""
    reply = respond(rejection, OPENAI)
    headers = dict(reply.headers)

    assert headers["x-tokenweir-refusal"] == reason_of(rejection)
    assert headers["content-type"] == "application/json"
    assert reply.details == f"tokenweir_{reason_of(rejection)}"


def test_extra_headers() -> None:
    """A 401 says how to authenticate, a 415 which encoding would do."""
    unknown = dict(respond(UnknownKey("no"), OPENAI).headers)
    ended = dict(respond(EndedKey(KeyEnd.EXPIRED, 1), OPENAI).headers)
    encoded = dict(respond(EncodingNotMetered("snappy"), OPENAI).headers)

    assert unknown["www-authenticate"] == 'Bearer realm="tokenweir"'
    assert ended["www-authenticate"] == 'Bearer realm="tokenweir"'
    assert encoded["accept-encoding"] == "gzip, deflate, br, zstd"


@pytest.mark.parametrize("end", KeyEnd)
def test_since_when_a_key_has_ended(end: KeyEnd) -> None:
    """Message and detail tell the moment, so that nobody looks for a typing error."""
    error = openai_error(respond(EndedKey(end, 1_767_312_000_000), OPENAI))

    assert "2026-01-02T00:00:00Z" in error["message"]
    assert error["tokenweir"]["since"] == "2026-01-02T00:00:00Z"
    assert error["tokenweir"]["refusal"] == f"{end}_key"


def test_route_not_allowed() -> None:
    """The route is named, in the message and for machines."""
    error = openai_error(respond(RouteNotAllowed("messages"), OPENAI))

    assert '"messages"' in error["message"]
    assert error["tokenweir"]["route"] == "messages"


# === hostile strings ==============================================================

HOSTILE = st.text(max_size=600) | st.sampled_from(
    ["\x00", "\r\nset-cookie: a=b", "\ud800", '"},{"', "\u202e", "x" * 100_000, ""]
)
DIALECTS = [OPENAI, ANTHROPIC]


@given(HOSTILE, st.sampled_from(DIALECTS))
def test_hostile_strings(text: str, dialect: Dialect) -> None:
    """E15: whatever a client sends, headers are clean and the body is bounded JSON."""
    failure = QuotaFailure(text, Axis.TOKENS, text, 1, 1, 0, 1, 1)
    for rejection in (
        QuotaExhausted(text, (failure,) * 40),
        Unsatisfiable(text, Axis.TOKENS, text, 1, 2),
        Malformed(text, text),
        UnknownKey(text),
        ModelNotAllowed(text),
        PathNotMetered(text),
        EncodingNotMetered(text),
    ):
        reply = respond(rejection, dialect)
        message = json.loads(reply.body)["error"]["message"]

        assert len(reply.body) < 40_000
        assert message.isprintable()
        assert len({name for name, _ in reply.headers}) == len(reply.headers)
        for name, value in reply.headers:
            assert re.fullmatch(r"[a-z-]+", name)
            assert re.fullmatch(r"[!-~]([ -~]*[!-~])?", value)
