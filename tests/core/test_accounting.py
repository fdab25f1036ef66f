"""What is charged for what was seen of a response."""

from dataclasses import replace

import pytest

from tests.examples import ticket
from tokenweir.core.accounting import (
    BodySeen,
    counted_usage,
    doubt,
    estimated_output,
    nothing_owed,
    progress,
    refused_before_work,
    reported_usage,
    worst_source,
)
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.events import ResponseHead
from tokenweir.core.usage import Source, TokenUsage

RESET = "upstream_reset_before_response_started"
REPORT = TokenUsage(input_tokens=9, cached_input_tokens=1, output_tokens=5)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 422, 429, 499, 500, 503, 529])
@pytest.mark.parametrize("details", ["", "via_upstream"])
def test_provider_refused(status: int, details: str) -> None:
    """An error status of the provider's own says that it has done no work."""
    assert refused_before_work(ResponseHead(status, (), details=details))


@pytest.mark.parametrize("status", [0, 200, 201, 204, 302, 399])
@pytest.mark.parametrize("details", ["", "via_upstream", "no_healthy_upstream"])
def test_answered(status: int, details: str) -> None:
    """What is no error is an answer, whatever Envoy says beside it."""
    assert not refused_before_work(ResponseHead(status, (), details=details))


@pytest.mark.parametrize(
    "details",
    [
        f"{RESET}{{remote_connection_failure|delayed_connect_error:_Connection_refused}}",
        f"{RESET}{{remote_connection_failure|TLS_error:|268435581:SSL_routines}}",
        f"{RESET}{{local_connection_failure}}",
        f"{RESET}{{connection_timeout}}",
        f"{RESET}{{remote_refused_stream_reset}}",
        f"{RESET}{{overflow}}",
        "no_healthy_upstream",
        "cluster_not_found",
        "route_not_found",
    ],
)
def test_never_sent(details: str) -> None:
    """What Envoy could not send costs no tokens."""
    assert refused_before_work(ResponseHead(503, (), details=details))


@pytest.mark.parametrize(
    "details",
    [
        "response_timeout",
        "upstream_response_timeout",
        "upstream_per_try_timeout",
        "stream_idle_timeout",
        f"{RESET}{{connection_termination}}",
        f"{RESET}{{remote_reset}}",
        f"{RESET}{{remote_reset|remote_connection_failure}}",
        f"{RESET}{{protocol_error|overflow}}",
        f"{RESET}{{}}",
        f"{RESET}{{",
        "something_new",
    ],
)
def test_maybe_worked_on(details: str) -> None:
    """A request that was sent may have been worked on, whatever became of it."""
    assert not refused_before_work(ResponseHead(504, (), details=details))


def test_reported_whole() -> None:
    """A report on the whole answer is what is charged."""
    assert reported_usage(ResponseFacts(usage=REPORT, usage_final=True)) == REPORT


@pytest.mark.parametrize(
    "facts",
    [ResponseFacts(), ResponseFacts(usage=REPORT), ResponseFacts(finished=True)],
)
def test_not_reported_whole(facts: ResponseFacts) -> None:
    """Without a report on the whole answer something has to be counted."""
    assert reported_usage(facts) is None


def test_not_reported() -> None:
    """Without any report the input is owed as estimated, the output as counted."""
    usage = counted_usage(ticket(input_tokens=30), ResponseFacts(), 12)

    assert usage == TokenUsage(input_tokens=30, output_tokens=12)


@pytest.mark.parametrize(("counted", "charged"), [(3, 5), (5, 5), (40, 40)])
def test_reported_in_part(counted: int, charged: int) -> None:
    """A report from the beginning keeps its classes; output is at least as counted."""
    facts = ResponseFacts(
        usage=TokenUsage(input_tokens=9, cached_input_tokens=1, output_tokens=5)
    )
    usage = counted_usage(ticket(), facts, counted)

    assert usage.input_tokens == 9
    assert usage.cached_input_tokens == 1
    assert usage.total_output_tokens == charged


def test_a_correction_makes_no_input_cheaper() -> None:
    """Less may be reserved; without a report the count before corrections is owed."""
    less = replace(ticket(), uncorrected=70)
    none = TokenUsage(output_tokens=5)

    assert ticket().owed_input == 30
    assert counted_usage(less, ResponseFacts(), 5).input_tokens == 70
    assert counted_usage(less, ResponseFacts(usage=none), 5).input_tokens == 70
    assert counted_usage(less, ResponseFacts(usage=REPORT), 5) == REPORT


def test_reasoning_is_not_charged_twice() -> None:
    """What a part report says of reasoning is a part of what was counted."""
    facts = ResponseFacts(usage=TokenUsage(input_tokens=9, reasoning_tokens=30))
    usage = counted_usage(ticket(), facts, 40)

    assert usage.reasoning_tokens == 30
    assert usage.output_tokens == 10


def test_report_without_input() -> None:
    """Input that a report leaves out is owed as estimated."""
    facts = ResponseFacts(usage=TokenUsage(output_tokens=5))
    usage = counted_usage(ticket(input_tokens=30), facts, 0)

    assert usage == TokenUsage(input_tokens=30, output_tokens=5)


@pytest.mark.parametrize(("counted", "charged"), [(99, 99), (100, 100), (101, 100)])
def test_counting_is_capped(counted: int, charged: int) -> None:
    """No count exceeds what the client allowed: a tokenizer may err, the cap not."""
    usage = counted_usage(ticket(output_cap=100), ResponseFacts(), counted)

    assert usage.output_tokens == charged


def test_reports_are_not_capped() -> None:
    """A provider's report stands, also above the cap."""
    facts = ResponseFacts(usage=TokenUsage(input_tokens=9, output_tokens=150))
    usage = counted_usage(ticket(output_cap=100), facts, 120)

    assert usage.output_tokens == 150


def test_cap_of_nothing() -> None:
    """A cap of 0 is a cap, not the absence of one."""
    assert counted_usage(ticket(output_cap=0), ResponseFacts(), 7).output_tokens == 0


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (BodySeen(), 0),
        (BodySeen(1), 1),
        (BodySeen(400), 100),
        (BodySeen(401), 101),
        (BodySeen(40, announced_bytes=400), 100),
        (BodySeen(400, announced_bytes=40), 100),
        (BodySeen(50, encoded=True), 50),
        (BodySeen(0, announced_bytes=50, encoded=True), 50),
        (BodySeen(1_000_000), 200),
        (BodySeen(1_000, encoded=True), 200),
    ],
)
def test_unreadable(body: BodySeen, tokens: int) -> None:
    """A body that can't be read is charged by its size, at most what was reserved."""
    assert estimated_output(ticket(output_tokens=200), body) == tokens


@pytest.mark.parametrize(("route", "tokens"), [("invoke_model", 50), ("embeddings", 0)])
def test_unreadable_where_nothing_was_reserved(route: str, tokens: int) -> None:
    """Where a body and a name alone say that nothing is written, there may be text."""
    asked = replace(
        ticket(output_tokens=0), dialect=route, output_cap=None, max_output_tokens=50
    )

    assert estimated_output(asked, BodySeen(1_000)) == tokens


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ResponseFacts(error="overloaded_error"), True),
        (ResponseFacts(error="overloaded_error", text_bytes=1), False),
        (ResponseFacts(error="overloaded_error", usage=REPORT), True),
        (ResponseFacts(error="x", usage=REPORT, usage_final=True), False),
        (ResponseFacts(error="overloaded_error", hidden=True), False),
        (ResponseFacts(), False),
        (ResponseFacts(finished=True), False),
    ],
)
def test_nothing_owed(facts: ResponseFacts, expected: bool) -> None:
    """
    Only an error before any output and any report of it makes a 200 free.

    A message's start tells how long the input is, and no more (T27).
    """
    assert nothing_owed(facts) is expected


def test_count_without_a_cap() -> None:
    """Where no cap is, no more is counted than the model can generate."""
    capless = replace(ticket(), max_output_tokens=50, choices=3)

    assert counted_usage(capless, ResponseFacts(), 150).output_tokens == 150
    assert counted_usage(capless, ResponseFacts(), 10**6).output_tokens == 150


def test_belief() -> None:
    """A report that can be true stays as it is."""
    facts = ResponseFacts(usage=REPORT, usage_final=True)

    assert not doubt(ticket(), facts, 0)
    assert facts == ResponseFacts(usage=REPORT, usage_final=True)


def test_doubt() -> None:
    """A report that can't be true is as if there were none, and that is told."""
    absurd = replace(REPORT, output_tokens=10**9)
    facts = ResponseFacts(usage=absurd, usage_final=True)

    assert doubt(ticket(), facts, 0)
    assert facts == ResponseFacts(absurd=True)
    assert doubt(ticket(), facts, 0)


def test_doubt_of_a_report_that_was_left_out() -> None:
    """A report that was left out before is told, and what else is known stays."""
    facts = ResponseFacts(usage=REPORT, usage_final=True, absurd=True)

    assert doubt(ticket(), facts, 0)
    assert facts.usage == REPORT


@pytest.mark.parametrize(
    ("facts", "tokens"),
    [
        (ResponseFacts(), 0),
        (ResponseFacts(text_bytes=40), 10),
        (ResponseFacts(text_bytes=40, usage=TokenUsage(output_tokens=3)), 10),
        (ResponseFacts(text_bytes=40, usage=TokenUsage(output_tokens=30)), 30),
        (ResponseFacts(text_bytes=40, usage=TokenUsage(output_tokens=10**9)), 10),
        (ResponseFacts(text_bytes=4_000_000), 100),
    ],
)
def test_progress(facts: ResponseFacts, tokens: int) -> None:
    """Progress is the larger of size and report, within what can be true."""
    assert progress(ticket(output_cap=100), facts, facts.text_bytes) == tokens


@pytest.mark.parametrize("source", Source)
def test_worst_source(source: Source) -> None:
    """Figures over a body that was not read to its end are estimates."""
    assert worst_source(source, ResponseFacts()) is source
    assert worst_source(source, ResponseFacts(unreadable=True)) is Source.ESTIMATED
