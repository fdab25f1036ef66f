"""Children that start in order, come back, and stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stack.fakes import READY, STAY, alive, fake, pids, until, wait_until
from tokenweir.stack.backoff import MAX_DEATHS
from tokenweir.stack.child import ChildSpec
from tokenweir.stack.failure import ChildFailedError
from tokenweir.stack.supervisor import Supervisor

SOON = 0.001


@asynccontextmanager
async def watched(
    tiers: Sequence[Sequence[ChildSpec]], told: list[str]
) -> AsyncIterator[asyncio.Task[None]]:
    """Run *tiers* under a supervisor; gives the task that watches them."""
    supervisor = Supervisor(
        tiers, told.append, asyncio.Event(), first_delay_seconds=SOON
    )
    try:
        await supervisor.start()
        watching = asyncio.ensure_future(supervisor.watch())
        yield watching
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, ChildFailedError):
            await watching
    finally:
        await supervisor.stop()


async def test_tiers_start_and_stop_in_order(tmp_path: Path) -> None:
    """A tier starts when the one before is ready, and stops when the next has ended."""
    note = (
        f'echo "+$NAME" >> order; trap \'echo "-$NAME" >> order; exit\' TERM; {READY}'
    )
    script = f"{note} while :; do sleep 0.01; done"
    tiers = [[fake(tmp_path, name, script)] for name in ("ledger", "envoy")]
    async with watched(tiers, []):
        pass

    order = (tmp_path / "order").read_text().split()
    assert order == ["+ledger", "+envoy", "-envoy", "-ledger"]


async def test_a_killed_child_comes_back(tmp_path: Path) -> None:
    """A death is told with the log's last lines, and the child is started again."""
    told: list[str] = []
    tiers = [[fake(tmp_path, "a", f"echo first words; {STAY}"), fake(tmp_path, "b")]]
    async with watched(tiers, told):
        with (tmp_path / "a.log").open("a") as log:
            log.write("last words\n")
        os.kill(pids(tmp_path, "a")[0], signal.SIGKILL)
        await until(lambda: len(told) == 2)

        assert alive(pids(tmp_path, "a")[1])
    assert told == [
        "a ended with SIGKILL (somebody killed it, or memory ran out)\n  | last words\nStarting a again in 0.001 s.",
        "a is back.",
    ]
    assert len(pids(tmp_path, "b")) == 1


async def test_a_child_that_dies_at_its_restart_is_tried_again(tmp_path: Path) -> None:
    """A failed restart counts as a death, and the next one may succeed."""
    told: list[str] = []
    # Fine, then broken, then fine.
    script = f'[ $(wc -l < "$NAME.pids") = 2 ] && exit 7; {STAY}'
    async with watched([[fake(tmp_path, "a", script)]], told):
        os.kill(pids(tmp_path, "a")[0], signal.SIGTERM)
        await until(lambda: "a is back." in told)

    assert told[1].startswith("a ended at its start with exit code 7\n")
    assert len(pids(tmp_path, "a")) == 3


async def test_who_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    """After too many deaths the supervisor fails, with the reason."""
    told: list[str] = []
    script = f'[ $(wc -l < "$NAME.pids") -gt 1 ] && {{ echo broken; exit 9; }}; {STAY}'
    async with watched([[fake(tmp_path, "a", script)]], told) as watching:
        os.kill(pids(tmp_path, "a")[0], signal.SIGKILL)
        with pytest.raises(ChildFailedError) as failure:
            await watching

    assert "a ended at its start with exit code 9\n  | broken\n" in str(failure.value)
    assert str(failure.value).endswith("giving up.")
    assert len(pids(tmp_path, "a")) == MAX_DEATHS + 1


async def test_a_program_that_vanishes_is_given_up(tmp_path: Path) -> None:
    """A restart that is impossible is a failed restart, not a crash of ours."""
    program = tmp_path / "program"
    program.symlink_to("/bin/sh")
    spec = fake(tmp_path, "a")
    spec = replace(spec, command=(str(program), *spec.command[1:]))
    async with watched([[spec]], []) as watching:
        program.unlink()
        os.kill(pids(tmp_path, "a")[0], signal.SIGKILL)
        with pytest.raises(ChildFailedError, match="can't be started"):
            await watching


async def test_a_child_that_does_not_start_ends_all(tmp_path: Path) -> None:
    """At the first start there is no second try, and nobody is left."""
    supervisor = Supervisor(
        [
            [fake(tmp_path, "fine")],
            [fake(tmp_path, "slow", "sleep 600"), fake(tmp_path, "broken", "exit 1")],
            [fake(tmp_path, "never")],
        ],
        print,
        asyncio.Event(),
    )

    with pytest.raises(ChildFailedError, match="broken ended at its start"):
        await supervisor.start()
    await supervisor.stop()

    assert not any(alive(pid) for n in ("fine", "slow") for pid in pids(tmp_path, n))
    assert pids(tmp_path, "never") == []
    assert [child.spec.name for child in supervisor.children] == [
        "fine",
        "slow",
        "broken",
        "never",
    ]


async def test_all_stop_also_when_one_is_dead(tmp_path: Path) -> None:
    """A child that has ended already keeps nobody from being stopped."""
    tiers = [[fake(tmp_path, "a")], [fake(tmp_path, "b")]]
    supervisor = Supervisor(tiers, print, asyncio.Event())
    await supervisor.start()
    os.kill(pids(tmp_path, "b")[0], signal.SIGKILL)

    await supervisor.stop()

    assert not alive(pids(tmp_path, "a")[0])


# A stack of two children whose parent is killed.
PARENT = """
import asyncio, sys
from pathlib import Path
from tests.stack.fakes import fake
from tokenweir.stack.supervisor import Supervisor

async def main():
    folder = Path(sys.argv[1])
    tiers = [[fake(folder, "a")], [fake(folder, "b")]]
    supervisor = Supervisor(tiers, print, asyncio.Event())
    await supervisor.start()
    print("ready", flush=True)
    await supervisor.watch()

asyncio.run(main())
"""


def test_a_killed_supervisor_leaves_no_orphan(tmp_path: Path) -> None:
    """SIGKILL of the supervisor ends every child."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()

    children = [*pids(tmp_path, "a"), *pids(tmp_path, "b")]
    assert len(children) == 2
    wait_until(lambda: not any(alive(pid) for pid in children))
