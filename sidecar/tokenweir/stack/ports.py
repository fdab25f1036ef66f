"""Which TCP ports of this machine are free."""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from tokenweir.stack.failure import PortsTakenError
from tokenweir.stack.settings import HOST

LAST_PORT = 65_535
_TAKEN = "is taken by another program"
_OURS = (
    "is taken by another `tokenweir up`: use that one (`tokenweir tour` shows it), or "
    "end it by Ctrl-C"
)


def require_ports(wanted: Mapping[int, str], ours: Collection[int] = ()) -> None:
    """
    Return if every port in *wanted* can be listened on.

    Args:
        wanted: By port, the option that chooses it; ports in a row may have the same
            option: it chooses the first one.
        ours: Ports of other stacks.

    Raises: PortsTakenError, with another choice for each option whose ports can't.
    """
    by_option: dict[str, list[int]] = defaultdict(list)
    for port, option in wanted.items():
        by_option[option].append(port)
    problems = []
    spoken_for = set(wanted)
    for option, row in by_option.items():
        told = [*_told(row, ours)]
        if not told:
            continue
        others = _next_free(row, spoken_for)
        spoken_for.update(others)
        problems.append(f"{' '.join(told)} Choose another: {option} {others[0]}")
    if problems:
        raise PortsTakenError("\n".join(problems))


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _told(row: Sequence[int], ours: Collection[int]) -> Iterator[str]:
    """Yield why ports of *row* can't be listened on."""
    for port in row:
        reason = _obstacle(port)
        if reason == _TAKEN and port in ours:
            reason = _OURS
        if reason is not None:
            yield f"Port {port} {reason}."


def _obstacle(port: int) -> str | None:
    with socket.socket() as probe:
        # As servers do: a port whose last connections have just ended is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OverflowError:
            return "does not exist"
        except PermissionError:
            return "is reserved for root"
        except OSError as error:
            return _TAKEN if error.errno == errno.EADDRINUSE else "can't be used"
    return None


def _next_free(row: Sequence[int], spoken_for: Collection[int]) -> Sequence[int]:
    """Return as many free ports in a row as in *row*, above its first one."""
    first = max(row[0] + 1, 1024)
    for start in itertools.takewhile(
        lambda start: start + len(row) - 1 <= LAST_PORT, itertools.count(first)
    ):
        found = range(start, start + len(row))
        if not any(port in spoken_for or _obstacle(port) for port in found):
            return found
    with contextlib.suppress(OSError):
        return [free_port()]
    return row
