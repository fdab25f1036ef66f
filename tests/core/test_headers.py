import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ticket
from tokenweir.core.events import Headers
from tokenweir.core.headers import (
    DOWNGRADED_HEADER,
    OUTPUT_CAP_HEADER,
    refusal_headers,
    response_changes,
    success_headers,
    upstream_renames,
    wait_of,
    with_decisions,
)
from tokenweir.core.hold import Limit, LimitState
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EncodingNotMetered,
    EnvoyOutdated,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    PathNotMetered,
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    UnknownKey,
    Unsatisfiable,
)

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
NOT_RETRYABLE: list[Rejection] = [
    Unsatisfiable("acme.tpm", Axis.TOKENS, "tenant=acme", 60_000, 130_000),
    Malformed("no"),
    UnknownKey("no"),
    ModelNotAllowed("gpt-9"),
    PathNotMetered("/v1/x"),
    EncodingNotMetered("snappy"),
    BodyTooLarge(8),
]


def state(
    axis: Axis,
    remaining: int,
    reset_ms: int = 19_000,
    *,
    quota: str | None = None,
    rate: int = 60_000,
    capacity: int = 60_000,
    shadow: bool = False,
) -> LimitState:
    """Return a state with whole figures unless asked otherwise."""
    limit = Limit(quota or f"acme.{axis}", axis, "tenant=acme", rate, capacity, shadow)
    return LimitState(limit, remaining, reset_ms)


def failure(
    axis: Axis, wait_ms: int, *, used: int = 41_000, reserved: int = 19_000
) -> QuotaFailure:
    """Return a failure of a quota of 60,000."""
    return QuotaFailure(
        f"acme.{axis}", axis, "tenant=acme", 60_000, used, reserved, 8_200, wait_ms
    )


RPM = state(Axis.REQUESTS, 599, 100, rate=600, capacity=600)
TPM = state(Axis.TOKENS, 41_000)
SLOTS = state(Axis.CONCURRENCY, 7, 0, rate=0, capacity=8)


# === answers ======================================================================


def test_success_golden() -> None:
    """OpenAI's family has the tightest of each kind, the draft's has every limit."""
    assert success_headers([RPM, TPM, SLOTS]) == (
        ("x-ratelimit-limit-requests", "600"),
        ("x-ratelimit-remaining-requests", "599"),
        ("x-ratelimit-reset-requests", "100ms"),
        ("x-ratelimit-limit-tokens", "60000"),
        ("x-ratelimit-remaining-tokens", "41000"),
        ("x-ratelimit-reset-tokens", "19s"),
        (
            "ratelimit",
            (
                '"acme.requests_per_minute";r=599;t=1, '
                '"acme.tokens_per_minute";r=41000;t=19, '
                '"acme.concurrency";r=7;t=0'
            ),
        ),
        (
            "ratelimit-policy",
            (
                '"acme.requests_per_minute";q=600;qu="requests";w=60, '
                '"acme.tokens_per_minute";q=60000;qu="tokens";w=60, '
                '"acme.concurrency";q=8;qu="concurrent-requests"'
            ),
        ),
    )


def test_anthropic_golden() -> None:
    """Anthropic's family goes by kind of tokens; resets are times of day."""
    states = [
        state(Axis.REQUESTS, 49, 1_200, rate=50, capacity=50),
        state(Axis.INPUT_TOKENS, 30_000, 500),
        state(Axis.OUTPUT_TOKENS, 1_000, 59_000),
    ]

    headers = success_headers(states, NOON_MS)

    assert [pair for pair in headers if pair[0].startswith("anthropic")] == [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T12:00:02Z"),
        ("anthropic-ratelimit-tokens-limit", "60000"),
        ("anthropic-ratelimit-tokens-remaining", "1000"),
        ("anthropic-ratelimit-tokens-reset", "2026-01-01T12:00:59Z"),
        ("anthropic-ratelimit-input-tokens-limit", "60000"),
        ("anthropic-ratelimit-input-tokens-remaining", "30000"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-01-01T12:00:01Z"),
        ("anthropic-ratelimit-output-tokens-limit", "60000"),
        ("anthropic-ratelimit-output-tokens-remaining", "1000"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-01-01T12:00:59Z"),
    ]


def test_tightest_by_share() -> None:
    """The tightest limit has the least share left, not the least number."""
    wide = state(Axis.TOKENS, 50_000, capacity=1_000_000)
    narrow = state(Axis.INPUT_TOKENS, 9_000, capacity=10_000)

    headers = dict(success_headers([narrow, wide]))

    assert headers["x-ratelimit-limit-tokens"] == "1000000"


def test_tightest_of_equals() -> None:
    """Of equally tight limits the one that fills more slowly is told."""
    quick, slow = state(Axis.TOKENS, 0, 1_000), state(Axis.OUTPUT_TOKENS, 0, 9_000)

    headers = dict(success_headers([quick, slow]))

    assert headers["x-ratelimit-reset-tokens"] == "9s"


def test_debt_shows_as_nothing_left() -> None:
    """A level below zero is told as 0; the time to full includes the debt."""
    headers = dict(success_headers([state(Axis.TOKENS, -5_000, 65_000)], NOON_MS))

    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["anthropic-ratelimit-tokens-remaining"] == "0"
    assert headers["ratelimit"] == '"acme.tokens_per_minute";r=0;t=65'
    assert headers["x-ratelimit-reset-tokens"] == "1m5s"


def test_shadow_limits_are_not_told() -> None:
    """Clients do not learn of limits in shadow mode."""
    shadow = state(Axis.TOKENS, 5, shadow=True)

    assert success_headers([shadow], NOON_MS) == ()
    assert success_headers([shadow, TPM]) == success_headers([TPM])


def test_no_limits_no_headers() -> None:
    """An exchange that no limit applies to has no rate-limit headers."""
    assert success_headers([]) == ()


@pytest.mark.parametrize(
    ("rate", "capacity", "item"),
    [
        (60_000, 60_000, "q=60000;w=60"),
        (60_000, 10_000, "q=10000;w=10"),
        (60_000, 120_000, "q=120000;w=120"),
        (60_000, 1, "q=1;w=1"),
        (7, 10, "q=10;w=86"),
        (0, 0, "q=0;w=1"),
    ],
)
def test_policy_window(rate: int, capacity: int, item: str) -> None:
    """Quota and window state burst and rate at once: the time to fill, rounded up."""
    states = [state(Axis.REQUESTS, 0, rate=rate, capacity=capacity)]

    policy = dict(success_headers(states))["ratelimit-policy"]

    assert policy.replace('qu="requests";', "") == f'"acme.requests_per_minute";{item}'


def test_many_limits() -> None:
    """Of very many limits the tightest are listed, still in the policy's order."""
    states = [
        state(Axis.TOKENS, (n * 7) % 40, quota=f"q{n}", capacity=40) for n in range(40)
    ]

    headers = dict(success_headers(states))
    names = re.findall(r'"(q\d+)"', headers["ratelimit"])

    assert len(names) == 16
    assert names == sorted(names, key=lambda name: int(name[1:]))
    assert set(names) == {f"q{n}" for n in range(40) if (n * 7) % 40 < 16}
    assert re.findall(r'"(q\d+)"', headers["ratelimit-policy"]) == names


# === refusals =====================================================================


def test_refusal_golden() -> None:
    """A refusal by tokens says when to come back, in every spelling the same."""
    rejection = QuotaExhausted("acme", (failure(Axis.TOKENS, 8_200),))

    assert refusal_headers(rejection) == (
        ("x-tokenweir-refusal", "quota_exhausted"),
        ("retry-after", "9"),
        ("retry-after-ms", "8200"),
        ("x-should-retry", "true"),
        ("x-ratelimit-limit-tokens", "60000"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "9s"),
        ("ratelimit", '"acme.tokens_per_minute";r=0;t=9'),
    )


def test_refusal_by_several() -> None:
    """Every reset names the moment after which all limits fit, the longest wait."""
    failures = (
        failure(Axis.INPUT_TOKENS, 8_200),
        failure(Axis.TOKENS, 5_000, used=0),
        failure(Axis.REQUESTS, 700),
    )

    headers = dict(refusal_headers(QuotaExhausted("acme", failures)))

    assert headers["retry-after"] == "9"
    assert headers["x-ratelimit-reset-tokens"] == "9s"
    assert headers["x-ratelimit-reset-requests"] == "9s"
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["ratelimit"] == (
        '"acme.input_tokens_per_minute";r=0;t=9, '
        '"acme.tokens_per_minute";r=41000;t=5, '
        '"acme.requests_per_minute";r=0;t=1'
    )


def test_refusal_that_is_staggered() -> None:
    """All headers tell the caller's own moment, the latest of those of its failures."""
    failures = (
        replace(failure(Axis.TOKENS, 8_200), stagger_ms=1_000),
        replace(failure(Axis.REQUESTS, 700), stagger_ms=30_000),
    )
    rejection = QuotaExhausted("acme", failures)

    headers = dict(refusal_headers(rejection))

    assert headers["retry-after"] == "31"
    assert headers["retry-after-ms"] == "30700"
    assert headers["x-ratelimit-reset-tokens"] == "31s"
    assert headers["x-ratelimit-reset-requests"] == "31s"
    assert headers["ratelimit"] == (
        '"acme.tokens_per_minute";r=0;t=10, "acme.requests_per_minute";r=0;t=31'
    )
    assert wait_of(rejection) == 8_200


def test_refusal_by_concurrency() -> None:
    """Slots are told in the draft's field only: they are no rate."""
    slots = QuotaFailure(
        "acme.concurrency", Axis.CONCURRENCY, "tenant=acme", 8, 0, 8, 1, 2_000
    )

    headers = dict(refusal_headers(QuotaExhausted("acme", (slots,))))

    assert headers["ratelimit"] == '"acme.concurrency";r=0;t=2'
    assert not [name for name in headers if name.startswith("x-ratelimit")]


@pytest.mark.parametrize("rejection", NOT_RETRYABLE)
def test_waiting_does_not_help(rejection: Rejection) -> None:
    """Where no wait helps there is no Retry-After, and SDKs are told not to retry."""
    headers = dict(refusal_headers(rejection))

    assert wait_of(rejection) is None
    assert set(headers) == {"x-tokenweir-refusal", "x-should-retry"}
    assert headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    "kind", [LedgerUnavailable, Draining, EnvoyOutdated, InternalFault]
)
def test_trouble_of_ours(
    kind: type[LedgerUnavailable | Draining | EnvoyOutdated | InternalFault],
) -> None:
    """Our own trouble comes with a wait and the advice to retry."""
    assert refusal_headers(kind(1_000))[1:] == (
        ("retry-after", "1"),
        ("retry-after-ms", "1000"),
        ("x-should-retry", "true"),
    )


@given(st.integers(-(10**6), 10**9))
def test_retry_after_is_digits(wait_ms: int) -> None:
    """
    Retry-After is an integer of at least 1 that covers the wait; so is the other.

    L18 and L13: "delay-seconds" is digits only, waits below a second are not 0,
    and a clock that stepped back gives no negative wait.
    """
    rejection = QuotaExhausted("acme", (failure(Axis.TOKENS, wait_ms),))
    headers = dict(refusal_headers(rejection))

    assert re.fullmatch(r"[1-9][0-9]*", headers["retry-after"])
    assert re.fullmatch(r"[1-9][0-9]*", headers["retry-after-ms"])
    assert int(headers["retry-after"]) * 1_000 >= wait_ms
    assert int(headers["retry-after-ms"]) >= wait_ms


@pytest.mark.parametrize(("wait_ms", "retry"), [(120_000, "true"), (120_001, "false")])
def test_long_waits_are_for_the_app(wait_ms: int, retry: str) -> None:
    """A wait that SDKs would ignore or sleep through silently goes to the app."""
    headers = dict(
        refusal_headers(QuotaExhausted("acme", (failure(Axis.TOKENS, wait_ms),)))
    )

    assert headers["x-should-retry"] == retry


# === the provider's ================================================================


def test_renames() -> None:
    """A provider's figures move aside; its Retry-After and all else stay."""
    changes = upstream_renames(
        (
            ("content-type", "application/json"),
            ("x-ratelimit-limit-requests", "10000"),
            ("anthropic-ratelimit-tokens-remaining", "9000"),
            ("ratelimit", '"default";r=50;t=30'),
            ("ratelimit-policy", '"a";q=1'),
            ("ratelimit-policy", '"b";q=2'),
            ("retry-after", "20"),
            ("x-tokenweir-refusal", "quota_exhausted"),
            ("x-upstream-ratelimit", "kept"),
        )
    )

    assert changes.set_headers == (
        ("x-upstream-ratelimit-limit-requests", "10000"),
        ("x-upstream-ratelimit-tokens-remaining", "9000"),
        ("x-upstream-ratelimit", '"default";r=50;t=30'),
        ("x-upstream-ratelimit-policy", '"a";q=1, "b";q=2'),
        ("x-upstream-tokenweir-refusal", "quota_exhausted"),
    )
    assert changes.remove_headers == (
        "x-ratelimit-limit-requests",
        "anthropic-ratelimit-tokens-remaining",
        "ratelimit",
        "ratelimit-policy",
        "x-tokenweir-refusal",
    )


def test_rename_meets_rename() -> None:
    """Where two spellings meet in one name the first stays, and both are taken out."""
    changes = upstream_renames((("x-ratelimit-limit", "5"), ("ratelimit-limit", "7")))

    assert changes.set_headers == (("x-upstream-ratelimit-limit", "5"),)
    assert changes.remove_headers == ("x-ratelimit-limit", "ratelimit-limit")


def test_empty_value_is_dropped() -> None:
    """A header without a value is taken out and not set again."""
    changes = upstream_renames((("x-ratelimit-limit", " "),))

    assert changes == ((), ("x-ratelimit-limit",))


def test_renames_are_bounded() -> None:
    """A provider can't make the answer outgrow what Envoy takes."""
    many = tuple((f"x-ratelimit-{n}", "1") for n in range(90))

    assert len(upstream_renames(many).set_headers) == 32
    assert len(upstream_renames(many).remove_headers) == 90


def test_response_changes() -> None:
    """No name is both set and removed, so that the order of the two can't matter."""
    upstream = (("x-ratelimit-limit-tokens", "1"), ("x-ratelimit-other", "2"))

    changes = response_changes(upstream, [TPM], NOON_MS)

    assert changes.remove_headers == ("x-ratelimit-other",)
    assert changes.set_headers == (
        ("x-upstream-ratelimit-limit-tokens", "1"),
        ("x-upstream-ratelimit-other", "2"),
        *success_headers([TPM], NOON_MS),
    )


# === all of them ==================================================================

QUOTAS = st.text(max_size=200)
NUMBERS = st.integers(-(10**17), 10**17)
STATES = st.builds(
    LimitState,
    st.builds(
        Limit,
        quota=QUOTAS,
        axis=st.sampled_from(Axis),
        partition=st.text(max_size=9),
        rate=st.integers(0, 10**12),
        capacity=st.integers(0, 10**12),
        shadow=st.booleans(),
    ),
    NUMBERS,
    NUMBERS,
)
FAILURES = st.builds(
    QuotaFailure,
    quota=QUOTAS,
    axis=st.sampled_from(Axis),
    partition=st.text(max_size=9),
    capacity=NUMBERS,
    used=NUMBERS,
    reserved=NUMBERS,
    requested=NUMBERS,
    wait_ms=NUMBERS,
)


def assert_fit_for_http(headers: Headers) -> None:
    """Each name comes once; each value is one line, printable ASCII, not empty."""
    names = [name for name, _ in headers]
    assert len(names) == len(set(names))
    for name, value in headers:
        assert re.fullmatch(r"[a-z0-9_-]+", name)
        assert re.fullmatch(r"[!-~]([ -~]*[!-~])?", value)
        assert len(value) < 8_000


@given(st.lists(STATES, max_size=20), st.none() | st.just(NOON_MS))
def test_every_success_header(
    states: Sequence[LimitState], anthropic_at_ms: int | None
) -> None:
    """E15: whatever the figures and names, what is sent on success fits HTTP."""
    assert_fit_for_http(success_headers(states, anthropic_at_ms))


@given(st.lists(FAILURES, min_size=1, max_size=20))
def test_every_refusal_header(failures: list[QuotaFailure]) -> None:
    """E15: whatever the figures and names, what a refusal sends fits HTTP."""
    assert_fit_for_http(refusal_headers(QuotaExhausted("acme", tuple(failures))))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x-ratelimit-a", "ratelimit-a", "ratelimit", "etag"]),
            st.text(max_size=300),
        )
    )
)
def test_every_renamed_header(upstream: list[tuple[str, str]]) -> None:
    """E15: whatever a provider sends, what is made of it fits HTTP."""
    assert_fit_for_http(upstream_renames(tuple(upstream)).set_headers)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({}, {}),
        ({"downgraded_from": "gpt-4o"}, {DOWNGRADED_HEADER: "gpt-4o"}),
        (
            {"capped_from": "2000", "output_cap": "300"},
            {OUTPUT_CAP_HEADER: "300;from=2000"},
        ),
        (
            {"capped_from": "unset", "output_cap": "200", "downgraded_from": "gp\nt"},
            {OUTPUT_CAP_HEADER: "200;from=unset", DOWNGRADED_HEADER: "gp?t"},
        ),
    ],
)
def test_what_was_changed_is_told(labels: dict[str, str], told: dict[str, str]) -> None:
    """In our name alone: what a provider says by these names is gone."""
    plain = ticket()
    subject = replace(plain.hold.subject, **labels)
    of = replace(plain, hold=replace(plain.hold, subject=subject))
    forged = ((OUTPUT_CAP_HEADER, "9;from=1"), (DOWNGRADED_HEADER, "gpt-9"))
    changes = with_decisions(upstream_renames(forged), of)
    changed = {*dict(changes.set_headers)} | {*changes.remove_headers}

    assert told.items() <= dict(changes.set_headers).items()
    assert {OUTPUT_CAP_HEADER, DOWNGRADED_HEADER} <= changed
    assert not {*dict(changes.set_headers)} & {*changes.remove_headers}
