"""What repeats is told apart; what does not is summed; memory is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.driver.fakes import Gate, nothing, raising
from tests.examples import NOW_MS, SUBJECT, policy
from tests.recorder import Recorder
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.prompt_part import Audit, Kind, PromptCost, PromptPart
from tokenweir.driver import prompt_audit as module
from tokenweir.driver.prompt_audit import DAY_MS, PER_CALL, PromptAudit
from tokenweir.ledger.prompts import OTHER, PromptKey, PromptSum

DAY = NOW_MS // DAY_MS
COST = PromptCost(1, 100, 100, 40, 200, 5)
TWICE = COST + COST
AWAY = raising(LedgerUnavailableError("no answer"))


@dataclass
class Store:
    """A ledger that takes sums, or does not."""

    on_ping: Callable[[], Awaitable[None]] = nothing
    on_add: Callable[[], Awaitable[None]] = nothing
    calls: list[tuple[str, int, list[PromptSum]]] = field(default_factory=list)

    async def ping(self) -> None:
        await self.on_ping()

    async def add(self, tenant: str, day: int, sums: list[PromptSum]) -> None:
        self.calls.append((tenant, day, sums))
        await self.on_add()

    @property
    def costs(self) -> dict[tuple[int, str], PromptCost]:
        """What was written, by day and digest."""
        return {
            (day, row.key.digest): row.cost
            for _, day, rows in self.calls
            for row in rows
        }

    @property
    def texts(self) -> list[str]:
        """What texts went along, in order."""
        return [row.text for _, _, rows in self.calls for row in rows if row.text]


@dataclass
class Scene:
    """An audit, the time, and what it has lost."""

    now_ms: int = NOW_MS
    lost: int = 0
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        self.audit = PromptAudit(self.lose, lambda: self.now_ms, interval_seconds=0.001)
        self.audit.use_policy(replace(policy(), audit=Audit(keep_prompt_text=True)))

    def lose(self, count: int) -> None:
        self.lost += count

    async def flush(self) -> None:
        await self.audit.flush(self.store)


@pytest.fixture
async def scene() -> Scene:
    """Return a fresh one."""
    return Scene()


def prompt(digest: str = "d") -> Costs:
    """Return what a system prompt cost in one call."""
    return ((PromptPart(Kind.SYSTEM, digest, 9), COST),)


async def test_what_comes_twice_is_told_apart(scene: Scene) -> None:
    """From its first call on; once written it is done."""
    for digest in ("d", "once", "d", "d"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()
    await scene.flush()
    key = PromptKey("acme", "gpt-4o-mini", Kind.SYSTEM, "d")

    assert scene.store.calls == [
        ("acme", DAY, [PromptSum(key, TWICE + COST)]),
    ]


async def test_what_comes_later_is_added(scene: Scene) -> None:
    """A known prompt needs no second look."""
    for _ in range(2):
        scene.audit.add(SUBJECT, prompt())
    await scene.flush()
    scene.audit.add(SUBJECT, prompt())
    await scene.flush()

    assert [rows[0].cost for _, _, rows in scene.store.calls] == [TWICE, COST]


async def test_each_day_has_its_own(scene: Scene) -> None:
    """A call belongs to the day in which it was settled."""
    scene.audit.add(SUBJECT, prompt())
    scene.now_ms += DAY_MS
    scene.audit.add(SUBJECT, prompt())
    await scene.flush()

    assert scene.store.costs == {(DAY, "d"): COST, (DAY + 1, "d"): COST}


async def test_models_and_tenants_are_kept_apart(scene: Scene) -> None:
    """The same prompt at another model is another line; what came once waits."""
    for subject in (SUBJECT, SUBJECT, replace(SUBJECT, model="fast")):
        scene.audit.add(subject, prompt())
    await scene.flush()
    [(_, _, rows)] = scene.store.calls

    assert [row.key.model for row in rows] == ["gpt-4o-mini"]


async def test_what_never_comes_again_is_summed_with_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there are too many: those that wait longest go first."""
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    for number in range(4):
        scene.audit.add(SUBJECT, prompt(f"new {number}"))
    scene.audit.add(SUBJECT, prompt("new 3"))
    await scene.flush()

    assert scene.store.costs == {(DAY, OTHER): TWICE, (DAY, "new 3"): TWICE}


async def test_known_ones_are_forgotten_at_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was not seen for longest has to come twice again."""
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    for digest in ("a", "a", "b", "b", "a"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()

    assert scene.store.costs == {(DAY, "a"): TWICE, (DAY, "b"): TWICE}


async def test_texts_of_what_repeats(scene: Scene) -> None:
    """Once a day, and never of what came once."""
    scene.audit.keep({"d": "Be brief.", "once": "Why?"})
    for digest in ("d", "once", "d"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()
    scene.audit.add(SUBJECT, prompt())
    await scene.flush()
    assert scene.store.texts == ["Be brief."]
    scene.now_ms += DAY_MS
    scene.audit.add(SUBJECT, prompt())
    await scene.flush()
    await scene.audit.stop()
    await scene.flush()

    assert scene.store.texts == ["Be brief."] * 2


async def test_texts_that_wait_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest is forgotten first; whoever comes again is young."""
    monkeypatch.setattr(module, "MAX_TEXTS", 2)
    for digest in ("a", "b", "a", "c"):
        scene.audit.keep({digest: f"text {digest}"})
    for digest in ("a", "a", "b", "b"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()

    assert scene.store.texts == ["text a"]


async def test_a_silent_ledger_is_waited_for(scene: Scene) -> None:
    """Nothing is sent before it answers, and nothing is lost."""
    scene.store.on_ping = AWAY
    for _ in range(2):
        scene.audit.add(SUBJECT, prompt())
    await scene.flush()
    assert scene.store.calls == []
    scene.store.on_ping = nothing
    await scene.flush()

    assert scene.store.costs == {(DAY, "d"): TWICE}
    assert scene.lost == 0


async def test_sums_that_wait_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be one more is lost, and told; what is there goes on."""
    monkeypatch.setattr(module, "MAX_SUMS", 1)
    for digest in ("a", "a", "b", "b", "a"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()

    assert scene.store.costs == {(DAY, "a"): TWICE + COST}
    assert scene.lost == 2


async def test_what_may_have_been_written_is_not_sent_again(scene: Scene) -> None:
    """It is told as lost: a cost that is counted twice is worse."""
    scene.store.on_add = AWAY
    for _ in range(2):
        scene.audit.add(SUBJECT, prompt())
    await scene.flush()
    await scene.flush()

    assert len(scene.store.calls) == 1
    assert scene.lost == 2


async def test_after_no_answer_the_rest_waits(scene: Scene) -> None:
    """One call is lost, not all of them; texts that had not been sent come along."""
    scene.store.on_add = AWAY
    tenants = ("acme", "globex", "initech")
    for tenant in tenants:
        scene.audit.keep({tenant: f"text of {tenant}"})
        for _ in range(2):
            scene.audit.add(replace(SUBJECT, tenant=tenant), prompt(tenant))
    await scene.flush()
    assert len(scene.store.calls) == 1
    assert scene.lost == 2
    scene.store.on_add = nothing
    await scene.flush()

    told = {tenant for tenant, _, _ in scene.store.calls}
    assert told == {*tenants}
    assert len(scene.store.texts) == 3
    assert scene.lost == 2


async def test_what_the_ledger_refuses_stops_no_other(scene: Scene) -> None:
    """It is lost; the next call is made."""
    scene.store.on_add = raising(LedgerRefusedError("refused"))
    for tenant in ("acme", "globex"):
        for _ in range(2):
            scene.audit.add(replace(SUBJECT, tenant=tenant), prompt(tenant))
    await scene.flush()

    assert len(scene.store.calls) == 2
    assert scene.lost == 4


@pytest.mark.parametrize(
    "audit",
    [
        Audit(),
        Audit(prompts=False),
        Audit(keep_prompt_text=True, keep_prompt_text_of=("globex",)),
    ],
)
async def test_a_policy_that_keeps_no_text_has_the_last_word(
    scene: Scene, audit: Audit
) -> None:
    """What waits is dropped, and what an earlier exchange still brings is not sent."""
    scene.audit.keep({"d": "Be brief."})
    scene.audit.add(SUBJECT, prompt())
    scene.audit.use_policy(replace(policy(), audit=audit))
    scene.audit.keep({"e": "Be brief."})
    for digest in ("d", "e", "e"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.flush()

    assert scene.store.costs == {(DAY, "d"): TWICE, (DAY, "e"): TWICE}
    assert scene.store.texts == []


async def test_another_policy_with_the_same_rule_drops_nothing(scene: Scene) -> None:
    """Policies change often, and for other reasons."""
    scene.audit.keep({"d": "Be brief."})
    scene.audit.use_policy(replace(policy(), audit=Audit(keep_prompt_text=True)))
    for _ in range(2):
        scene.audit.add(SUBJECT, prompt())
    await scene.flush()

    assert scene.store.texts == ["Be brief."]


async def test_what_is_left_at_the_end_is_told_as_lost(scene: Scene) -> None:
    """Nobody will write it."""
    for digest in ("d", "d", "once"):
        scene.audit.add(SUBJECT, prompt(digest))
    await scene.audit.stop()
    await scene.flush()

    assert scene.store.calls == []
    assert scene.lost == 3


async def test_calls_are_bounded(scene: Scene) -> None:
    """A script that ran for long would hold up exchanges."""
    for _ in range(2):
        for number in range(PER_CALL + 1):
            scene.audit.add(SUBJECT, prompt(f"{number}"))
    await scene.flush()

    assert sorted(len(rows) for _, _, rows in scene.store.calls) == [1, PER_CALL]


async def test_it_writes_by_itself_until_it_is_stopped(scene: Scene) -> None:
    """At the end what came once is summed, too, and a fault ends nothing."""
    events = Recorder()
    failed = Gate()

    async def break_once() -> None:
        if not failed.reached.is_set():
            failed.reached.set()
            raise ValueError

    scene.store.on_ping = break_once
    for digest in ("d", "d", "once"):
        scene.audit.add(SUBJECT, prompt(digest))
    scene.audit.start(scene.store, events)
    async with asyncio.timeout(30):
        await failed.reached.wait()
        await scene.audit.stop()

    assert scene.store.costs == {(DAY, "d"): TWICE, (DAY, OTHER): COST}
    assert [where for where, _ in events.faults] == ["prompt_audit"]
