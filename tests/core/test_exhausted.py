"""What a caller is told whose request does not fit now."""

from dataclasses import replace

from tests.examples import FAILURE, NOW_MS, SUBJECT, frugal_quotas, spent
from tokenweir.core.exhausted import exhausted, never_held, why_not
from tokenweir.core.hold import Amounts, Denied, Hold
from tokenweir.core.limits import parts_of
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import ModelUnpriced, QuotaExhausted, Unsatisfiable

DAY_MS = 86_400_000
MIDNIGHT_MS = NOW_MS - NOW_MS % DAY_MS + DAY_MS
QUOTAS = {quota.id: quota for quota in frugal_quotas()}
HOLD = Hold(
    "0-1-a",
    parts_of(tuple(QUOTAS.values()), {"tenant": "frugal"}, NOW_MS),
    Amounts(1, 30, 700),
    SUBJECT,
)


def test_the_longest_wait_comes_first() -> None:
    """Who waits for it fits into all."""
    later = replace(FAILURE, quota="other", wait_ms=9_000)
    told = exhausted(HOLD, Denied("1", (FAILURE, later)), QUOTAS, NOW_MS)

    assert told.failures == (later, FAILURE)
    assert told.tenant == "acme"
    assert not told.is_budget


def test_a_budget_tells_when_its_window_turns() -> None:
    """To the moment, even if the ledger's clock is a little off."""
    for skew_ms in (-1_500, 0, 1_500):
        failure = replace(
            spent("frugal.cheaper"), wait_ms=MIDNIGHT_MS - NOW_MS + skew_ms
        )
        told = exhausted(HOLD, Denied("1", (failure,)), QUOTAS, NOW_MS)

        assert told.is_budget
        assert told.failures[0].per == "day"
        assert told.failures[0].resets_at_ms == MIDNIGHT_MS


NEVER = Unsatisfiable(
    "frugal.cheaper", Axis.BUDGET_TOKENS, "tenant=frugal", 60_000, 700
)


def test_what_the_asked_model_lacks_is_told() -> None:
    """As long as no other was tried in its place."""
    assert why_not(NEVER, None) == NEVER


def test_what_another_model_lacks_is_not_told() -> None:
    """The app did not ask for it; and once the window turns its own will do."""
    once = QuotaExhausted("frugal", (spent("frugal.cheaper"),))

    for why in (ModelUnpriced("cheap", "model"), NEVER, replace(NEVER, quota="few")):
        assert why_not(why, once) == once


def test_what_no_window_can_hold_is_told() -> None:
    """Then there is no use in waiting for the next one."""
    huge = replace(spent("frugal.cheaper"), requested=50_001)
    once = QuotaExhausted("frugal", (spent("frugal.slower"), huge))
    told = replace(NEVER, capacity=50_000, requested=50_001)

    assert never_held(once) == told
    assert why_not(ModelUnpriced("cheap", "model"), once) == told
    assert why_not(replace(NEVER, quota="few"), once) == told
    assert why_not(NEVER, once) == NEVER  # its hard limit: what would fit
    may_fit = QuotaExhausted("frugal", (FAILURE,))
    assert never_held(may_fit) == may_fit
