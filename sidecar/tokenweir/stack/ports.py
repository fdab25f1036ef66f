"""Which TCP ports of this machine are free."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Mapping

from tokenweir.stack.failure import PortsTakenError
from tokenweir.stack.settings import HOST

LAST_PORT = 65_535


def require_ports(wanted: Mapping[int, str]) -> None:
    """
    Return if every port in *wanted* can be listened on.

    Args:
        wanted: By port, the option that chooses it.

    Raises: PortsTakenError, with another choice for each port that can't.
    """
    problems = []
    spoken_for = set(wanted)
    for port, option in wanted.items():
        reason = _obstacle(port)
        if reason is None:
            continue
        other = _next_free(port, spoken_for)
        spoken_for.add(other)
        problems.append(f"Port {port} {reason}. Choose another: {option} {other}")
    if problems:
        raise PortsTakenError("\n".join(problems))


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


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
            taken = error.errno == errno.EADDRINUSE
            return "is taken by another program" if taken else "can't be used"
    return None


def _next_free(port: int, spoken_for: set[int]) -> int:
    for candidate in range(max(port + 1, 1024), LAST_PORT + 1):
        if candidate not in spoken_for and _obstacle(candidate) is None:
            return candidate
    with contextlib.suppress(OSError):
        return free_port()
    return port
