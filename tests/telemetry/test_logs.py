import io
import json
from dataclasses import replace

import pytest

from tests.telemetry.exchanges import ADMITTED, REFUSED, SETTLEMENT, SUBJECT
from tests.telemetry.log_sink import Sink
from tokenweir.core.budget import Crossing
from tokenweir.core.hold import Outcome, Subject
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import (
    EncodingNotMetered,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    PathNotMetered,
    QuotaFailure,
    Rejection,
    UnknownKey,
    Unsatisfiable,
)
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.core.window import Window
from tokenweir.telemetry.hooks import Delivery, ExchangeDetails, Origin
from tokenweir.telemetry.logs import JsonLog, Level, UserIds
from tokenweir.telemetry.throttle import MOST_LINES, WINDOW_S


@pytest.fixture
def sink() -> Sink:
    """Return a log with default settings."""
    return Sink()


# === exchanges ====================================================================


def test_admitted_golden(sink: Sink) -> None:
    """An admitted exchange tells who, what, by whom, how much and how long."""
    sink.log(ADMITTED)

    assert sink.line() == {
        "time": "2026-01-01T12:00:00.500Z",
        "level": "info",
        "event": "exchange",
        "request_id": "req-1",
        "tenant": "acme",
        "key_id": "acme-ci",
        "user": "bab2ad031c40c31e",
        "route": "chat_completions",
        "model": "gpt-4o-mini",
        "provider": "openai",
        "policy": "0123456789ab",
        "method": "POST",
        "decision": "admitted",
        "hold_id": "1-18f-abc",
        "status": 200,
        "outcome": "completed",
        "source": "reported",
        "attempts": 2,
        "tokens": {
            "input_tokens": 100,
            "cached_input_tokens": 20,
            "output_tokens": 30,
            "reasoning_tokens": 5,
            "total_input_tokens": 120,
            "total_output_tokens": 35,
            "total_tokens": 155,
        },
        "cost_nanousd": 33_000,
        "duration_ms": 1500,
        "answered_model": "gpt-4o-mini-2024-07-18",
        "first_token_ms": 240,
        "governor_ms": 3.25,
        "ledger_ms": 1.5,
    }


def test_refused_golden(sink: Sink) -> None:
    """A refused exchange tells the reason, the worst quota, and all that failed."""
    sink.log(REFUSED)
    line = sink.line()

    assert {
        name: line.get(name)
        for name in ("level", "decision", "reason", "limit", "quota", "requested")
    } == {
        "level": "info",
        "decision": "refused",
        "reason": "quota_exhausted",
        "limit": "tokens_per_minute",
        "quota": "acme.tokens_per_minute",
        "requested": 8_200,
    }
    assert line["wait_ms"] == 8_200
    assert line["failed_quotas"] == [
        "acme.tokens_per_minute",
        "acme.requests_per_minute",
    ]
    assert "hold_id" not in line
    assert "tokens" not in line


def test_unsatisfiable(sink: Sink) -> None:
    """A request that can never fit names its quota, and no wait."""
    never = Unsatisfiable("acme.tpm", Axis.TOKENS, "tenant=acme", 60_000, 130_000)
    sink.log(replace(REFUSED, rejection=never))
    line = sink.line()

    assert line["reason"] == "request_exceeds_limit"
    assert line["quota"] == "acme.tpm"
    assert line["limit"] == "tokens_per_minute"
    assert line["requested"] == 130_000
    assert "wait_ms" not in line


@pytest.mark.parametrize(
    ("rejection", "level"),
    [
        (InternalFault(1), "error"),
        (LedgerUnavailable(1), "warning"),
        (Malformed("no"), "info"),
    ],
)
def test_level_of_refusals(sink: Sink, rejection: Rejection, level: str) -> None:
    """Refusals that are our fault are louder than those that are the client's."""
    sink.log(replace(REFUSED, rejection=rejection))

    assert sink.line()["level"] == level


def test_what_is_not_known_is_left_out(sink: Sink) -> None:
    """Parts that an exchange did not reach have no field, instead of empty ones."""
    sink.log(
        replace(
            ADMITTED,
            subject=replace(SUBJECT, tenant="", user="", model="", provider=""),
            settlement=replace(SETTLEMENT, model=None, first_token_ms=None),
        )
    )

    assert not {"tenant", "user", "model", "provider", "answered_model"} & set(
        sink_line := sink.line()
    )
    assert "first_token_ms" not in sink_line
    assert "flags" not in sink_line


def test_what_was_changed_and_saved(sink: Sink) -> None:
    """A line tells it of those exchanges that it is true of."""
    subject = replace(SUBJECT, capped_from="unset", output_cap="300")
    settlement = replace(SETTLEMENT, saved_nanousd=5, cap_saved_nanousd=7)
    sink.log(replace(ADMITTED, subject=subject, settlement=settlement))
    line = sink.line()

    assert (line["capped_from"], line["output_cap"]) == ("unset", "300")
    assert (line["saved_nanousd"], line["cap_saved_nanousd"]) == (5, 7)


def test_implausible_report(sink: Sink) -> None:
    """A report that was not believed is worth a warning."""
    flagged = replace(SETTLEMENT, flags=("implausible_report",))
    sink.log(replace(ADMITTED, settlement=flagged))

    assert sink.line()["level"] == "warning"


def test_flags_and_shadow(sink: Sink) -> None:
    """Flags are told, and quotas in shadow mode that would have refused."""
    shadow = QuotaFailure("acme.trial", Axis.TOKENS, "-", 1, 1, 0, 1, 1, shadow=True)
    settlement = replace(
        SETTLEMENT,
        usage=TokenUsage(),
        source=Source.ESTIMATED,
        outcome=Outcome.DRAINED,
        flags=("ledger_open",),
    )
    sink.log(replace(ADMITTED, shadowed=(shadow,), settlement=settlement))
    line = sink.line()

    assert line["flags"] == ["ledger_open"]
    assert line["shadowed"] == ["acme.trial"]
    assert line["outcome"] == "drained"
    assert line["tokens"] == {
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "total_tokens": 0,
    }


# === floods =======================================================================


def test_strangers_do_not_flood_the_log(sink: Sink) -> None:
    """Calls with unknown keys share a few lines in ten seconds; no other line suffers."""
    subject = Subject("", "", "", "chat_completions", "", "")
    stranger = ExchangeDetails(subject, "POST", "", UnknownKey("no"), None)
    for _ in range(1_000):
        sink.log(stranger)
    sink.log(ADMITTED)
    sink.clock.now_s += WINDOW_S
    sink.log(stranger)
    sink.log(stranger)
    lines = sink.lines()

    assert len(lines) == MOST_LINES + 3
    assert [line.get("left_out") for line in lines if "reason" in line] == (
        [None] * MOST_LINES + [1_000 - MOST_LINES, None]
    )


def test_faults_do_not_flood_the_log(sink: Sink) -> None:
    """What breaks at each call is told a few times in ten seconds; all kinds are."""
    for _ in range(100):
        sink.log.fault("request", ValueError())
        sink.log.fault("response", ValueError())
        sink.log.fault("request", KeyError())
    sink.clock.now_s += WINDOW_S
    sink.log.fault("request", KeyError())
    lines = sink.lines()

    assert len(lines) == 3 * MOST_LINES + 1
    assert lines[-1]["left_out"] == 100 - MOST_LINES
    assert "left_out" not in lines[0]


# === end users ====================================================================


def test_user_ids_are_hashed() -> None:
    """A user's id is told as a short hash: the same within a tenant only."""
    sink = Sink()
    sink.log(ADMITTED)
    sink.log(ADMITTED)
    sink.log(replace(ADMITTED, subject=replace(SUBJECT, tenant="other")))
    first, second, other = [line["user"] for line in sink.lines()]

    assert first == second != other
    assert len(first) == 16


def test_user_ids_stay_out_of_partitions(sink: Sink) -> None:
    """A quota that is kept by user does not bring the user's id in by its partition."""
    sink.log(REFUSED)

    assert "ann@example.org" not in sink.text()


@pytest.mark.parametrize(
    ("user_ids", "user"), [(UserIds.PLAIN, "ann@example.org"), (UserIds.OMITTED, None)]
)
def test_user_ids_by_choice(user_ids: UserIds, user: str | None) -> None:
    """An operator may have users' ids in plain text, or not at all."""
    sink = Sink(user_ids)
    sink.log(ADMITTED)

    assert sink.line().get("user") == user


# === one line =====================================================================


@pytest.mark.parametrize("model", ["a\nb", "a\u2028b\u0085c", "\ud800", "x" * 100_000])
def test_one_bounded_line(sink: Sink, model: str) -> None:
    """Whatever a client names a model, a line is one line of ASCII and not long."""
    sink.log(replace(ADMITTED, subject=replace(SUBJECT, model=model)))
    text = sink.text()

    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert len(text) < 3_000
    assert json.loads(text)["model"][:3] == model[:3]


@pytest.mark.parametrize(
    "rejection",
    [
        Malformed("sk-CANARY1", "CANARY2"),
        UnknownKey("sk-CANARY1"),
        PathNotMetered("/v1/x?key=CANARY3"),
        EncodingNotMetered("CANARY2"),
        ModelNotAllowed("sk-CANARY1"),
    ],
)
def test_no_canary_in_refusals(sink: Sink, rejection: Rejection) -> None:
    """S08: what a client sent does not come back in the log with its refusal."""
    sink.log(replace(REFUSED, rejection=rejection))

    assert "CANARY" not in sink.text()


# === events =======================================================================


def test_fault(sink: Sink) -> None:
    """S08: a fault is told by type and place, never by its text."""
    try:
        int("sk-CANARY1")
    except ValueError as error:
        sink.log.fault("request", error)
    text = sink.text()
    line = json.loads(text)

    assert "CANARY" not in text
    assert (line["event"], line["level"]) == ("fault", "error")
    assert (line["where"], line["error"]) == ("request", "ValueError")
    assert line["place"][0].startswith("telemetry/test_logs.py:")


def test_ledger_failures_share_a_line(sink: Sink) -> None:
    """A ledger that is down gives a line in ten seconds, with the number since."""
    sink.log.ledger_call("reserve", 0.001, failed=False)
    for _ in range(3):
        sink.log.ledger_call("reserve", 0.25, failed=True, reason="TimeoutError")
    sink.clock.now_s += 10
    sink.log.ledger_call("settle", 0.5, failed=True, reason="ReadOnlyError")
    first, second = sink.lines()

    assert first["event"] == second["event"] == "ledger_failed"
    assert (first["verb"], first["failures"]) == ("reserve", 1)
    assert (first["reason"], second["reason"]) == ("TimeoutError", "ReadOnlyError")
    assert (second["verb"], second["failures"], second["seconds"]) == ("settle", 3, 0.5)


def test_eviction_is_told_when_it_changes(sink: Sink) -> None:
    """A server that would drop keys is a warning, once; one that does not is no news."""
    for policy in ("", "allkeys-lru", "allkeys-lru", "volatile-ttl", "", ""):
        sink.log.ledger_evicts(policy)

    assert [(line["level"], line["policy"]) for line in sink.lines()] == [
        ("warning", "allkeys-lru"),
        ("warning", "volatile-ttl"),
        ("info", "noeviction"),
    ]


def test_spool(sink: Sink) -> None:
    """The spool is told of when it begins to fill and when it is empty again."""
    for waiting in (0, 1, 5, 3, 0, 0):
        sink.log.spool_size(waiting)

    assert [(line["event"], line["level"]) for line in sink.lines()] == [
        ("spool_filling", "warning"),
        ("spool_empty", "info"),
    ]


def test_reaped_holds(sink: Sink) -> None:
    """Lost holds are a warning; none lost is no news."""
    sink.log.holds_reaped(0)
    sink.log.holds_reaped(4)
    line = sink.line()

    assert (line["event"], line["level"], line["count"]) == (
        "holds_reaped",
        "warning",
        4,
    )


def test_budgets(sink: Sink) -> None:
    """What is spent of a budget is told with its window's end."""
    sink.log.budget_crossed(Crossing("acme.day|tenant=acme", 80, 82, 100, Window(0, 9)))
    line = sink.line()

    assert (line["event"], line["level"]) == ("budget_crossed", "warning")
    assert (line["limit"], line["percent"]) == ("acme.day|tenant=acme", 80)
    assert (line["spent"], line["capacity"], line["window_ends_ms"]) == (82, 100, 9)


def test_webhook(sink: Sink) -> None:
    """What it has not taken is told, and not too often; what it has taken is not."""
    sink.log.webhook(Delivery.DELIVERED, 2)
    for _ in range(50):
        sink.log.webhook(Delivery.FAILED, 3, "status_500")
    sink.log.webhook(Delivery.DROPPED, 2, "too_old")
    lines = sink.lines()

    told = [(line["event"], line["level"], line["reason"]) for line in lines]
    assert told[:-1] == [("webhook_failed", "warning", "status_500")] * 20
    assert told[-1] == ("webhook_dropped", "error", "too_old")
    assert lines[0]["waiting"] == 3


def test_published_policies(sink: Sink) -> None:
    """Of what was published it is told who did it, and when."""
    origin = Origin("ledger", 7, "ann", 1_767_268_800_000, "why not", keys_version=3)
    sink.log.policy_loaded("0123456789ab", origin)
    (line,) = sink.lines()

    assert (line["source"], line["version"], line["by"]) == ("ledger", 7, "ann")
    assert line["published_at"] == "2026-01-01T12:00:00.000Z"
    assert line["keys_version"] == 3


def test_policies(sink: Sink) -> None:
    """A policy in use is told by its digest, a refused one by its problems."""
    sink.log.policy_loaded("0123456789ab")
    sink.log.policy_refused(tuple(f"tenants.t{n}: bad" for n in range(30)))
    loaded, refused = sink.lines()

    assert (loaded["event"], loaded["policy"]) == ("policy_loaded", "0123456789ab")
    assert loaded["source"] == "file"
    assert "version" not in loaded
    assert (refused["event"], refused["level"]) == ("policy_refused", "error")
    assert refused["count"] == 30
    assert refused["problems"][0] == "tenants.t0: bad"
    assert len(refused["problems"]) == 20


def test_envoy_rendering(sink: Sink) -> None:
    """What Envoy has to be rendered anew for is a warning, its end is not."""
    sink.log.envoy_rendering(tuple(f"providers.p{n}" for n in range(30)))
    sink.log.envoy_rendering(())
    outdated, current = sink.lines()

    assert (outdated["event"], outdated["level"]) == ("envoy_outdated", "warning")
    assert outdated["stale"][:2] == ["providers.p0", "providers.p1"]
    assert (len(outdated["stale"]), outdated["count"]) == (20, 30)
    assert (current["event"], current["level"]) == ("envoy_current", "info")


def test_quotas_ineffective(sink: Sink) -> None:
    """They are told once for a policy, and again when they change; the first twenty."""
    many = {f"acme.q{n}": "outdone" for n in range(30)}
    for digest, found in (
        ("0123456789ab", {}),
        ("0123456789ab", {"acme.tpm": "misspelt"}),
        ("0123456789ab", {"acme.tpm": "misspelt"}),
        ("ba9876543210", {"acme.tpm": "misspelt"}),
        ("ba9876543210", many),
        ("ba9876543210", {}),
    ):
        sink.log.quotas_ineffective(digest, found)
    first, second, third = sink.lines()

    assert (first["event"], first["level"]) == ("quotas_ineffective", "warning")
    assert first["policy"] == "0123456789ab"
    assert (first["quotas"], first["count"]) == ({"acme.tpm": "misspelt"}, 1)
    assert second["policy"] == "ba9876543210"
    assert (len(third["quotas"]), third["count"]) == (20, 30)


def test_libraries(sink: Sink) -> None:
    """What a library logged becomes a line."""
    sink.log.library({"logger": "asyncio", "severity": "error", "at": "x.py:1"})
    line = sink.line()

    assert (line["event"], line["level"]) == ("library", "warning")
    assert line["logger"] == "asyncio"


def test_own_events(sink: Sink) -> None:
    """Whoever starts the processor can write lines too."""
    sink.log.event("started", Level.INFO, workers=2)

    assert sink.line()["workers"] == 2


def test_standard_output_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a stream, lines go to standard output."""
    log = JsonLog()
    log.policy_loaded("0123456789ab")
    assert log.close(30)

    assert json.loads(capsys.readouterr().out)["event"] == "policy_loaded"


def test_dropped_lines_are_told() -> None:
    """Lines that had to be dropped are counted, and a line says how many."""
    dropped: list[int] = []
    log = JsonLog(io.StringIO(), on_dropped=lambda: dropped.append(1))
    log.close(30)
    log.policy_loaded("late")

    assert len(dropped) == 1
    gap = json.loads(log._gap(7))
    assert (gap["event"], gap["count"]) == ("lines_dropped", 7)
