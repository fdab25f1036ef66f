"""CPU and memory out of /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gateway.processes import CpuTimes, cpu_times, memory, schedstat_ns, tree


def thread(proc: Path, pid: int, tid: int, ns: int, children: str = "") -> None:
    """Make a thread in a /proc of our own."""
    folder = proc / str(pid) / "task" / str(tid)
    folder.mkdir(parents=True)
    (folder / "schedstat").write_text(f"{ns} 77 5\n")
    (folder / "children").write_text(children)


def test_schedstat_begins_with_the_time_on_a_cpu() -> None:
    """What follows is waiting, and how often."""
    assert schedstat_ns("1234567890 42 7\n") == 1_234_567_890


@pytest.mark.parametrize("text", ["", "12\n", "1 2 3 4\n", "a b c\n"])
def test_something_else_is_no_schedstat(text: str) -> None:
    """It is refused, not taken for little."""
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        schedstat_ns(text)


def test_all_threads_and_children_count(tmp_path: Path) -> None:
    """Children of any thread, and theirs, each once."""
    thread(tmp_path, 10, 10, 100, "20 ")
    thread(tmp_path, 10, 11, 50, "30 ")
    thread(tmp_path, 20, 20, 7, "")
    thread(tmp_path, 30, 30, 3, "20 ")

    assert tree([10], tmp_path) == [10, 20, 30]
    assert cpu_times([10], tmp_path).by_thread == {10: 100, 11: 50, 20: 7, 30: 3}


def test_time_since_is_of_threads_that_live() -> None:
    """A thread that is new counts from its start; one that has ended is lost."""
    earlier = CpuTimes({1: 1_000_000_000, 2: 5})
    later = CpuTimes({1: 1_500_000_000, 3: 250_000_000})

    assert later.since(earlier) == pytest.approx(0.75)


def test_a_process_that_has_ended_is_nothing(tmp_path: Path) -> None:
    """It is neither an error nor anybody's."""
    assert tree([999], tmp_path) == []
    assert memory([999], tmp_path) == {"rss_mib": 0.0, "pss_mib": 0.0}


def test_memory_is_in_mib(tmp_path: Path) -> None:
    """Of all processes together."""
    for pid in (1, 2):
        thread(tmp_path, pid, pid, 0)
        (tmp_path / str(pid) / "smaps_rollup").write_text(
            "00400000-7ffd [rollup]\nRss:   2048 kB\nPss:   1024 kB\nPss_Dirty: 9 kB\n"
        )

    assert memory([1, 2], tmp_path) == {"rss_mib": 4.0, "pss_mib": 2.0}


def test_a_real_process_that_works_takes_time() -> None:
    """A child's work is its parent's too, and memory is there."""
    work = "for _ in range(10**6): pass\nprint(1, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        spent = cpu_times([child.pid]).since(CpuTimes({}))

        assert child.pid in tree([os.getpid()])
        assert spent > 0
        assert memory([child.pid])["rss_mib"] > 1
        child.communicate(b"\n")
