"""
What a Redis or Valkey has been asked, by ``INFO commandstats``.

Commands that a script calls are counted like those that a client sends. So *calls* are
those of scripts and functions alone, of which an exchange's work with the ledger
consists; *commands* are all.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"^cmdstat_([^:]+):calls=(\d+),", re.MULTILINE)
_SCRIPTS = ("eval", "fcall")
_TIMEOUT_SECONDS = 10.0
# What is asked here.
_OWN = frozenset({"info", "client|list", "ping"})


@dataclass(frozen=True, slots=True)
class Asked:
    """
    Attributes:
        calls: Of scripts and functions.
        commands: All, those within scripts too.
    """

    calls: int
    commands: int

    def since(self, earlier: Asked) -> Asked:
        """Return what was asked since *earlier*."""
        return Asked(self.calls - earlier.calls, self.commands - earlier.commands)


def parse(info: str) -> Asked:
    """Return what the text of ``INFO commandstats`` says."""
    counts = {name.lower(): int(calls) for name, calls in _LINE.findall(info)}
    return Asked(
        sum(calls for name, calls in counts.items() if name.startswith(_SCRIPTS)),
        sum(calls for name, calls in counts.items() if name not in _OWN),
    )


def asked(path: Path) -> Asked:
    """Ask the server that listens at *path*. Raises: OSError."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_SECONDS)
        client.connect(str(path))
        client.sendall(b"INFO commandstats\r\n")
        reader = client.makefile("rb")
        size = int(reader.readline()[1:])
        return parse(reader.read(size).decode())
