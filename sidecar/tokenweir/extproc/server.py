"""
The ext_proc service over grpc.aio, on a unix socket.

Raw bytes go in and out: parsing is the session's. A handler returns after the
last answer that its stream needs, so that nothing hangs on this process while a
response flows (a stream left open would truncate it if the process died).
"""

from __future__ import annotations

import asyncio
import inspect
import os
from pathlib import Path
from typing import NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tokenweir.extproc.session import (
    RENDERED_HEADER,
    ROLE_HEADER,
    Session,
    Sessions,
)
from tokenweir.telemetry.hooks import Events

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
# Above the largest body that policy allows (64 MiB), with room for the envelope.
MAX_MESSAGE_BYTES = 72 * 1024 * 1024
# Envoy keeps one connection for each of its workers; streams on it are exchanges.
MAX_STREAMS = 100_000


class Server:
    """
    Serves sessions to one trusted local peer.

    The socket's path belongs to this process alone: grpcio unlinks it on stop,
    even if a successor has bound it meanwhile.
    """

    def __init__(self, sessions: Sessions, socket_path: Path, events: Events) -> None:
        self._sessions = sessions
        self._path = socket_path
        self._events = events
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_concurrent_streams", MAX_STREAMS),
                # Envoy pings every second to see whether this process is alive;
                # grpc would take that for an abuse and hang up.
                ("grpc.http2.max_ping_strikes", 0),
                # What Envoy was rendered from: eleven bytes for each provider.
                ("grpc.max_metadata_size", 32 * 1024),
                ("grpc.so_reuseport", 0),
            ]
        )

    async def start(self) -> None:
        """Bind the socket, for this user only, and serve."""
        handler = grpc.stream_stream_rpc_method_handler(self._process)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._path.unlink(missing_ok=True)
        old = os.umask(0o177)
        try:
            self._server.add_insecure_port(f"unix:{self._path}")
        finally:
            os.umask(old)
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

    async def drain(self) -> None:
        """Tell health checkers that no new exchange is welcome."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_seconds: float) -> None:
        """Refuse new streams, give open ones *grace_seconds*, then cancel them."""
        await self._server.stop(grace_seconds)

    async def _process(
        self, _: object, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        try:
            served = await self._serve(context)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise  # the peer is gone
            # Some task that we waited for. Raised from here it would leave the peer
            # waiting: grpcio then sends nothing.
            await self._fail(context, error)
        except Exception as error:  # noqa: BLE001 - its text must not reach Envoy's log
            await self._fail(context, error)
        if not served:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"{ROLE_HEADER} is missing"
            )

    async def _fail(
        self, context: grpc.aio.ServicerContext[bytes, bytes], error: BaseException
    ) -> NoReturn:
        self._events.fault("session", error)
        await context.abort(grpc.StatusCode.INTERNAL, "processor fault")
        raise AssertionError  # `abort` has raised

    async def _serve(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> bool:
        metadata = _metadata_of(context)
        session = self._sessions.open(
            metadata.get(ROLE_HEADER, ""), metadata.get(RENDERED_HEADER, "")
        )
        if session is None:
            return False
        try:
            await _converse(session, context)
        finally:
            # No await in here: after a cancel it would be cancelled as well.
            session.closed()
        return True


async def _converse(
    session: Session, context: grpc.aio.ServicerContext[bytes, bytes]
) -> None:
    while not session.finished:
        message = await context.read()
        if message is grpc.aio.EOF:
            return
        answer = session.receive(message)
        if inspect.isawaitable(answer):
            answer = await answer
        await context.write(answer)


def _is_cancelled() -> bool:
    """Tell if it is the call itself that was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _metadata_of(context: grpc.aio.ServicerContext[bytes, bytes]) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata() or ()}
