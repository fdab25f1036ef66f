"""Each quota of a caller applies, or it is said why not."""

from __future__ import annotations

import pytest

from tokenweir.core.events import RequestHead
from tokenweir.core.identify import Caller, entry_of
from tokenweir.core.policy import ApiKey, Axis, Quota, Tenant
from tokenweir.explain.applying import REFUSED_BEFORE, quota_answers

TPM = Quota("acme.tpm", Axis.TOKENS, 9, 9)
CHAT = RequestHead("POST", "/v1/chat/completions", ())


def why_not(quota: Quota, head: RequestHead = CHAT, model: str = "gpt-4o") -> str:
    """Return why *quota* does not apply, if the core has not applied it."""
    caller = Caller(Tenant("acme", (quota,)), ApiKey("ci", "acme"))
    [answer] = quota_answers(caller, entry_of(head), model, ())
    return answer.why_not


def test_what_applies() -> None:
    """What the core has held the request against applies; the key's own come first."""
    own = Quota("ci.rpm", Axis.REQUESTS, 9, 9)
    caller = Caller(Tenant("acme", (TPM,)), ApiKey("ci", "acme", quotas=(own,)))
    answers = tuple(quota_answers(caller, entry_of(CHAT), "m", {"ci.rpm", "acme.tpm"}))

    assert [(each.quota, each.is_key, each.why_not) for each in answers] == [
        (own, True, ""),
        (TPM, False, ""),
    ]


@pytest.mark.parametrize(
    ("quota", "head", "why"),
    [
        (TPM, CHAT, REFUSED_BEFORE),
        (TPM, RequestHead("GET", "/v1/models", ()), "it limits tokens"),
        (
            Quota("q", Axis.REQUESTS, 9, 9, models=("claude-*", "o1")),
            CHAT,
            "it is for the models claude-*, o1",
        ),
        (
            Quota("q", Axis.REQUESTS, 9, 9, routes=("messages",), models=("claude-*",)),
            CHAT,
            "it is for the routes messages",
        ),
        (
            Quota("q", Axis.REQUESTS, 9, 9, models=("gpt-*",)),
            CHAT,
            REFUSED_BEFORE,
        ),
    ],
)
def test_why_not(quota: Quota, head: RequestHead, why: str) -> None:
    """Another path, route or model than it is for; or nobody came so far."""
    assert why_not(quota, head).startswith(why)
