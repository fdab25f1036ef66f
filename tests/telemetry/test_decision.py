from dataclasses import replace

import pytest

from tests.telemetry.exchanges import ADMITTED, REFUSED
from tokenweir.telemetry.decision import Decision, decision_of
from tokenweir.telemetry.hooks import ExchangeDetails


@pytest.mark.parametrize(
    ("details", "decision"),
    [
        (ADMITTED, Decision.ADMITTED),
        (REFUSED, Decision.REFUSED),
        (replace(ADMITTED, settlement=None), Decision.ABANDONED),
    ],
)
def test_decision(details: ExchangeDetails, decision: Decision) -> None:
    """An exchange was forwarded, refused, or left by its client before either."""
    assert decision_of(details) is decision
