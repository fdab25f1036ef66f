"""The server of reference: grpc.aio, on a unix socket."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tokenweir.telemetry.hooks import Events
from tokenweir.transport.base import (
    FAULT,
    MAX_MESSAGE_BYTES,
    MAX_METADATA_BYTES,
    MAX_STREAMS,
    Call,
    Service,
)
from tokenweir.transport.private_files import private_files


class GrpcAioServer:
    """
    Serves *services* to one trusted local peer, at *socket_path*.

    The socket's path belongs to this process alone: grpcio unlinks it on stop,
    even if a successor has bound it meanwhile.
    """

    def __init__(
        self, services: Sequence[Service], socket_path: Path, events: Events
    ) -> None:
        self._services = services
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
                ("grpc.max_metadata_size", MAX_METADATA_BYTES),
                ("grpc.so_reuseport", 0),
            ]
        )

    async def start(self) -> None:
        """See `tokenweir.transport.base.Server`."""
        self._server.add_generic_rpc_handlers(
            tuple(_handler(service, self._events) for service in self._services)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._path.unlink(missing_ok=True)
        with private_files():
            self._server.add_insecure_port(f"unix:{self._path}")
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

    async def drain(self) -> None:
        """See `tokenweir.transport.base.Server`."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_seconds: float) -> None:
        """See `tokenweir.transport.base.Server`."""
        await self._server.stop(grace_seconds)


def _handler(service: Service, events: Events) -> grpc.GenericRpcHandler:
    _, name, method = service.path.split("/")
    handler = grpc.stream_stream_rpc_method_handler(_Calls(service, events).process)
    return grpc.method_handlers_generic_handler(name, {method: handler})


class _Calls:
    """
    The calls of one service.

    A handler returns after the last answer that its stream needs, so that nothing
    hangs on this process while a response flows (a stream left open would truncate
    it if the process died).
    """

    def __init__(self, service: Service, events: Events) -> None:
        self._service = service
        self._events = events

    async def process(
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
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self._service.refusal)

    async def _fail(
        self, context: grpc.aio.ServicerContext[bytes, bytes], error: BaseException
    ) -> NoReturn:
        self._events.fault(self._service.name, error)
        await context.abort(grpc.StatusCode.INTERNAL, FAULT)
        raise AssertionError  # `abort` has raised

    async def _serve(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> bool:
        call = self._service.open(_metadata_of(context))
        if call is None:
            return False
        try:
            await self._converse(call, context)
        finally:
            # No await in here: after a cancel it would be cancelled as well.
            call.closed()
        return True

    async def _converse(
        self, call: Call, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        while not call.finished:
            message = await context.read()
            if message is grpc.aio.EOF:
                if (last := self._service.last_word) is not None:
                    await context.write(last)
                return
            answer = call.receive(message)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is not None:
                await context.write(answer)


def _is_cancelled() -> bool:
    """Tell if it is the call itself that was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _metadata_of(context: grpc.aio.ServicerContext[bytes, bytes]) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata() or ()}
