"""Who is told of budgets, as the file says it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.config.policies import CANARY
from tokenweir.config.notifications_entry import NotificationsEntry, WebhookEntry

WEBHOOK = {"url": "https://ops.example/hook", "secret": "env:HOOK"}


def test_nobody_is_told() -> None:
    """Without an entry there is no webhook."""
    assert NotificationsEntry().webhook is None


def test_a_webhook() -> None:
    """A URL and where the secret is: the rest has defaults."""
    entry = NotificationsEntry.model_validate({"webhook": WEBHOOK}).webhook

    assert entry is not None
    assert (entry.url, str(entry.secret)) == ("https://ops.example/hook", "env:HOOK")
    assert (entry.timeout, entry.ca_file) == (5_000, None)
    assert WebhookEntry.model_validate({**WEBHOOK, "timeout": "1m"}).timeout == 60_000


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"timeout": 0}, [("timeout",)]),
        ({"timeout": "61s"}, [("timeout",)]),
        ({"secret": CANARY}, [("secret",)]),
        ({"url": "http://ops.example"}, [("url",)]),
        ({"ca_file": "ca.pem"}, [("ca_file",)]),
        ({"retries": 5}, [("retries",)]),
    ],
)
def test_what_is_wrong(changes: dict[str, Any], places: list[tuple[str]]) -> None:
    """Each at its place, and no secret in the message."""
    with pytest.raises(ValidationError) as caught:
        WebhookEntry.model_validate({**WEBHOOK, **changes})

    assert [error["loc"] for error in caught.value.errors()] == places
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("field", ["url", "secret"])
def test_what_is_needed(field: str) -> None:
    """Nothing is sent to nowhere, or unsigned."""
    rest = {name: value for name, value in WEBHOOK.items() if name != field}

    with pytest.raises(ValidationError):
        WebhookEntry.model_validate(rest)
