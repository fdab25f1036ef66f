"""Small children for tests of the supervisor, and how to see if they live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tokenweir.stack.child import ChildSpec

PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.02
READY = 'touch "$NAME.ready";'
# What a healthy child does: say that it is ready, and stay.
STAY = f"{READY} exec sleep 600"


def fake(folder: Path, name: str, script: str = STAY) -> ChildSpec:
    """
    Return a child that runs *script* in a shell, in *folder*.

    It counts as ready once it has made ``$NAME.ready``.
    """
    ready = folder / f"{name}.ready"

    async def there() -> bool:
        return await asyncio.to_thread(ready.exists)

    shell = f'cd "{folder}"; echo $$ >> "$NAME.pids"; {script}'
    return ChildSpec(
        name=name,
        command=("/bin/sh", "-c", shell),
        env={"PATH": "/usr/bin:/bin", "NAME": name},
        ready=there,
        log=folder / f"{name}.log",
        sockets=(ready,),  # so each life has to make it anew
        start_seconds=PATIENCE_SECONDS,
        stop_seconds=PATIENCE_SECONDS,
    )


def pids(folder: Path, name: str) -> list[int]:
    """Return the process ids of all lives of the child *name*."""
    path = folder / f"{name}.pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    """Tell if the process runs. One that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(
    condition: Callable[[], bool], patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Return once *condition* holds. Raises: TimeoutError."""
    deadline = time.monotonic() + patience_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(POLL_SECONDS)


async def until(
    condition: Callable[[], bool], patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Return once *condition* holds, and let others run meanwhile."""
    async with asyncio.timeout(patience_seconds):
        while not condition():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(POLL_SECONDS)
