"""What is so with grpcio's server and need not be with others."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from tests.recorder import Recorder
from tokenweir.transport.grpc_aio import GrpcAioServer


async def test_path_is_taken_along() -> None:
    """
    A server that stops removes its path, whoever has bound it meanwhile.

    So no two processors may have the same one, not even one after the other.
    """
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        path = Path(folder) / "sidecar.sock"
        server = GrpcAioServer((), path, Recorder())
        await server.start()
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
            await server.stop(0)

        assert not path.exists()
