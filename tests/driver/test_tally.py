"""What was refused and what matched reaches the ledger at most once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.driver.fakes import nothing, raising
from tests.examples import NOW_MS
from tests.recorder import Recorder
from tests.telemetry.exchanges import ADMITTED, REFUSED, policy_of
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.partition import tag_of
from tokenweir.core.record import SEPARATOR, hour_of
from tokenweir.core.rejection import ModelNotAllowed, UnknownKey
from tokenweir.driver.tally import PER_CALL, Tally
from tokenweir.telemetry.hooks import ExchangeDetails

HOUR = hour_of(NOW_MS)
DEADLINE_SECONDS = 30.0
AWAY = raising(LedgerUnavailableError("no answer"))


@dataclass
class Store:
    """A ledger that takes tallies, or does not."""

    on_ping: Callable[[], Awaitable[None]] = nothing
    on_tally: Callable[[], Awaitable[None]] = nothing
    calls: list[tuple[str, int, Mapping[str, int]]] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def ping(self) -> None:
        await self.on_ping()

    async def tally(self, tag: str, hour: int, sums: Mapping[str, int]) -> None:
        self.calls.append((tag, hour, sums))
        self.called.set()
        await self.on_tally()

    def sums(self) -> dict[tuple[str, ...], int]:
        """What was written in all, by names."""
        total: Counter[tuple[str, ...]] = Counter()
        for _, _, sums in self.calls:
            for name, figure in sums.items():
                total[tuple(name.split(SEPARATOR))] += figure
        return dict(total)


@dataclass
class Scene:
    """A tally, what it has lost, and the time."""

    lost: int = 0
    now_ms: int = NOW_MS
    max_waiting: int = 1_000
    store: Store = field(default_factory=Store)
    events: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.tally = Tally(
            self.lose,
            lambda: self.now_ms,
            interval_seconds=0.001,
            max_waiting=self.max_waiting,
        )
        self.tally.use_policy(policy_of("acme.tokens_per_minute"))

    def lose(self, count: int) -> None:
        """So many are lost."""
        self.lost += count

    async def flush(self) -> dict[tuple[str, ...], int]:
        """Write what waits; return what was written so far."""
        await self.tally.flush(self.store)
        return self.store.sums()


@pytest.fixture
def scene() -> Scene:
    """A tally and a ledger."""
    return Scene()


def asking_for(model: str, tenant: str = "acme") -> ExchangeDetails:
    """A request for a model that is refused before anything is known of it."""
    subject = replace(ADMITTED.subject, model=model, tenant=tenant, provider="")
    return replace(
        REFUSED, subject=subject, rejection=ModelNotAllowed(model), quotas=()
    )


async def test_a_refusal_is_told_by_whom_and_by_what(scene: Scene) -> None:
    """
    By tenant, key, model, provider, route and the worst quota; matches beside it.
    """
    scene.tally(REFUSED)
    scene.tally(REFUSED)
    group = ("acme", "acme-ci", "gpt-4o-mini", "openai", "chat_completions")

    assert await scene.flush() == {
        (*group, "refused_acme.tokens_per_minute"): 2,
        (*group, "matched_acme.tokens_per_minute"): 2,
        (*group, "matched_acme.requests_per_minute"): 2,
    }
    ((tag, hour, _),) = scene.store.calls
    assert (tag, hour) == (tag_of("acme"), HOUR)


async def test_models_are_those_of_the_policy(scene: Scene) -> None:
    """
    Names that clients invent make no sums of their own; those of a family are one.
    """
    for model in ("x", "y", "gpt-4o-1", "gpt-4o-2", "gpt-4o-mini", ""):
        scene.tally(asking_for(model))
    found = {group[2:4]: n for group, n in (await scene.flush()).items()}

    assert found == {
        ("other", ""): 2,
        ("gpt-4o*", "openai"): 2,
        ("gpt-4o-mini", "openai"): 1,
        ("", ""): 1,
    }


async def test_without_a_policy_every_model_is_another(scene: Scene) -> None:
    """
    Before it is known what there is, nothing is believed.
    """
    scene.tally = Tally(scene.lose, lambda: NOW_MS)
    scene.tally(asking_for("gpt-4o-mini"))

    assert [group[2] for group in await scene.flush()] == ["other"]


async def test_what_was_admitted_is_told_by_the_name_of_its_record(
    scene: Scene,
) -> None:
    """
    Its matches stand beside its usage.
    """
    subject = replace(ADMITTED.subject, model="gpt-4o-2024")
    scene.tally(replace(ADMITTED, subject=subject))

    assert {group[2] for group in await scene.flush()} == {"gpt-4o-2024"}


async def test_strangers_are_not_counted(scene: Scene) -> None:
    """
    Who calls with an unknown key is no tenant; and of some there is nothing to tell.
    """
    stranger = asking_for("gpt-4o-mini", tenant="")
    scene.tally(replace(stranger, rejection=UnknownKey("unknown")))
    scene.tally(replace(ADMITTED, quotas=()))

    assert await scene.flush() == {}


async def test_names_do_not_break_the_form(scene: Scene) -> None:
    """
    The character between names is taken out of them.
    """
    subject = replace(ADMITTED.subject, model=f"a{SEPARATOR}b")
    scene.tally(replace(ADMITTED, subject=subject))

    assert {group[2] for group in await scene.flush()} == {"a b"}


async def test_each_tenant_and_each_hour_is_written_apart(scene: Scene) -> None:
    """
    What waits past the hour belongs to the hour in which it was counted.
    """
    scene.tally(asking_for("x"))
    scene.tally(asking_for("x", tenant="globex"))
    scene.now_ms += 3_600_000
    scene.tally(asking_for("x"))
    await scene.flush()

    assert {(tag, hour) for tag, hour, _ in scene.store.calls} == {
        (tag_of("acme"), HOUR),
        (tag_of("globex"), HOUR),
        (tag_of("acme"), HOUR + 1),
    }


async def test_nothing_is_written_twice(scene: Scene) -> None:
    """
    What was written is gone from here; without anything to write nobody is asked.
    """
    scene.tally(REFUSED)
    await scene.flush()
    await scene.flush()
    scene.store.on_ping = raising(AssertionError("asked"))
    await scene.flush()

    assert len(scene.store.calls) == 1


async def test_what_may_have_been_written_is_not_repeated(scene: Scene) -> None:
    """
    A batch without an answer is lost and counted; those that were not sent wait.
    """
    scene.tally(REFUSED)
    scene.tally(replace(asking_for("x", tenant="globex")))
    scene.store.on_tally = AWAY
    await scene.flush()
    ((first, _, sums),) = scene.store.calls
    assert scene.lost == sum(sums.values())
    scene.store.on_tally = nothing
    await scene.flush()

    assert [tag for tag, _, _ in scene.store.calls[1:]] == [
        tag for tag in map(tag_of, ("acme", "globex")) if tag != first
    ]
    assert scene.lost == sum(sums.values())


async def test_a_batch_that_is_refused_keeps_no_other(scene: Scene) -> None:
    """
    There may be garbage in the key of one hour: others are written all the same.
    """
    scene.tally(asking_for("x"))
    scene.tally(asking_for("x", tenant="globex"))
    scene.store.on_tally = raising(LedgerRefusedError("WRONGTYPE"))
    await scene.flush()

    assert (len(scene.store.calls), scene.lost) == (2, 2)


async def test_sums_wait_for_a_ledger_that_is_away(scene: Scene) -> None:
    """
    It is asked if it is there, and nothing is lost before it is.
    """
    scene.store.on_ping = AWAY
    scene.tally(REFUSED)
    await scene.flush()
    scene.tally(REFUSED)
    assert (await scene.flush(), scene.lost) == ({}, 0)
    scene.store.on_ping = nothing

    assert sum((await scene.flush()).values()) == 6


async def test_what_waits_is_bounded() -> None:
    """
    Figures that are known go on being counted; beyond the bound others are lost.
    """
    scene = Scene(max_waiting=2)
    for tenant in ("acme", "globex", "initech", "acme"):
        scene.tally(asking_for("x", tenant=tenant))
    found = await scene.flush()

    assert {group[0]: n for group, n in found.items()} == {"acme": 2, "globex": 1}
    assert scene.lost == 1
    scene.tally(asking_for("x", tenant="initech"))
    assert len(await scene.flush()) == 3


async def test_a_call_carries_only_so_much(scene: Scene) -> None:
    """
    Many figures go in several calls, and none is missing.
    """
    quotas = tuple(f"q{number}" for number in range(2 * PER_CALL + 1))
    scene.tally = Tally(scene.lose, lambda: NOW_MS)
    scene.tally(replace(ADMITTED, quotas=quotas))
    found = await scene.flush()

    sizes = sorted(len(sums) for _, _, sums in scene.store.calls)
    assert sizes == [1, PER_CALL, PER_CALL]
    assert len(found) == len(quotas)


async def test_it_is_written_again_and_again(scene: Scene) -> None:
    """
    Until it is stopped; and what waits then is written last.
    """
    scene.tally.start(scene.store, scene.events)
    for _ in range(2):
        scene.tally(REFUSED)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scene.store.called.wait()
        scene.store.called.clear()
    scene.tally(REFUSED)
    await scene.tally.stop()

    assert sum(scene.store.sums().values()) == 9
    assert (scene.lost, scene.events.faults) == (0, [])


async def test_what_can_not_be_written_at_the_end_is_lost(scene: Scene) -> None:
    """
    A processor does not wait for a ledger that is away, but it counts.
    """
    scene.store.on_ping = AWAY
    scene.tally.start(scene.store, scene.events)
    scene.tally(REFUSED)
    await scene.tally.stop()
    await scene.tally.stop()

    assert (scene.store.calls, scene.lost) == ([], 3)


async def test_a_fault_of_ours_is_told_and_ends_nothing(scene: Scene) -> None:
    """
    The next round is tried all the same; what was in hand is counted as lost.
    """
    error = RuntimeError("ours")
    scene.store.on_tally = raising(error)
    scene.tally(REFUSED)
    scene.tally.start(scene.store, scene.events)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await scene.store.called.wait()
    scene.store.on_tally = nothing
    scene.tally(asking_for("x"))
    await scene.tally.stop()

    assert scene.events.faults == [("tally", error)]
    assert scene.lost == 3
    assert [len(sums) for _, _, sums in scene.store.calls] == [3, 1]
