"""What `tokenweir check` says of budgets."""

from __future__ import annotations

import pathlib

import pytest

from tests.config.policies import CANARY, edited, write
from tokenweir.cli.main import main


@pytest.fixture(autouse=True)
def _credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (
            "budget_usd: 50, per: day",
            "$50.00 a day (UTC), then blocks, alerts at 50/80/95%",
        ),
        (
            "budget_usd: 1234.5, per: hour, mode: shadow, partition: [user]",
            (
                "$1,234.50 an hour (UTC), for each user, then blocks, alerts at "
                "50/80/95%, in shadow mode"
            ),
        ),
        (
            (
                "budget_tokens: 9000, per: day, time_zone: Asia/Tokyo, alerts: [], "
                "anchor: {hour: 6}, models: [gpt-4o-mini]"
            ),
            (
                "9,000 tokens a day (Asia/Tokyo, from 06:00), models gpt-4o-mini, then "
                "blocks, no alerts"
            ),
        ),
        (
            (
                "budget_usd: 1, per: week, anchor: {weekday: friday, hour: 17}, "
                "alerts: [90], on_exceeded: "
                "{downgrade_to: gpt-4o-mini, hard_limit_usd: 2}"
            ),
            (
                "$1.00 a week (UTC, from Friday at 17:00), then downgrades to "
                "gpt-4o-mini, at most $2.00, alerts at 90%"
            ),
        ),
        (
            (
                "budget_tokens: 9000, per: month, "
                "on_exceeded: {throttle_percent: 20, hard_limit_tokens: 9001}"
            ),
            (
                "9,000 tokens a month (UTC), then throttles to 20%, at most 9,001 "
                "tokens, alerts at 50/80/95%"
            ),
        ),
    ],
)
def test_budgets(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    budget: str,
    told: str,
) -> None:
    """A budget tells its amount, its window, whose calendar, and what follows."""
    path = write(tmp_path, edited("requests_per_minute: 600", budget))

    assert main(["check", str(path)]) == 0
    assert f"    {told}\n" in capsys.readouterr().out
