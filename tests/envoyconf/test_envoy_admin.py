"""What Envoy makes of a file is read out of its statistics."""

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tokenweir.envoyconf.envoy_admin import CLUSTERS, ROUTES, EnvoyAdmin, Verdict

Statistics = dict[str, Any]
FIRST: Statistics = {
    "cluster_manager.cds.update_rejected": 1,
    "cluster_manager.cds.update_failure": 2,
    "cluster_manager.cds.version_text": '"old"',
    "cluster_manager.warming_clusters": 0,
}


class Envoy:
    """
    Says *answers* one after the other, the last one for ever.

    Attributes:
        path: Its socket.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: list[Statistics] = [FIRST]
        envoy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                more = len(envoy.answers) > 1
                answer = envoy.answers.pop(0) if more else envoy.answers[0]
                lines = [f"{name}: {value}\n" for name, value in answer.items()]
                self.send_response(200)
                self.end_headers()
                self.wfile.write("".join(lines).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def address_string(self) -> str:
                return "unix"

        self.server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def envoy(tmp_path: Path) -> Iterator[Envoy]:
    """Run an Envoy that has only its statistics."""
    running = Envoy(tmp_path / "admin")
    yield running
    running.server.shutdown()
    running.server.server_close()


def test_applied(envoy: Envoy) -> None:
    """A version is applied once Envoy names it, and no cluster is warming any more."""
    admin = EnvoyAdmin(envoy.path)
    refusals = admin.refusals(CLUSTERS)
    new = FIRST | {"cluster_manager.cds.version_text": '"new"'}
    warming = new | {"cluster_manager.warming_clusters": 1}
    envoy.answers = [FIRST, warming, new]

    assert refusals == 3
    assert admin.verdict(CLUSTERS, "new", refusals) is Verdict.APPLIED
    assert envoy.answers == [new]


@pytest.mark.parametrize("name", ["update_rejected", "update_failure"])
def test_refused(envoy: Envoy, name: str) -> None:
    """It is refused as soon as Envoy has refused one more than before."""
    admin = EnvoyAdmin(envoy.path)
    envoy.answers = [FIRST, FIRST | {f"cluster_manager.cds.{name}": 3}]

    assert admin.verdict(CLUSTERS, "new", 3) is Verdict.REFUSED


def test_nothing_is_said(envoy: Envoy) -> None:
    """What Envoy does not say in time is not known; what only warms is applied."""
    admin = EnvoyAdmin(envoy.path, patience_seconds=0)
    assert admin.verdict(CLUSTERS, "new", 3) is Verdict.UNKNOWN
    assert admin.verdict(ROUTES, "new", 0) is Verdict.UNKNOWN
    envoy.answers = [FIRST | {"cluster_manager.warming_clusters": 1}]

    assert admin.verdict(CLUSTERS, "old", 3) is Verdict.APPLIED


def test_no_envoy(tmp_path: Path) -> None:
    """Where there is none, it is not waited for."""
    admin = EnvoyAdmin(tmp_path / "admin")

    assert admin.refusals(ROUTES) is None
    assert admin.verdict(ROUTES, "new", None) is Verdict.ABSENT
    assert admin.verdict(ROUTES, "new", 0) is Verdict.ABSENT
