"""What is published is followed if it is signed, newer and valid; else nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.governance.documents import PUBLIC, STRANGER, draft, signed
from tests.governance.told import Told
from tokenweir.core.errors import LedgerUnavailableError, PolicyError
from tokenweir.governance import watch as module
from tokenweir.governance.envelope import POLICY, Envelope, EnvelopeError, sign
from tokenweir.governance.last_good import LastGood
from tokenweir.governance.watch import Watcher

DEADLINE_S = 20.0


class Ledger:
    """Has what a test puts into it."""

    def __init__(self) -> None:
        self.envelopes: dict[int, Envelope | None] = {}
        self.newest = 0
        self.silent = False
        self.hanging = False
        self.broken = False
        self.reads: list[int] = []

    def put(self, *envelopes: Envelope) -> None:
        """Publish, whatever it is."""
        for envelope in envelopes:
            self.envelopes[envelope.version] = envelope
            self.newest = envelope.version

    async def versions(self) -> dict[str, int]:
        """See `Source`."""
        if self.hanging:
            await asyncio.Event().wait()
        if self.silent:
            raise LedgerUnavailableError("no answer: TimeoutError")
        if self.broken:
            raise RuntimeError("a bug")
        return {POLICY: self.newest, "keys": 0}

    async def read(self, name: str, version: int) -> Envelope | None:
        """See `Source`."""
        assert name == POLICY
        self.reads.append(version)
        if version in self.envelopes and self.envelopes[version] is None:
            raise EnvelopeError("is damaged")
        return self.envelopes.get(version)

    async def history(self, name: str, count: int) -> list[Envelope]:
        """See `Source`."""
        assert name == POLICY
        known = sorted(self.envelopes, reverse=True)
        return [e for version in known[:count] if (e := self.envelopes[version])]


class Taker:
    """Takes what is not bad."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, str]] = []
        self.stale: set[int] = set()
        self.bad = "bad"

    async def take(self, envelope: Envelope, source: str) -> None:
        """See `Taker`."""
        self.stale.discard(envelope.version)
        if envelope.content == self.bad:
            raise PolicyError(["tenants: missing", "models: missing"])
        self.taken.append((envelope.version, source))

    async def outdated(self, version: int) -> bool:
        """See `Taker`."""
        return version in self.stale


class World:
    """A watcher, and all that it depends on."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger()
        self.taker = Taker()
        self.told = Told()
        self.kept = LastGood(folder, [PUBLIC])
        self.restart()

    def restart(self) -> None:
        """Begin anew with what is on disk."""
        self.taker.taken.clear()
        self.told.refused.clear()
        self.watcher = Watcher(
            self.ledger,
            [PUBLIC],
            {POLICY: self.taker},
            self.told,
            self.kept,
            interval_seconds=0.01,
        )

    async def look(self, *, asked: bool = False) -> None:
        """Have one look."""
        await self.watcher._look(asked=asked)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until *condition* holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - a test
                await asyncio.sleep(0.005)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A watcher that has seen nothing yet."""
    world = World(tmp_path / "good")
    yield world
    await world.watcher.stop()


# === what is followed =============================================================


async def test_new_versions_are_taken_once(world: World) -> None:
    """Each is read once, taken once, and kept."""
    world.ledger.put(signed(1))
    await world.look()
    await world.look()
    world.ledger.put(signed(2))
    await world.look()
    await world.look()

    assert world.taker.taken == [(1, "ledger"), (2, "ledger")]
    assert world.ledger.reads == [1, 2]
    assert world.kept.read(POLICY) == signed(2)
    assert world.told.refused == []


async def test_it_goes_on_by_itself(world: World) -> None:
    """Once started it sees what is published, and no more once it is stopped."""
    await world.watcher.first()
    world.watcher.start()
    world.ledger.put(signed(1))
    await world.until(lambda: world.taker.taken == [(1, "ledger")])
    world.ledger.broken = True
    await world.until(lambda: len(world.told.faults) > 1)
    world.ledger.broken = False
    world.ledger.put(signed(2))
    await world.until(lambda: len(world.taker.taken) == 2)

    await world.watcher.stop()
    await world.watcher.stop()
    assert {where for where, _ in world.told.faults} == {"governance"}


async def test_versions_may_be_left_out(world: World) -> None:
    """Who was away takes the newest only."""
    world.ledger.put(signed(1))
    await world.look()
    world.ledger.put(signed(5), signed(9))
    await world.look()

    assert world.taker.taken == [(1, "ledger"), (9, "ledger")]


async def test_files_that_change_are_read_again(world: World) -> None:
    """A version whose secrets were rotated is taken again, with or without ledger."""
    world.ledger.put(signed(1))
    await world.look()
    for silent in (False, True):
        world.ledger.silent = silent
        world.taker.stale.add(1)
        await world.look()

    assert world.taker.taken == [(1, "ledger")] * 3


# === what is not ==================================================================


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (sign(draft(2), STRANGER), "policy 2: is not signed by"),
        (draft(2), "policy 2: is not signed by"),
        (signed(2, "bad"), "policy 2: tenants: missing"),
    ],
    ids=["forged", "unsigned", "invalid"],
)
async def test_what_can_not_be_used(world: World, wrong: Envelope, text: str) -> None:
    """It is told once, read once, and the last good one stays, on disk too."""
    world.ledger.put(signed(1))
    await world.look()
    world.ledger.put(wrong)
    for _ in range(3):
        await world.look()

    assert world.taker.taken == [(1, "ledger")]
    assert world.told.refused[0].startswith(text)
    assert len(world.told.refused) == (2 if "missing" in text else 1)
    assert world.watcher.refusals[POLICY].version == 2
    assert world.kept.read(POLICY) == signed(1)
    assert world.ledger.reads == [1, 2]

    world.ledger.put(signed(3))
    await world.look()
    assert world.taker.taken[-1] == (3, "ledger")
    assert world.watcher.refusals == {}


@pytest.mark.parametrize("damaged", [True, False])
async def test_what_can_not_be_read(world: World, damaged: bool) -> None:
    """A version that is damaged, or only said to be there, is no version."""
    world.ledger.put(signed(1))
    await world.look()
    if damaged:
        world.ledger.envelopes[2] = None
    world.ledger.newest = 2
    await world.look()

    assert world.taker.taken == [(1, "ledger")]
    text = "is damaged" if damaged else "is not there"
    assert world.told.refused[0].startswith(f"policy 2: {text}")


@pytest.mark.parametrize("newest", [0, 4])
async def test_versions_never_go_down(world: World, newest: int) -> None:
    """A ledger that is emptied or restored changes nothing, and it is told what to do."""
    world.ledger.put(signed(4), signed(7))
    await world.look()
    world.ledger.newest = newest
    await world.look()
    await world.look()

    assert world.taker.taken == [(7, "ledger")]
    (text,) = world.told.refused
    assert "publish with --above 7" in text

    world.ledger.newest = 7
    await world.look()
    assert world.watcher.refusals == {}


async def test_an_operator_may_ask(world: World) -> None:
    """What was refused is tried again when asked, and what is in force is read anew."""
    world.ledger.put(signed(1), signed(2, "bad"))
    await world.look()
    world.taker.bad = ""
    await world.look()
    assert world.taker.taken == [(1, "ledger")]

    world.watcher.start()
    world.watcher.reload()
    await world.until(lambda: (2, "ledger") in world.taker.taken)
    world.watcher.reload()
    await world.until(lambda: len(world.taker.taken) == 3)


async def test_a_file_that_comes_mends_it(world: World) -> None:
    """A refused version is tried again when a file that it lacks is there."""
    world.ledger.put(signed(1))
    await world.look()
    world.ledger.put(signed(2, "bad"))
    await world.look()
    world.taker.stale.add(1)
    await world.look()
    assert world.watcher.refusals[POLICY].version == 2

    world.taker.bad = ""
    world.taker.stale.add(2)
    await world.look()
    assert world.taker.taken == [(1, "ledger"), (1, "ledger"), (2, "ledger")]
    assert world.watcher.refusals == {}


async def test_a_full_disk_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be kept is in force all the same, and that is told."""

    def full(_: Envelope) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.kept, "write", full)
    world.ledger.put(signed(1))
    await world.look()

    assert world.taker.taken == [(1, "ledger")]
    assert [where for where, _ in world.told.faults] == ["last_good"]


# === starts =======================================================================


@pytest.mark.parametrize("how", ["silent", "hanging"])
async def test_a_start_without_ledger(
    world: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk is in force, and the ledger's once it is back."""
    monkeypatch.setattr(module, "START_SECONDS", 0.05)
    world.kept.write(signed(6))
    setattr(world.ledger, how, True)
    await world.watcher.first()

    assert world.taker.taken == [(6, "last_good")]
    assert "no answer" in str(world.watcher.silence)

    setattr(world.ledger, how, False)
    world.ledger.put(signed(6))
    await world.look()
    world.ledger.put(signed(7))
    await world.look()
    assert world.taker.taken[1:] == [(6, "ledger"), (7, "ledger")]
    assert world.watcher.silence is None


async def test_a_start_does_not_go_back(world: World) -> None:
    """A ledger that was restored does not bring back what was replaced."""
    world.kept.write(signed(6))
    world.ledger.put(signed(5))
    await world.watcher.first()

    assert world.taker.taken == [(6, "last_good")]
    assert "is no newer than 6" in world.told.refused[0]


async def test_a_start_with_a_damaged_file(world: World, tmp_path: Path) -> None:
    """It is told, the ledger's is taken, and the file is whole again."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "policy.json").write_bytes(b"\x00")
    world.ledger.put(signed(5))
    await world.watcher.first()

    assert world.taker.taken == [(5, "ledger")]
    assert "policy.json is damaged" in world.told.refused[0]
    assert world.watcher.refusals == {}
    assert world.kept.read(POLICY) == signed(5)


async def test_a_start_with_nothing(world: World) -> None:
    """Nothing is told as refused where nothing was published."""
    await world.watcher.first()

    assert world.taker.taken == []
    assert world.watcher.refusals == {}
    assert world.watcher.silence is None


async def test_a_fault_while_reading_the_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug there does not keep a pod from starting with the ledger."""
    monkeypatch.setattr(world.kept, "read", lambda _: 1 / 0)
    world.ledger.put(signed(5))
    await world.watcher.first()

    assert world.told.faults[0][0] == "last_good"


async def test_a_start_while_a_broken_one_is_published(world: World) -> None:
    """A new pod goes back to what the others have, and the broken one stays refused."""
    world.ledger.put(signed(1), signed(2), sign(draft(3), STRANGER), signed(4, "bad"))
    await world.watcher.first()
    await world.look()

    assert world.taker.taken == [(2, "ledger")]
    assert world.watcher.refusals[POLICY].version == 4
    world.ledger.put(signed(5))
    await world.look()
    assert world.taker.taken == [(2, "ledger"), (5, "ledger")]


async def test_a_start_where_all_is_broken(world: World) -> None:
    """Then nothing is in force, and the newest says why."""
    world.ledger.put(signed(1, "bad"), signed(2, "bad"))
    await world.watcher.first()

    assert world.taker.taken == []
    assert world.watcher.refusals[POLICY].version == 2


async def test_where_nothing_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start has the ledger only, and waits for it; what is older is still refused."""
    monkeypatch.setattr(module, "START_SECONDS", 0)
    watcher = Watcher(world.ledger, [PUBLIC], {POLICY: world.taker}, world.told, None)
    world.ledger.put(signed(3))
    await watcher.first()
    assert world.taker.taken == [(3, "ledger")]
    assert world.kept.read(POLICY) is None

    world.ledger.put(signed(2))
    await watcher._look(asked=False)
    assert world.taker.taken == [(3, "ledger")]
    assert "tokenweir policy restore policy.json`" in world.told.refused[0]
