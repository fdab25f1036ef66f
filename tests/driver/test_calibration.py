"""Samples gather, are written together, and what was learned comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from tests.driver.fakes import Counter
from tests.examples import NOW_MS, policy
from tests.recorder import Recorder
from tokenweir.core.calibration import Batch, Learned, Place, Side
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.lesson import Lesson
from tokenweir.driver import calibration as module
from tokenweir.driver.background import Background
from tokenweir.driver.calibration import OUTPUTS_PER_WRITE, Calibration
from tokenweir.ledger.calibration import MemoryCalibration, Spot

PLACE = Place("acme", "vllm", "local-7b", "chat_completions")
INPUT: Spot = (PLACE, Side.INPUT)
OUTPUT: Spot = (PLACE, Side.OUTPUT)
LESSON = Lesson(PLACE, 100, 100, 180)
ANSWER = Lesson(PLACE, texts=("Hi",), reported_output=600)


@dataclass
class Store(MemoryCalibration):
    """A ledger that remembers calls, and fails if it is told to."""

    calls: list[str] = field(default_factory=list)
    fails_with: dict[str, Exception] = field(default_factory=dict)

    def __init__(self) -> None:
        super().__init__(lambda: NOW_MS)
        self.calls = []
        self.fails_with = {}

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if verb in self.fails_with:
            raise self.fails_with[verb]

    async def ping(self) -> None:
        self._called("ping")

    async def learn(
        self, tenant: str, batches: Mapping[Spot, Batch]
    ) -> Mapping[Spot, Learned]:
        self._called("learn")
        return await super().learn(tenant, batches)

    async def read(self, tenants: Sequence[str]) -> Mapping[Spot, Learned]:
        self._called("read")
        return await super().read(tenants)


class Scene:
    """A calibration, its ledger, and what was told of it."""

    def __init__(self) -> None:
        self.store, self.recorder, self.counter = Store(), Recorder(), Counter()
        self.counter.count.tokens = 300
        self.background = Background(self.recorder)
        self.compared: list[tuple[Side, float]] = []
        self.told: list[Mapping[Spot, Learned]] = []
        self.calibration = Calibration(
            self.counter,
            self.background,
            self._compared,
            self.told.append,
            interval_seconds=0.001,
            read_seconds=0.001,
        )

    def _compared(self, place: Place, side: Side, ratio: float) -> None:
        assert place.model.startswith(("local", "m"))
        self.compared.append((side, ratio))

    async def learn(self, *lessons: Lesson) -> None:
        """Teach *lessons*, and write."""
        for lesson in lessons:
            self.calibration.learn(lesson)
        assert await self.background.join(30.0) == 0
        await self.calibration.flush(self.store)

    def factor(self, spot: Spot = INPUT) -> float | None:
        """Return the factor that is known of *spot*."""
        learned = self.calibration.recall(*spot)
        return learned.factor if learned else None


@pytest.fixture
async def scene() -> Scene:
    """One in which nothing was learned."""
    return Scene()


async def until(condition: object) -> None:
    """Wait until *condition* holds."""
    assert callable(condition)
    async with asyncio.timeout(30.0):
        while not condition():  # noqa: ASYNC110 - conditions are many
            await asyncio.sleep(0)


async def test_what_is_learned_is_in_force_once_written(scene: Scene) -> None:
    """Samples of a place are one batch, and the factor comes back with the call."""
    await scene.learn(*[LESSON] * 6)

    assert scene.store.calls == ["ping", "learn"]
    assert scene.factor() == pytest.approx(1.8, rel=1e-4)
    assert scene.told[-1][INPUT].samples == 6
    assert scene.compared == [(Side.INPUT, 1.8)] * 6
    await scene.calibration.flush(scene.store)
    assert scene.store.calls == ["ping", "learn"]


@pytest.mark.parametrize("tenants", [1, 50])
async def test_all_that_is_known_is_told_once_a_flush(
    scene: Scene, tenants: int
) -> None:
    """However many tenants have something to write, and each of them is in it."""
    places = [replace(PLACE, tenant=f"t{number}") for number in range(tenants)]
    await scene.learn(*[replace(LESSON, place=place) for place in places])

    assert scene.store.calls == ["ping", *["learn"] * tenants]
    [told] = scene.told
    assert told.keys() == {(place, Side.INPUT) for place in places}


async def test_what_changes_nothing_is_not_told(scene: Scene) -> None:
    """To read what was written here is no news, but what others wrote since is."""
    await scene.learn(LESSON)
    scene.calibration.recall(*INPUT)
    await scene.calibration.read(scene.store)
    assert len(scene.told) == 1

    await scene.store.learn("acme", {INPUT: Batch(5, 500, 500 * 693_147, 500 * 100)})
    await scene.calibration.read(scene.store)
    assert len(scene.told) == 2


async def test_what_was_learned_before_a_failure_is_told(scene: Scene) -> None:
    """A flush that breaks off has told what it came to."""
    learn = scene.store.learn

    async def learn_once(
        tenant: str, batches: Mapping[Spot, Batch]
    ) -> Mapping[Spot, Learned]:
        learned = await learn(tenant, batches)
        scene.store.fails_with["learn"] = RuntimeError("broken")
        return learned

    scene.store.learn = learn_once  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        await scene.learn(LESSON, replace(LESSON, place=replace(PLACE, tenant="b")))

    assert [len(told) for told in scene.told] == [1]


async def test_the_error_is_that_of_what_was_reserved(scene: Scene) -> None:
    """It is told with corrections, and learned without them."""
    await scene.learn(replace(LESSON, reserved_input=180))

    assert scene.compared == [(Side.INPUT, 1.0)]
    assert scene.factor() == pytest.approx(1.8, rel=1e-4)


async def test_outputs_are_counted_beside_the_exchange(scene: Scene) -> None:
    """Some of each place, without a correction; once one is known the error has it."""
    await scene.learn(*[ANSWER] * 20)
    assert len(scene.counter.asked) == OUTPUTS_PER_WRITE
    assert scene.factor(OUTPUT) == pytest.approx(2.0, rel=1e-4)
    assert scene.compared == [(Side.OUTPUT, 2.0)] * OUTPUTS_PER_WRITE

    await scene.learn(*[ANSWER] * 20)
    await scene.learn(ANSWER)
    assert len(scene.counter.asked) == 2 * OUTPUTS_PER_WRITE + 1
    assert scene.compared[-1] == (Side.OUTPUT, 1.0)
    assert scene.counter.asked[0] == (("Hi",), "local-7b", None, 0)


async def test_places_of_outputs_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many models there are, so many answers are counted and no more."""
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    for number in range(5):
        place = replace(PLACE, model=f"m{number}")
        scene.calibration.learn(replace(LESSON, place=place))
        scene.calibration.learn(replace(ANSWER, place=place))
        assert await scene.background.join(30.0) == 0
    await scene.calibration.flush(scene.store)

    assert len(scene.counter.asked) == 2
    assert len(await scene.store.read(["acme"])) == 2


@pytest.mark.parametrize("lesson", [replace(LESSON, reported_input=9_000), ANSWER])
async def test_nothing_to_learn(scene: Scene, lesson: Lesson) -> None:
    """Absurd reports are told as errors, but teach nothing; nor does an empty count."""
    scene.counter.count.tokens = 0
    await scene.learn(lesson)

    assert scene.store.calls == []
    assert len(scene.compared) == (1 if lesson.estimated_input else 0)


async def test_what_others_learned_is_read(scene: Scene) -> None:
    """Of the policy's tenants at once, of others once they were seen."""
    sample = Batch(5, 500, 500 * 693_147, 500 * 100)
    other: Spot = (replace(PLACE, tenant="later"), Side.INPUT)
    await scene.store.learn("acme", {INPUT: sample})
    await scene.store.learn("later", {other: sample})
    scene.calibration.use_policy(policy())
    scene.calibration.start(scene.store, scene.recorder)
    await until(lambda: scene.told)
    assert scene.factor() == pytest.approx(2.0, rel=1e-3)

    assert scene.factor(other) is None
    await until(lambda: scene.factor(other))
    await scene.store.forget("acme", [INPUT])
    await until(lambda: scene.factor() is None)
    await scene.calibration.stop()


async def test_one_tenant(scene: Scene) -> None:
    """Where every caller is one tenant, only that one is read."""
    scene.calibration.use_policy(replace(policy(), single_tenant="acme"))
    assert list(scene.calibration._tenants) == ["acme"]


async def test_tenants_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was not seen for longest is not read any more, and is then unknown."""
    monkeypatch.setattr(module, "MAX_TENANTS", 2)
    await scene.learn(LESSON)
    for name in ("acme", "b", "acme", "c", "d"):
        scene.calibration.recall(replace(PLACE, tenant=name), Side.INPUT)
    await scene.calibration.read(scene.store)

    assert list(scene.calibration._tenants) == ["c", "d"]
    assert scene.factor() is None


async def test_without_a_ledger_what_was_known_stays(scene: Scene) -> None:
    """Samples wait meanwhile, and are written once it is back."""
    await scene.learn(*[LESSON] * 5)
    scene.store.fails_with["ping"] = LedgerUnavailableError("away")
    scene.store.fails_with["read"] = LedgerUnavailableError("away")
    scene.calibration.start(scene.store, scene.recorder)
    calls = len(scene.store.calls)
    await scene.learn(*[LESSON] * 5)
    await until(lambda: len(scene.store.calls) > calls + 4)
    assert scene.factor() == pytest.approx(1.8, rel=1e-4)

    scene.store.fails_with.clear()
    await until(lambda: scene.calibration.is_empty)
    await scene.calibration.stop()
    assert (await scene.store.read(["acme"]))[INPUT].samples == 10
    assert scene.recorder.faults == []


async def test_a_batch_is_written_once_at_most(scene: Scene) -> None:
    """One that may have been applied is not sent again; the others wait."""
    scene.store.fails_with["learn"] = LedgerUnavailableError("no answer")
    other = replace(PLACE, tenant="globex")
    await scene.learn(LESSON, replace(LESSON, place=other))
    assert scene.store.calls == ["ping", "learn"]

    scene.store.fails_with["learn"] = LedgerRefusedError("refused")
    await scene.calibration.flush(scene.store)
    scene.store.fails_with.clear()
    await scene.calibration.flush(scene.store)
    assert scene.store.calls == ["ping", "learn", "ping", "learn"]
    assert await scene.store.read(["acme", "globex"]) == {}


async def test_faults_of_ours_are_told(scene: Scene) -> None:
    """A read that breaks is reported, and the next one is tried all the same."""
    scene.store.fails_with["read"] = RuntimeError("broken")
    scene.calibration.start(scene.store, scene.recorder)
    await until(lambda: len(scene.recorder.faults) > 1)
    await scene.calibration.stop()
    await scene.calibration.stop()

    assert scene.recorder.faults[0][0] == "calibration"


async def test_stopping_ends_reads_that_swallow_it(scene: Scene) -> None:
    """A read that is answered as it is cancelled is the last one."""
    entered = asyncio.Event()

    class Swallowing(Store):
        async def read(self, tenants: Sequence[str]) -> Mapping[Spot, Learned]:
            entered.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return await super().read(tenants)

    scene.calibration.start(Swallowing(), scene.recorder)
    await entered.wait()

    await asyncio.wait_for(scene.calibration.stop(), 30)
