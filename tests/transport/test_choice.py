"""Which server one gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorder import Recorder
from tokenweir.transport.choice import Transport, make_server
from tokenweir.transport.grpc_aio import GrpcAioServer
from tokenweir.transport.http2.server import Http2Server


@pytest.mark.parametrize(
    ("transport", "kind"),
    [(Transport.GRPCIO, GrpcAioServer), (Transport.ASYNCIO, Http2Server)],
)
async def test_choice(transport: Transport, kind: type, tmp_path: Path) -> None:
    """Each name has its server."""
    server = make_server(transport, (), tmp_path / "a.sock", Recorder())

    assert isinstance(server, kind)


def test_only_one_is_imported() -> None:
    """Who does not use grpcio does not pay for it."""
    script = (
        "import sys, pathlib\n"
        "from tokenweir.transport.choice import Transport, make_server\n"
        "make_server(Transport.ASYNCIO, (), pathlib.Path('a'), None)\n"
        "assert 'grpc' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
