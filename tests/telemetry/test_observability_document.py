"""docs/observability.md says what is really logged; metrics: test_instruments."""

import re
from dataclasses import replace
from pathlib import Path

from tests.telemetry.exchanges import ADMITTED, REFUSED, SETTLEMENT
from tests.telemetry.log_sink import Sink
from tokenweir.core.budget import Crossing
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.window import Window
from tokenweir.telemetry.hooks import Delivery, Origin

OBSERVABILITY = Path(__file__).parents[2] / "docs" / "observability.md"


def documented(heading: str) -> set[str]:
    """Return the names in the first column of the table under *heading*."""
    text = OBSERVABILITY.read_text().split(heading)[1].split("\n#")[0]
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_field_is_documented() -> None:
    """The document has every field that an exchange's line can have, and no other."""
    sink = Sink()
    shadow = QuotaFailure("acme.trial", Axis.TOKENS, "-", 1, 1, 0, 1, 1, shadow=True)
    flagged = replace(
        SETTLEMENT, flags=("ledger_open",), saved_nanousd=1, cap_saved_nanousd=1
    )
    subject = replace(
        ADMITTED.subject,
        downgraded_from="gpt-4o",
        capped_from="9",
        output_cap="3",
        path="native",
    )
    admitted = replace(ADMITTED, settlement=flagged, shadowed=(shadow,))
    sink.log(replace(admitted, subject=subject))
    sink.log(REFUSED)
    fields = {name for line in sink.lines() for name in line}

    common = documented("## Logs")
    assert common == {"time", "level", "event"}
    assert documented("### `exchange`") == fields - common


def test_every_event_is_documented() -> None:
    """The document has every event that a log writes by itself."""
    sink = Sink()
    sink.log.ledger_call("reserve", 0.25, failed=True)
    sink.log.holds_reaped(1)
    sink.log.budget_crossed(Crossing("q|tenant=acme", 80, 9, 10, Window(0, 9)))
    sink.log.spool_size(1)
    sink.log.spool_size(0)
    sink.log.policy_loaded("0123456789ab", Origin("ledger", 1, keys_version=1))
    sink.log.policy_refused(("tenants: missing",))
    sink.log.envoy_rendering(("retries",))
    sink.log.envoy_rendering(())
    sink.log.webhook(Delivery.FAILED, 1, "status_500")
    sink.log.webhook(Delivery.DROPPED, 1, "too_old")
    sink.log.fault("request", ValueError())
    sink.log.library({})
    events = {line["event"] for line in sink.lines()} | {"lines_dropped"}

    assert events < documented("### Other lines")
