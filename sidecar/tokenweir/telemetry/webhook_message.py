"""
What a webhook is told of a budget, and how that is signed.

The form is that of Standard Webhooks (https://www.standardwebhooks.com): the headers
`webhook-id`, `webhook-timestamp` and `webhook-signature`, so that its libraries can
verify it. The signature is HMAC-SHA256 over ``id.timestamp.body``.

The id is made from what happened, not from when it was told: whoever tells the same
again (a retry, a ledger that was restored to an earlier state) uses the same id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tokenweir.core.budget import Crossing
from tokenweir.core.policy import Axis, Secret

TYPE = "budget.threshold_passed"
# How Standard Webhooks writes secrets: base64 follows.
_SECRET_PREFIX = "whsec_"  # noqa: S105 - this is no secret
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Message:
    """
    One thing that a webhook is told.

    Attributes:
        id: The same each time that it is told.
        body: JSON.
        at_s: When it happened, since 1970.
    """

    id: str
    body: bytes
    at_s: float


def message_of(crossing: Crossing, at_s: float) -> Message:
    """Return what is told of *crossing*, which happened at *at_s*."""
    quota, _, rest = crossing.limit.partition("|")
    axis, _, partition = rest.partition("|")
    name = f"{crossing.limit}|{crossing.window.begin_ms}|{crossing.percent}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    told = {
        "type": TYPE,
        "id": f"budget_{digest[:_ID_DIGITS]}",
        "at": _moment(round(at_s * 1_000)),
        "tenant": _tenant(partition),
        "quota": quota,
        "partition": partition,
        "threshold_percent": crossing.percent,
        "unit": "nanousd" if axis == Axis.BUDGET_USD else "tokens",
        "spent": crossing.spent,
        "capacity": crossing.capacity,
        "window": {
            "begins_at": _moment(crossing.window.begin_ms),
            "ends_at": _moment(crossing.window.end_ms),
        },
    }
    body = json.dumps(told, separators=(",", ":")).encode()
    return Message(str(told["id"]), body, at_s)


def headers_of(message: Message, secret: Secret, now_s: float) -> Mapping[str, str]:
    """Return the headers that *message* is sent with at *now_s*."""
    timestamp = str(int(now_s))
    signed = b".".join((message.id.encode(), timestamp.encode(), message.body))
    mac = hmac.digest(_key(secret), signed, "sha256")
    return {
        "content-type": "application/json",
        "user-agent": "tokenweir",
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def _key(secret: Secret) -> bytes:
    """Return the key that *secret* stands for: what base64 says, or its own bytes."""
    text = secret.reveal()
    if text.startswith(_SECRET_PREFIX):
        try:
            return base64.b64decode(text.removeprefix(_SECRET_PREFIX), validate=True)
        except binascii.Error:
            return text.encode()
    return text.encode()


def _tenant(partition: str) -> str | None:
    """
    Return the tenant that *partition* begins with.

    None: tenants share the limit, or the partition is so long that a hash is in its
    place.
    """
    name, _, value = partition.partition(",")[0].partition("=")
    return value if name == "tenant" else None


def _moment(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
