"""
What a running Envoy makes of the files that it follows.

It tells nobody but whoever asks its admin interface. Not why it refused one: that is in
its log only.
"""

from __future__ import annotations

import enum
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

# For an answer of Envoy, whose main thread may just be busy.
TIMEOUT_SECONDS = 2.0
_POLL_SECONDS = 0.01
_WANTED = r"^(cluster_manager\.(cds\.|warming)|http\.apps\.rds\.|sds\.)"


class Verdict(enum.StrEnum):
    """What Envoy makes of a file."""

    APPLIED = "applied"
    ABSENT = "absent"  # there is no Envoy: it reads the files when it starts
    UNKNOWN = "unknown"  # it has not said so in time
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Followed:
    """
    A file that Envoy follows, by the name of its statistics.

    Attributes:
        prefix: Of their names.
        warming: Statistics that are 0 once what was applied can be used too.
    """

    prefix: str
    warming: str | None = None


CLUSTERS = Followed("cluster_manager.cds", "cluster_manager.warming_clusters")
ROUTES = Followed("http.apps.rds.tokenweir")


class EnvoyAdmin:
    """
    The admin interface of an Envoy. Blocks; for a thread.

    Args:
        path: Its unix socket.
        patience_seconds: How long Envoy may take to apply a file.
    """

    def __init__(self, path: Path, patience_seconds: float = 5.0) -> None:
        self._path = path
        self._patience_seconds = patience_seconds

    def refusals(self, file: Followed) -> int | None:
        """Return how often Envoy has refused *file* so far; None: it does not say."""
        statistics = self._statistics()
        return None if statistics is None else _refusals(statistics, file)

    def verdict(self, file: Followed, version: str, refusals: int | None) -> Verdict:
        """
        Wait for what Envoy makes of *version* of *file*.

        *refusals* is what there were before it was written.
        """
        if refusals is None:
            return Verdict.ABSENT
        deadline = time.monotonic() + self._patience_seconds
        while (statistics := self._statistics()) is not None:
            if _refusals(statistics, file) > refusals:
                return Verdict.REFUSED
            applied = statistics.get(f"{file.prefix}.version_text") == f'"{version}"'
            warm = not file.warming or statistics.get(file.warming) == "0"
            if applied and warm:
                return Verdict.APPLIED
            if time.monotonic() > deadline:
                # Its name may not resolve yet: that is no reason to wait any longer.
                return Verdict.APPLIED if applied else Verdict.UNKNOWN
            time.sleep(_POLL_SECONDS)
        return Verdict.ABSENT  # it has ended meanwhile

    def _statistics(self) -> Mapping[str, str] | None:
        connection = _UnixConnection(self._path)
        try:
            connection.request("GET", f"/stats?filter={_WANTED}")
            answer = connection.getresponse()
            lines = answer.read().decode(errors="replace").splitlines()
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()
        pairs = (line.partition(": ") for line in lines)
        return {name: value for name, _, value in pairs}


def _refusals(statistics: Mapping[str, str], file: Followed) -> int:
    names = ("update_rejected", "update_failure")
    return sum(int(statistics.get(f"{file.prefix}.{name}", "0")) for name in names)


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
