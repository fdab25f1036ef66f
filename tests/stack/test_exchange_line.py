"""The log's lines, for people."""

from __future__ import annotations

import json
import re

import pytest

from tokenweir.stack.denial import REQUEST_ID
from tokenweir.stack.exchange_line import readable
from tokenweir.stack.terminal import Style

TIME = "2026-05-04T12:34:56.789Z"
SUBJECT = {"tenant": "demo", "model": "gpt-4o-mini", "route": "chat_completions"}
ADMITTED = {
    **SUBJECT,
    "decision": "admitted",
    "status": 200,
    "outcome": "completed",
    "source": "reported",
    "attempts": 1,
    "tokens": {"total_input_tokens": 1200, "total_output_tokens": 34},
    "duration_ms": 1234,
}
REFUSED = {
    **SUBJECT,
    "decision": "refused",
    "reason": "quota_exhausted",
    "limit": "tokens_per_minute",
    "quota": "demo.tokens_per_minute",
    "requested": 16_010,
    "wait_ms": 8200,
}


def show(event: str = "exchange", /, **fields: object) -> tuple[str, Style]:
    """Return what is shown of an event, without its time of day."""
    line = json.dumps({"time": TIME, "level": "info", "event": event, **fields})
    shown = readable(line)
    assert shown is not None
    text, style = shown
    clock, _, rest = text.partition(" ")
    assert re.fullmatch(r"\d\d:\d\d:56", clock)
    return re.sub(" +", " ", rest), style


def test_an_answer_tells_tokens_source_and_time() -> None:
    """Of an exchange that went well: who, what, how much, how long."""
    assert show(**ADMITTED) == (
        "demo gpt-4o-mini chat_completions 200, 1,200 in, 34 out (reported), 1.23 s",
        Style.PLAIN,
    )


def test_a_stream_tells_its_first_token() -> None:
    """The time to the first token stands beside the whole."""
    text, _ = show(**ADMITTED, first_token_ms=56)

    assert text.endswith("1.23 s, first token after 0.06 s")


def test_long_times_are_in_whole_seconds() -> None:
    """Nobody reads hundredths of a minute."""
    text, _ = show(**{**ADMITTED, "duration_ms": 61_300})

    assert text.endswith(", 61 s")


def test_what_is_out_of_the_ordinary_is_told() -> None:
    """An early end, retries, flags and shadow mode are named."""
    text, style = show(
        **{**ADMITTED, "outcome": "cut", "attempts": 3, "source": "counted"},
        flags=["ledger_open"],
        shadowed=["demo.requests_per_minute"],
    )

    assert text.endswith(
        "34 out (counted), 1.23 s, cut, 3 attempts, ledger_open, "
        "shadow: demo.requests_per_minute"
    )
    assert style is Style.WARNING


def test_a_provider_s_refusal_is_an_error() -> None:
    """An error status stands out."""
    text, style = show(**{**ADMITTED, "status": 500})

    assert " 500, " in text
    assert style is Style.ERROR


def test_a_refusal_names_the_limit_and_the_wait() -> None:
    """Which limit, what was needed, and how long to wait."""
    text, style = show(**REFUSED)

    assert text.endswith(
        " REFUSED by demo.tokens_per_minute, needs 16,010, fits in 8.20 s"
    )
    assert style is Style.REFUSED


def test_the_stack_s_own_call_is_not_told() -> None:
    """Nobody has made it; an app that borrows its id is told if it is served."""
    self_test = {**REFUSED, "request_id": REQUEST_ID}

    assert readable(json.dumps({"event": "exchange", **self_test})) is None
    assert " 200, " in show(**{**ADMITTED, "request_id": REQUEST_ID})[0]


def test_what_never_fits_has_no_wait() -> None:
    """Of a request that no wait helps, just that is said."""
    fields = {key: value for key, value in REFUSED.items() if key != "wait_ms"}
    text, _ = show(**fields)

    assert text.endswith("tokens_per_minute, needs 16,010, never fits")


def test_one_request_is_no_news() -> None:
    """Of requests, one is needed by each: that is not repeated."""
    text, _ = show(**{**REFUSED, "requested": 1})

    assert text.endswith("REFUSED by demo.tokens_per_minute, fits in 8.20 s")


def test_other_refusals_tell_their_reason() -> None:
    """Without a limit the reason is all; what is not known is a dash."""
    assert show(decision="refused", reason="unknown_key") == (
        "- - - REFUSED unknown_key",
        Style.REFUSED,
    )


def test_the_cost_is_told_exactly() -> None:
    """Money stands behind the tokens that it is for; what cost nothing tells none."""
    told, _ = show(**ADMITTED, cost_nanousd=200_400)
    free, _ = show(**ADMITTED, cost_nanousd=0)

    assert told.endswith(" 200, 1,200 in, 34 out (reported), $0.0002004, 1.23 s")
    assert free.endswith(" 200, 1,200 in, 34 out (reported), 1.23 s")


def test_a_downgrade_is_told() -> None:
    """Who asked for another model sees which."""
    text, style = show(**ADMITTED, downgraded_from="gpt-4o", flags=["unpriced"])

    assert text.endswith("1.23 s, downgraded from gpt-4o, unpriced")
    assert style is Style.PLAIN


def test_a_downgrade_that_did_not_help_is_told() -> None:
    """A refusal at the end of a chain is not of the model that was asked for."""
    text, _ = show(**REFUSED, downgraded_from="gpt-4o")

    assert text.endswith("fits in 8.20 s, downgraded from gpt-4o")


@pytest.mark.parametrize(
    ("wait_ms", "told"),
    [
        (1, "1 min"),
        (119 * 60_000, "119 min"),
        (119 * 60_000 + 1, "2 h"),
        (47 * 3_600_000, "47 h"),
        (47 * 3_600_000 + 1, "2 days"),
        (30 * 86_400_000, "30 days"),
    ],
)
def test_a_spent_budget_tells_when_it_begins_anew(wait_ms: int, told: str) -> None:
    """Money is told as such, and nobody reads a million seconds."""
    text, style = show(
        decision="refused",
        reason="budget_exhausted",
        limit="budget_usd",
        quota="demo.budget_usd_per_day",
        requested=38_400_300,
        wait_ms=wait_ms,
        **SUBJECT,
    )

    assert text.endswith(
        f"REFUSED by demo.budget_usd_per_day, needs $0.0384003, begins anew in {told}"
    )
    assert style is Style.REFUSED


def test_a_budget_in_tokens_is_told_in_tokens() -> None:
    """The unit is the budget's."""
    text, _ = show(**{**REFUSED, "limit": "budget_tokens", "wait_ms": None})

    assert text.endswith("needs 16,010 tokens, never fits")


@pytest.mark.parametrize(
    ("axis", "figures"),
    [
        ("budget_usd", "$0.00000251 of $0.000005"),
        ("budget_tokens", "2,510 tokens of 5,000 tokens"),
        ("unheard_of", "2,510 of 5,000"),
    ],
)
def test_an_alert_tells_how_much_is_spent(axis: str, figures: str) -> None:
    """A budget, whose it is, and its amounts in its unit."""
    assert show(
        "budget_crossed",
        level="warning",
        limit=f"demo.spending|{axis}|tenant=demo",
        percent=50,
        spent=2_510,
        capacity=5_000,
        window_ends_ms=1,
    ) == (f"50% of demo.spending (tenant=demo) are spent: {figures}", Style.WARNING)


def test_an_alert_without_its_fields_is_told() -> None:
    """A field that is missing stops nothing, here too."""
    text, _ = show("budget_crossed")

    assert text == "0% of - (-) are spent: 0 of 0"


def test_who_left_early_is_told() -> None:
    """A client that did not wait for the decision."""
    text, style = show(decision="abandoned", **SUBJECT)

    assert text.endswith("not forwarded: the app left, or Envoy refused it")
    assert style is Style.WARNING


def test_events_are_told_with_their_fields() -> None:
    """What is no exchange is shown as it is, by level, and what it means."""
    assert show("policy_loaded", policy="d678c1c6d8a2") == (
        "policy_loaded policy=d678c1c6d8a2 (in use from now on)",
        Style.NOTE,
    )
    assert show("policy_refused", level="error", problems=["a: b", "c: d"]) == (
        "policy_refused problems=a: b; c: d (the last good policy stays)",
        Style.ERROR,
    )
    assert show("unheard_of", n=1) == ("unheard_of n=1", Style.NOTE)


def test_what_uses_no_tokens_tells_none() -> None:
    """A list of models, or a path that nobody reads, has no figures that are zero."""
    tokens = {"total_input_tokens": 0, "total_tokens": 0}
    fields = {**ADMITTED, "model": "", "tokens": tokens, "route": "models"}

    assert show(**fields)[0] == "demo - models 200, 1.23 s"


@pytest.mark.parametrize(
    "line",
    ["", "Traceback", "[1]", "{}", '{"event": "envoy_current"}', '{"event": null}'],
)
def test_other_lines_are_not_told(line: str) -> None:
    """What is no event, or nothing new, is passed over."""
    assert readable(line) is None


def test_a_line_without_a_time_is_told() -> None:
    """A field that is missing stops nothing."""
    assert readable('{"event": "exchange"}') == (
        f"--:--:-- {'-':<8} {'-':<18} {'-':<16} -, 0.00 s",
        Style.PLAIN,
    )
