from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaExhausted, QuotaFailure, Unsatisfiable
from tokenweir.extproc import wording

NASTY = 'a"\\\x00\x1b[31m\r\n\u202e\u2028\ud800z'


TPM = QuotaFailure(
    quota="acme.tpm",
    axis=Axis.TOKENS,
    partition="tenant=acme",
    capacity=60_000,
    used=41_000,
    reserved=19_000,
    requested=8_200,
    wait_ms=8_200,
    rate=30_000,
)
PROMPT, OUTPUT = "shorten the prompt", "set a lower max_tokens"
RESERVED = "(all of it is reserved until the answer is complete)"


def failure(axis: Axis) -> QuotaFailure:
    """Return a failure of acme's quota on *axis*."""
    return replace(TPM, axis=axis, quota=f"acme.{axis}")


@pytest.mark.parametrize(
    ("axis", "name", "remedy"),
    [
        (Axis.REQUESTS, "requests-per-minute", "send fewer requests"),
        (Axis.TOKENS, "tokens-per-minute", f"{PROMPT} or {OUTPUT} {RESERVED}"),
        (Axis.INPUT_TOKENS, "input-tokens-per-minute", PROMPT),
        (Axis.OUTPUT_TOKENS, "output-tokens-per-minute", f"{OUTPUT} {RESERVED}"),
    ],
)
def test_exhausted(axis: Axis, name: str, remedy: str) -> None:
    """A message names the limit, all its figures, the wait, and another way out."""
    text = wording.exhausted(QuotaExhausted("acme", (failure(axis),)))

    assert text.startswith(f"Tenant acme is over its {name} limit: this request needs")
    for part in ("8,200", "60,000", "41,000 are used", "19,000 are held", "in 8.2 s"):
        assert part in text
    assert f"quota acme.{axis} (tenant=acme)" in text
    assert "30,000 come back a minute" in text
    assert text.endswith(f" s, or {remedy}.")


def test_exhausted_by_others() -> None:
    """A limit that tenants share is not called the tenant's."""
    shared = replace(failure(Axis.TOKENS), partition="provider=openai")
    text = wording.exhausted(QuotaExhausted("acme", (shared,)))

    assert text.startswith("Tenant acme is over a shared tokens-per-minute limit: ")
    own = replace(shared, partition="user=u,tenant=acme")
    assert " is over its " in wording.exhausted(QuotaExhausted("acme", (own,)))


def test_exhausted_slots() -> None:
    """A message about slots says how many are taken, and that the wait is a guess."""
    slots = replace(
        failure(Axis.CONCURRENCY), capacity=8, used=0, reserved=8, wait_ms=2_000
    )

    assert wording.exhausted(QuotaExhausted("acme", (slots,))) == (
        "Tenant acme is over its concurrency limit: 8 of the 8 requests that quota "
        "acme.concurrency (tenant=acme) allows at once are in flight. Retry when one "
        "of them ends, in about 2 s, or send fewer requests at once."
    )


def test_one_request() -> None:
    """A single request is told in the singular."""
    one = replace(failure(Axis.REQUESTS), requested=1)

    assert "needs 1 request, and" in wording.exhausted(QuotaExhausted("acme", (one,)))


def test_others_are_named() -> None:
    """Further limits are named, a few of them."""
    two = QuotaExhausted("acme", (failure(Axis.TOKENS), failure(Axis.REQUESTS)))
    many = QuotaExhausted("acme", (failure(Axis.TOKENS),) * 9)

    assert wording.exhausted(two).endswith(
        " Also over: quota acme.requests_per_minute (tenant=acme)."
    )
    assert wording.exhausted(many).endswith(" and 5 more.")


@pytest.mark.parametrize(
    ("axis", "needs", "remedy"),
    [
        (Axis.TOKENS, "130,000 tokens", f"{PROMPT} or {OUTPUT}"),
        (Axis.INPUT_TOKENS, "130,000 input tokens", PROMPT),
        (Axis.OUTPUT_TOKENS, "130,000 output tokens", OUTPUT),
    ],
)
def test_unsatisfiable(axis: Axis, needs: str, remedy: str) -> None:
    """A request that never fits is told so, and what would make it fit: no more."""
    never = Unsatisfiable("acme.tpm", axis, "tenant=acme", 60_000, 130_000, 60_000)
    text = wording.unsatisfiable(never)

    assert f"needs {needs}," in text
    assert "never holds more than 60,000" in text
    assert "waiting can't help" in text
    assert f"To make it fit, {remedy}, or have the quota's capacity raised." in text


@pytest.mark.parametrize(
    ("wait_ms", "text"),
    [
        (-1, "0.1 s"),
        (0, "0.1 s"),
        (1, "0.1 s"),
        (700, "0.7 s"),
        (701, "0.8 s"),
        (1_000, "1 s"),
        (8_200, "8.2 s"),
        (9_999, "10 s"),
        (10_001, "11 s"),
        (125_000, "125 s"),
    ],
)
def test_seconds(wait_ms: int, text: str) -> None:
    """Waits are rounded up, so that who waits as told succeeds."""
    assert wording.seconds(wait_ms) == text


@given(st.text(), st.integers(1, 60))
def test_clean(text: str, limit: int) -> None:
    """What is quoted is one bounded line that can be written as UTF-8."""
    shown = wording.clean(text, limit)

    assert len(shown) <= limit
    assert shown.isprintable()
    assert shown.encode().decode() == shown


def test_clean_keeps_what_is_readable() -> None:
    """Letters of any script stay; what can't be seen goes."""
    assert wording.clean("モデル é") == "モデル é"
    assert wording.clean(NASTY) == 'a"\\[31mz'
    assert wording.clean("x" * 200) == "x" * 127 + "…"


def test_paths_lose_their_query() -> None:
    """S08: a key in a query or a fragment is not shown again."""
    text = wording.path_not_metered("/v1/audio?key=sk-CANARY3#CANARY")

    assert '"/v1/audio"' in text
    assert "CANARY" not in text


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/V1/Chat/Completions", "/v1/chat/completions"),
        ("/openai/v1/chat/completions?key=1", "/v1/chat/completions"),
        ("/messages", "/v1/messages"),
        ("/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/models", "/v1/models"),
    ],
)
def test_a_wrong_base_url_is_recognised(path: str, meant: str) -> None:
    """Who left /v1 out of a base URL, or has it twice, is told of the base URL."""
    text = wording.path_not_metered(path)

    assert f'Was "{meant}" meant?' in text
    assert "base URL of OpenAI's SDKs ends in /v1" in text


@pytest.mark.parametrize(
    "path",
    ["/v1/moderations", "/v1/threads/t/messages", "/v1/models", "/", "", "x/models"],
)
def test_other_paths_are_no_wrong_base_url(path: str) -> None:
    """A path that is another API's is not taken for one of ours."""
    assert "meant?" not in wording.path_not_metered(path)


def test_the_rest() -> None:
    """Each message names what it is about."""
    assert '"gpt-9"' in wording.model_not_allowed("gpt-9")
    assert '"br"' in wording.encoding_not_metered("br")
    assert "8,388,608 bytes" in wording.body_too_large(8 * 1024 * 1024)
