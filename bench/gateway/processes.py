"""
CPU time and memory of processes with all their threads and children, from /proc.

Why schedstat: /proc/PID/stat counts in ticks of 10 ms, some of which are guessed;
schedstat counts nanoseconds on a CPU. /proc/PID/schedstat is of the first thread only,
so those of all threads are added up. What a thread did that has ended since is lost: no
program here starts threads by the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
NANOSECONDS = 1_000_000_000
_MEMORY_FIELDS = {"Rss": "rss_mib", "Pss": "pss_mib"}


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """*by_thread*: nanoseconds on a CPU since its start, by thread id."""

    by_thread: Mapping[int, int]

    def since(self, earlier: CpuTimes) -> float:
        """Return the seconds of CPU since *earlier*, of threads that are there still."""
        spent = sum(
            now - earlier.by_thread.get(thread, 0)
            for thread, now in self.by_thread.items()
        )
        return spent / NANOSECONDS


def schedstat_ns(text: str) -> int:
    """
    Return the nanoseconds on a CPU that a file ``schedstat`` tells.

    Raises: ValueError if it is something else.
    """
    ran, _waited, _times = text.split()
    return int(ran)


def tree(roots: Iterable[int], proc: Path = PROC) -> list[int]:
    """Return *roots* and all their descendants that live, each once."""
    found: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found and (proc / str(pid)).is_dir():
            found[pid] = None
            waiting += _children(pid, proc)
    return list(found)


def cpu_times(roots: Iterable[int], proc: Path = PROC) -> CpuTimes:
    """Return the CPU times of the trees of *roots*."""
    by_thread = {}
    for pid in tree(roots, proc):
        for folder in _threads(pid, proc):
            try:
                text = (folder / "schedstat").read_text()
            except OSError:  # it has just ended
                continue
            by_thread[int(folder.name)] = schedstat_ns(text)
    return CpuTimes(by_thread)


def memory(roots: Iterable[int], proc: Path = PROC) -> dict[str, float]:
    """
    Return ``rss_mib`` and ``pss_mib`` of the trees of *roots*, in MiB.

    Rss counts what processes share once for each, Pss once in all.
    """
    sums = dict.fromkeys(_MEMORY_FIELDS.values(), 0.0)
    for pid in tree(roots, proc):
        try:
            text = (proc / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        for name, kib in _memory_lines(text):
            sums[name] += kib / 1024
    return sums


def _memory_lines(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _MEMORY_FIELDS:
            yield _MEMORY_FIELDS[name], int(rest.split()[0])


def _threads(pid: int, proc: Path) -> list[Path]:
    try:
        folders = (proc / str(pid) / "task").iterdir()
        return sorted(folders, key=lambda folder: int(folder.name))
    except OSError:
        return []


def _children(pid: int, proc: Path) -> list[int]:
    children = []
    for folder in _threads(pid, proc):
        try:
            children += [
                int(each) for each in (folder / "children").read_text().split()
            ]
        except OSError:
            continue
    return children
