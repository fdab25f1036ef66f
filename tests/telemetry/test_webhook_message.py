"""What is told of a budget has an id of its own, and can be checked by anybody."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from tests.telemetry.receiver import SECRET, is_signed
from tokenweir.core.budget import Crossing
from tokenweir.core.policy import Secret
from tokenweir.core.window import Window
from tokenweir.telemetry.webhook_message import headers_of, message_of

DAY = Window(1_767_225_600_000, 1_767_312_000_000)
CROSSING = Crossing(
    "acme.budget_usd_per_day|budget_usd|tenant=acme,model=gpt|4o", 80, 82, 100, DAY
)
AT_S = 1_767_268_800.25


def test_a_message() -> None:
    """Whose budget, which threshold, how much, and until when."""
    message = message_of(CROSSING, AT_S)

    assert json.loads(message.body) == {
        "type": "budget.threshold_passed",
        "id": message.id,
        "at": "2026-01-01T12:00:00.250Z",
        "tenant": "acme",
        "quota": "acme.budget_usd_per_day",
        "partition": "tenant=acme,model=gpt|4o",
        "threshold_percent": 80,
        "unit": "nanousd",
        "spent": 82,
        "capacity": 100,
        "window": {
            "begins_at": "2026-01-01T00:00:00.000Z",
            "ends_at": "2026-01-02T00:00:00.000Z",
        },
    }


@pytest.mark.parametrize(
    ("limit", "tenant", "unit"),
    [
        ("*.all|budget_tokens|provider=openai", None, "tokens"),
        ("acme.x|budget_tokens|sha256:abc", None, "tokens"),
        ("no key of ours", None, "tokens"),
        ("acme.x|budget_usd|tenant=acme", "acme", "nanousd"),
    ],
)
def test_whose_it_is(limit: str, tenant: str | None, unit: str) -> None:
    """A tenant's, or one that tenants share; whatever it is, it is told."""
    told = json.loads(message_of(replace(CROSSING, limit=limit), AT_S).body)

    assert (told["tenant"], told["unit"]) == (tenant, unit)


def test_an_id_is_of_what_happened() -> None:
    """Told again it is the same; another threshold, budget or window has another."""
    again = replace(CROSSING, spent=99)
    others = (
        replace(CROSSING, percent=95),
        replace(CROSSING, limit="other|budget_usd|tenant=acme"),
        replace(CROSSING, window=Window(DAY.end_ms, DAY.end_ms + 1)),
    )

    assert message_of(again, AT_S + 5).id == message_of(CROSSING, AT_S).id
    assert len({message_of(each, AT_S).id for each in (CROSSING, *others)}) == 4


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (SECRET, SECRET.encode()),
        ("whsec_" + base64.b64encode(b"\x00\xffkey").decode(), b"\x00\xffkey"),
        ("whsec_no*base64", b"whsec_no*base64"),
    ],
)
def test_a_signature(secret: str, key: bytes) -> None:
    """It is over id, time and body; the secret itself is not sent."""
    message = message_of(CROSSING, AT_S)
    headers = headers_of(message, Secret(secret), AT_S + 60)

    assert is_signed(headers, message.body, key)
    assert not is_signed(headers, message.body + b" ", key)
    assert not is_signed({**headers, "webhook-timestamp": "1"}, message.body, key)
    assert not is_signed(headers, message.body, b"other")
    assert headers["webhook-timestamp"] == "1767268860"
    assert headers["content-type"] == "application/json"
    assert secret not in str(headers)
