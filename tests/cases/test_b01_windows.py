"""B01: a budget's window begins at midnight where it says, and at no other time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio

from tests.cases import driven_clock
from tests.cases.apis import OPENAI, Told
from tests.cases.connection import Answer
from tests.cases.scene import Scene, key_of, tenants
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ZONES = {
    "tokyo": "Asia/Tokyo",
    "york": "America/New_York",
    "kolkata": "Asia/Kolkata",
    "howe": "Australia/Lord_Howe",
}
TOKENS = 900
CASES = [
    # As in the report: the offset was dropped, and the month began nine hours late.
    ("tokyo", "month", datetime(2026, 8, 1)),  # noqa: DTZ001 -- of the zone
    ("tokyo", "day", datetime(2026, 3, 1)),  # noqa: DTZ001
    # Days of 23 and of 25 hours.
    ("york", "day", datetime(2026, 3, 9)),  # noqa: DTZ001
    ("york", "day", datetime(2026, 11, 2)),  # noqa: DTZ001
    ("york", "month", datetime(2028, 3, 1)),  # noqa: DTZ001 -- after a leap day
    ("kolkata", "day", datetime(2026, 1, 1)),  # noqa: DTZ001
    # A day that is half an hour longer.
    ("howe", "day", datetime(2026, 4, 6)),  # noqa: DTZ001
]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the module the file that the ledger's clock is read from."""
    path: Path = tmp_path_factory.mktemp("clock") / "now"
    path.write_text("1767225600000")
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(clock: Path) -> AsyncIterator[Scene]:
    """Give the module a pod whose tenants have budgets of a day and of a month."""
    budgets = {
        f"{name}-{per}": [{"budget_tokens": 1_000, "per": per, "time_zone": zone}]
        for name, zone in ZONES.items()
        for per in ("day", "month")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(driven_clock.VARIABLE, str(clock))
        options: dict[str, Any] = {"program": "tests.cases.driven_clock"}
        async with Scene.open(adapt=tenants(**budgets), options=options) as opened:
            yield opened


def set_clock(clock: Path, moment_ms: int) -> None:
    """Let it be *moment_ms*; nobody reads half of it."""
    new = clock.with_suffix(".new")
    new.write_text(str(moment_ms))
    new.replace(clock)


async def call(scene: Scene, tenant: str) -> Answer:
    """Use most of a budget."""
    body = OPENAI.request(stream=False, max_tokens=TOKENS - 20)
    answer = await scene.call(body, key=key_of(tenant))
    await scene.pod.settled()
    return answer


@pytest.mark.parametrize(("zone", "per", "midnight"), CASES)
async def test_b01_windows_turn_at_local_midnight(
    scene: Scene, clock: Path, zone: str, per: str, midnight: datetime
) -> None:
    """
    What was spent refuses until a second before midnight there, and from midnight on
    calls pass; the refusal names that very moment.

    BerriAI/litellm#34896: a zone's offset was dropped, and windows turned hours late.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(20, TOKENS - 20))))
    instant = midnight.replace(tzinfo=ZoneInfo(ZONES[zone]))
    turns_ms = int(instant.timestamp()) * 1_000
    tenant = f"{zone}-{per}"

    set_clock(clock, turns_ms - 12 * 3_600_000)
    first = await call(scene, tenant)
    set_clock(clock, turns_ms - 1_000)
    last = await call(scene, tenant)
    set_clock(clock, turns_ms)
    turned = await call(scene, tenant)
    set_clock(clock, turns_ms + 1_000)
    again = await call(scene, tenant)

    statuses = [answer.status for answer in (first, last, turned, again)]
    assert statuses == [200, 429, 200, 429]
    assert last.refusal == again.refusal == "budget_exhausted"
    assert last.detail["retry_after_ms"] == 1_000
    told = datetime.fromisoformat(last.detail["resets_at"])
    assert round(told.timestamp() * 1_000) == turns_ms
