"""What the policy says about who is told of budgets."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, PlainValidator, WithJsonSchema

from tokenweir.config.entry import Entry
from tokenweir.config.scalar import AbsolutePath, Credential, Duration
from tokenweir.config.webhook_url import URL_PATTERN, parse_webhook_url

# Longer, and those who wait behind a receiver that hangs are told too late.
MAX_TIMEOUT_MS = 60_000

_TIMEOUT: dict[str, JsonValue] = {"default": "5s"}


def _bounded(duration_ms: int) -> int:
    if not 1 <= duration_ms <= MAX_TIMEOUT_MS:
        raise ValueError("must be above 0, and at most 60s")
    return duration_ms


WebhookUrl = Annotated[
    str,
    PlainValidator(parse_webhook_url),
    WithJsonSchema({"type": "string", "pattern": URL_PATTERN}),
]


class WebhookEntry(Entry):
    """Who is told when a budget has passed one of its `alerts`."""

    url: WebhookUrl = Field(
        description="Where it is sent: `https`, or `http` to this machine. Redirects "
        "are not followed."
    )
    secret: Credential = Field(
        description="Where the secret is that messages are signed with: `env:NAME` or "
        "`file:/path`, never the secret itself."
    )
    timeout: Annotated[Duration, AfterValidator(_bounded)] = Field(
        default=5_000,
        description="How long one try may take: seconds or `5s`, at most 60 s.",
        json_schema_extra=_TIMEOUT,
    )
    ca_file: AbsolutePath | None = Field(
        default=None,
        description="PEM bundle that the receiver's certificate is checked against, "
        "instead of the system's.",
    )


class NotificationsEntry(Entry):
    """Who is told of what operators may have to act on."""

    webhook: WebhookEntry | None = Field(
        default=None,
        description="Is told when a budget has passed one of its `alerts`.",
    )
