"""A process that hangs ends all the same, and says where."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PATIENCE_SECONDS = 60.0


def ended(body: str) -> subprocess.CompletedProcess[str]:
    """Run *body* in a process of its own, until it ends."""
    prelude = (
        "import asyncio, threading, time\nfrom tokenweir.processor import last_resort\n"
    )
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(body)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_a_thread_that_hangs() -> None:
    """The process does not wait for it; its code is as it should be."""
    process = ended("""
        def reads_for_ever():
            time.sleep(3600)
        threading.Thread(target=reads_for_ever).start()
        last_resort.end_soon(3, 0.1)
    """)

    assert process.returncode == 3
    assert "reads_for_ever" in process.stderr


def test_a_task_that_hangs() -> None:
    """The event loop would wait for who does not let itself be cancelled."""
    process = ended("""
        async def stays():
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass
        async def main():
            task = asyncio.create_task(stays())
            await asyncio.sleep(0)
            last_resort.end_soon(0, 0.1)
        asyncio.run(main())
    """)

    assert process.returncode == 0
    assert "does not end by itself" in process.stderr


def test_a_loop_that_does_not_turn() -> None:
    """Nothing of ours runs any more; the process ends as failed, and says where it was."""
    process = ended("""
        async def blocks():
            last_resort.end_within(0.1)
            time.sleep(3600)
        asyncio.run(blocks())
    """)

    assert process.returncode == 1
    assert "in blocks" in process.stderr


def test_who_ends_in_time() -> None:
    """Nothing is told."""
    process = ended("""
        last_resort.end_within(3600)
        last_resort.end_soon(3, 3600)
    """)

    assert (process.returncode, process.stderr) == (0, "")
