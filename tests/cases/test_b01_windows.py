"""B01, B13, L18: windows turn when they say, and each call is booked in its own."""

from __future__ import annotations

import asyncio
import itertools
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
from tests.pod import until
from tests.scripted_upstream import Hold, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ZONES = {
    "tokyo": "Asia/Tokyo",
    "york": "America/New_York",
    "kolkata": "Asia/Kolkata",
    "howe": "Australia/Lord_Howe",
}
TOKENS = 900
HOUR_MS = 3_600_000
# Of a moment at which nothing else turns.
TURN_MS = 1_767_225_600_000 + 5 * HOUR_MS
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
    budgets["hourly"] = [{"budget_tokens": 1_000, "per": "hour"}]
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


async def spent(scene: Scene) -> dict[int, tuple[int, int]]:
    """Return what is spent and reserved by the tenant `hourly`, by the window's end."""
    found = (await scene.pod.ledger.snapshot("hourly")).spendings.values()
    return {each.end_ms: (each.spent, each.reserved) for each in found}


async def test_b01_a_call_is_booked_in_the_window_that_it_began_in(
    scene: Scene, clock: Path
) -> None:
    """
    An answer that comes after the turn is paid by the hour in which it was asked for;
    the new hour has its whole budget.

    BerriAI/litellm#34896
    """
    await scene.clear()
    set_clock(clock, TURN_MS - 1_000)
    gate = asyncio.Event()
    scene.upstream.play_next(Hold(gate), reply(OPENAI.reply("Hi.", Told(20, 700))))
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(20, TOKENS - 20))))
    body = OPENAI.request(stream=False, max_tokens=TOKENS)
    late = asyncio.create_task(scene.call(body, key=key_of("hourly")))
    await scene.upstream.wait_for_requests(1)
    [(spent_before, reserved)] = (await spent(scene)).values()
    set_clock(clock, TURN_MS + 1_000)
    new = await scene.call(body, key=key_of("hourly"))
    gate.set()

    assert ((await late).status, new.status) == (200, 200)
    assert (spent_before, reserved > TOKENS) == (0, True)
    await scene.pod.settled()
    assert await spent(scene) == {TURN_MS: (720, 0), TURN_MS + HOUR_MS: (TOKENS, 0)}


async def test_b13_what_was_given_up_for_lost_is_corrected(
    scene: Scene, clock: Path
) -> None:
    """
    A hold that nobody renewed in time is charged by estimate, so that it blocks nobody.
    If its exchange ends after all, the real figure takes the estimate's place.

    BerriAI/litellm#30460
    """
    await scene.clear()
    set_clock(clock, TURN_MS)
    gate = asyncio.Event()
    scene.upstream.play_next(Hold(gate), reply(OPENAI.reply("Hi.", Told(20, 480))))
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(20, 7))))
    large = OPENAI.request(stream=False, max_tokens=TOKENS)
    late = asyncio.create_task(scene.call(large, key=key_of("hourly")))
    await scene.upstream.wait_for_requests(1)
    small = OPENAI.request(stream=False, max_tokens=100)
    refused = await scene.call(small, key=key_of("hourly"))
    moments = itertools.count(TURN_MS + 120_000, 60_000)

    async def served() -> bool:
        # A renewal in just that moment makes it wait once more.
        set_clock(clock, next(moments))
        return (await scene.call(small, key=key_of("hourly"))).status == 200

    await until(served)
    gate.set()

    assert refused.status == 429
    assert (await late).status == 200
    await scene.pod.settled()
    booked = {TURN_MS + HOUR_MS: (20 + 480 + 20 + 7, 0)}
    await until(lambda: settles_to(scene, booked))


async def settles_to(scene: Scene, booked: dict[int, tuple[int, int]]) -> bool:
    """Tell if that is what is spent."""
    return await spent(scene) == booked


@pytest.mark.parametrize(
    ("wait_ms", "seconds"), [(1, "1"), (200, "1"), (1_001, "2"), (59_990, "60")]
)
async def test_l18_a_spent_budget_tells_whole_seconds(
    scene: Scene, clock: Path, wait_ms: int, seconds: str
) -> None:
    """
    Rounded up, and never zero; whoever waits for so long is served.

    getsentry/sentry#7919
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(20, TOKENS - 20))))
    set_clock(clock, TURN_MS - wait_ms)
    await call(scene, "hourly")
    refused = await call(scene, "hourly")
    set_clock(clock, TURN_MS - wait_ms + refused.detail["retry_after_ms"])
    served = await call(scene, "hourly")

    assert (refused.status, served.status) == (429, 200)
    assert refused.header("retry-after") == seconds
    assert refused.detail["retry_after_ms"] == wait_ms
    assert refused.header("x-should-retry") == "false"


async def test_thresholds_are_told_anew_in_each_window(
    scene: Scene, clock: Path
) -> None:
    """
    Fifty percent of each window, and eighty, and nothing of that twice.
    """
    await scene.clear()
    [processor] = scene.pod.processors
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(20, 280))))
    body = OPENAI.request(stream=False, max_tokens=280)
    # Hours that no other test has.
    turns = [TURN_MS + 50 * HOUR_MS, TURN_MS + 51 * HOUR_MS]
    for turn in turns:
        set_clock(clock, turn)
        for _ in range(3):
            assert (await scene.call(body, key=key_of("hourly"))).status == 200
            await scene.pod.settled()

    def told() -> list[tuple[int, int, int]]:
        return [
            (line["window_ends_ms"] - HOUR_MS, line["percent"], line["spent"])
            for line in processor.lines()
            if line["event"] == "budget_crossed"
            and line["limit"].startswith("hourly.")
            and line["window_ends_ms"] > turns[0]
        ]

    await until(lambda: len(told()) >= 4)
    both = [(50, 600), (80, 900)]
    assert told() == [(turn, *each) for turn in turns for each in both]
