"""One child: its start, its end, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stack.fakes import READY, STAY, alive, fake, pids, until
from tokenweir.stack.child import Child, ChildSpec
from tokenweir.stack.failure import ChildFailedError

# Ignores SIGTERM, and so does what it started.
STUBBORN = f"trap '' TERM; sleep 600 & echo $! >> $NAME.pids; {READY} wait"


async def started(spec: ChildSpec) -> Child:
    """Return a child that is ready."""
    child = Child(spec)
    child.start()
    await child.wait_until_ready()
    return child


async def test_a_child_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """SIGTERM ends it, and its process id is known as long as it runs."""
    child = await started(fake(tmp_path, "a"))
    (pid,) = pids(tmp_path, "a")
    assert child.pid == pid

    await child.stop(asyncio.Event())

    assert child.pid is None
    assert not alive(pid)
    assert child.obituary() == "a ended with SIGTERM"


async def test_who_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After its grace the child and all that it has started get SIGKILL."""
    spec = replace(fake(tmp_path, "a", STUBBORN), stop_seconds=0.01)
    child = await started(spec)

    await child.stop(asyncio.Event())

    assert child.obituary().startswith("a ended with SIGKILL")
    await until(lambda: not any(alive(pid) for pid in pids(tmp_path, "a")))
    assert len(pids(tmp_path, "a")) == 2


async def test_a_hurry_ends_the_grace(tmp_path: Path) -> None:
    """Who waits for a stubborn child can stop waiting."""
    child = await started(fake(tmp_path, "a", STUBBORN))
    hurry = asyncio.Event()
    stopping = asyncio.ensure_future(child.stop(hurry))
    await asyncio.sleep(0)
    hurry.set()

    await stopping

    assert child.obituary().startswith("a ended with SIGKILL")


async def test_what_a_dead_child_has_started_dies(tmp_path: Path) -> None:
    """A child that ends by itself leaves no process of its group."""
    script = f'sleep 600 & echo $! >> "$NAME.pids"; {READY} exit 3'
    child = Child(fake(tmp_path, "a", script))
    child.start()
    await child.wait()

    _, straggler = pids(tmp_path, "a")
    await until(lambda: not alive(straggler))
    assert child.obituary() == "a ended with exit code 3"


async def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    """SIGKILL ends also a child that SIGSTOP keeps from noticing SIGTERM."""
    child = await started(replace(fake(tmp_path, "a"), stop_seconds=0.01))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)

    await child.stop(asyncio.Event())

    assert child.pid is None


async def test_stopping_what_does_not_run_is_no_failure(tmp_path: Path) -> None:
    """A child that was never started, or has ended, can be stopped and killed."""
    child = Child(fake(tmp_path, "a", "exit 0"))
    await child.stop(asyncio.Event())
    child.kill()
    assert child.obituary() == "a ended with no exit code"
    child.start()
    await child.wait()

    child.kill()
    await child.stop(asyncio.Event())

    assert child.obituary() == "a ended with exit code 0"


async def test_a_death_at_the_start_is_told_with_the_log(tmp_path: Path) -> None:
    """Who does not become ready is described by its last words."""
    script = "echo usual; echo port taken >&2; exit 1"
    child = Child(replace(fake(tmp_path, "a", script), ordinary="usual"))
    child.start()

    with pytest.raises(ChildFailedError) as failure:
        await child.wait_until_ready()

    assert str(failure.value) == (
        "a ended at its start with exit code 1\n  | port taken"
    )


async def test_who_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    """A child that starts for ever is stopped, and its log is told."""
    spec = fake(tmp_path, "a", "echo thinking; exec sleep 600")
    child = Child(replace(spec, start_seconds=0.2))
    child.start()

    with pytest.raises(ChildFailedError, match=r"was not ready after 0 s"):
        await child.wait_until_ready()

    assert child.pid is None


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """A command that can't be run is a failure of the child's, with its reason."""
    child = Child(replace(fake(tmp_path, "a"), command=("/nowhere/envoy",)))

    with pytest.raises(ChildFailedError, match=r"a can't be started: .*No such file"):
        child.start()
    await child.stop(asyncio.Event())


async def test_stale_sockets_are_removed_at_each_start(tmp_path: Path) -> None:
    """What a dead predecessor left at a socket's path does not disturb."""
    socket = tmp_path / "socket"
    socket.touch()
    child = Child(replace(fake(tmp_path, "a", "exit 0"), sockets=(socket,)))
    child.start()
    await child.wait()

    assert not socket.exists()


async def test_ctrl_c_does_not_reach_a_child(tmp_path: Path) -> None:
    """A child is in a process group of its own, with no input."""
    child = await started(fake(tmp_path, "a", f"cat; {STAY}"))

    assert child.pid is not None
    assert os.getpgid(child.pid) == child.pid
    await child.stop(asyncio.Event())


async def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    """Both outputs of every life are in one file."""
    child = Child(fake(tmp_path, "a", "echo out; echo err >&2"))
    for _ in range(2):
        child.start()
        await child.wait()

    assert (tmp_path / "a.log").read_text() == "out\nerr\n" * 2


def test_a_spec_shows_no_environment(tmp_path: Path) -> None:
    """What is printed of a child holds none of its variables."""
    spec = replace(fake(tmp_path, "a"), env={"OPENAI_API_KEY": "sk-secret"})

    assert "sk-secret" not in repr(spec)
