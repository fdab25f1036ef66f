from collections.abc import Mapping

import pytest

from tests.telemetry.exchanges import ADMITTED
from tokenweir.core.budget import Crossing
from tokenweir.core.window import Window
from tokenweir.telemetry.fanout import Fanout
from tokenweir.telemetry.hooks import FROM_FILE, Delivery, ExchangeDetails, Origin


class Recorder:
    """Notes each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, details: ExchangeDetails) -> None:
        self.calls.append(("exchange", details))

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        self.calls.append(("ledger_call", verb, seconds, failed, reason))

    def ledger_evicts(self, policy: str) -> None:
        self.calls.append(("ledger_evicts", policy))

    def holds_reaped(self, count: int) -> None:
        self.calls.append(("holds_reaped", count))

    def budget_crossed(self, crossing: Crossing) -> None:
        self.calls.append(("budget_crossed", crossing))

    def spool_size(self, waiting: int) -> None:
        self.calls.append(("spool_size", waiting))

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        self.calls.append(("policy_loaded", digest, origin))

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        self.calls.append(("policy_refused", problems))

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        self.calls.append(("webhook", outcome, waiting, reason))

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        self.calls.append(("envoy_rendering", stale))

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:
        self.calls.append(("quotas_ineffective", digest, found))

    def fault(self, where: str, error: BaseException) -> None:
        self.calls.append(("fault", where, error))


class Broken(Recorder):
    """Raises at each call."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __call__(self, details: ExchangeDetails) -> None:
        raise RuntimeError(details)


ERROR = ValueError()
CROSSING = Crossing("acme.budget_usd|tenant=acme", 80, 82, 100, Window(0, 9))
CALLS: list[tuple[object, ...]] = [
    ("exchange", ADMITTED),
    ("ledger_call", "reserve", 0.25, True, "TimeoutError"),
    ("ledger_evicts", "allkeys-lru"),
    ("holds_reaped", 3),
    ("budget_crossed", CROSSING),
    ("spool_size", 4),
    ("policy_loaded", "0123456789ab", FROM_FILE),
    ("policy_refused", ("tenants: missing",)),
    ("envoy_rendering", ("retries",)),
    ("quotas_ineffective", "0123456789ab", {"acme.tpm": "outdone"}),
    ("webhook", Delivery.FAILED, 3, "status_500"),
    ("fault", "request", ERROR),
]


def call_all(fanout: Fanout) -> None:
    """Make every call once."""
    fanout(ADMITTED)
    fanout.ledger_call("reserve", 0.25, failed=True, reason="TimeoutError")
    fanout.ledger_evicts("allkeys-lru")
    fanout.holds_reaped(3)
    fanout.budget_crossed(CROSSING)
    fanout.spool_size(4)
    fanout.policy_loaded("0123456789ab")
    fanout.policy_refused(("tenants: missing",))
    fanout.envoy_rendering(("retries",))
    fanout.quotas_ineffective("0123456789ab", {"acme.tpm": "outdone"})
    fanout.webhook(Delivery.FAILED, 3, "status_500")
    fanout.fault("request", ERROR)


def test_every_sink_gets_every_call() -> None:
    """Each call reaches each sink, with its arguments."""
    first, second = Recorder(), Recorder()

    call_all(Fanout([first, second]))

    assert first.calls == CALLS
    assert second.calls == CALLS


def test_budgets_are_told_of_besides() -> None:
    """Whoever is no sink can hear of budgets, broken sinks or not."""
    told: list[Crossing] = []

    call_all(Fanout([Broken()], on_crossing=told.append))

    assert told == [CROSSING]


def test_exchanges_are_told_besides() -> None:
    """Whoever is no sink can hear of exchanges, broken sinks or not."""
    hearer = Recorder()

    call_all(Fanout([Broken()], on_end=hearer))

    assert hearer.calls == [("exchange", ADMITTED)]


def test_who_hears_of_exchanges_may_break() -> None:
    """It is counted like a sink, and stops nothing."""
    behind = Recorder()
    errors: list[str] = []

    call_all(Fanout([behind], errors.append, on_end=Broken()))

    assert behind.calls == CALLS
    assert errors == ["Broken"]


def test_a_broken_sink_stops_no_other() -> None:
    """What a sink raises is counted, and the sinks behind it are called."""
    behind = Recorder()
    errors: list[str] = []

    call_all(Fanout([Broken(), behind], errors.append))

    assert behind.calls == CALLS
    assert errors == ["Broken"] * len(CALLS)


def test_the_count_may_break_too() -> None:
    """A counter of errors that raises itself stops nothing either."""

    def broken(_: str) -> None:
        raise RuntimeError

    behind = Recorder()
    call_all(Fanout([Broken(), behind], broken))

    assert behind.calls == CALLS


def test_cancellation_passes() -> None:
    """What is no error of a sink, such as an interrupt, is not swallowed."""

    class Interrupted(Recorder):
        def __call__(self, details: ExchangeDetails) -> None:
            raise KeyboardInterrupt(details)

    with pytest.raises(KeyboardInterrupt):
        Fanout([Interrupted()])(ADMITTED)
