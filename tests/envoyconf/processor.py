"""
A small ext_proc server for tests: admits everything, and keeps every message.

A call has the role of the filter that opened it. What a test wants otherwise, it says
by replacing `Processor.admit` (the answer to a whole request) or `Processor.watch`
(the answer to a message of the response side).

Run as a program (``python -m tests.envoyconf.processor SOCKET CLUSTER``) it admits
to that cluster and asks for the usage event to be taken out, until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as pb_grpc
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

_PATIENCE_SECONDS = 20.0
# What tells the head of a request that is shown whole: names and values by turns.
HEAD = "request.headers['x-tokenweir-whole']"
_OVERWRITE = 2  # HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD


@dataclass
class Call:
    """
    One stream that Envoy opened.

    Attributes:
        role: ``"admission"`` or ``"response"``.
        clusters: Names of Envoy's clusters, by provider.
        messages: In the order in which they came.
        ended: None while it is open; ``"half-closed"`` or ``"cancelled"`` by Envoy,
            or ``"returned"`` by us.
    """

    role: str
    clusters: Mapping[str, str] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    ended: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the body came first, with the head as an attribute."""
        return self.kinds()[:1] == ["request_body"]

    def kinds(self) -> list[str]:
        """Return what the messages are, in order."""
        return [message.WhichOneof("request") for message in self.messages]

    def headers(self, kind: str = "request_headers") -> dict[str, list[str]]:
        """Return the headers of the first message of *kind*, by name."""
        found: dict[str, list[str]] = {}
        if self.whole and kind == "request_headers":
            told = str(self.attributes(0)[HEAD]).split("\t")
            for name, value in zip(told[::2], told[1::2], strict=True):
                found.setdefault(name, []).append(value)
            return found
        for message in self.messages:
            if message.WhichOneof("request") == kind:
                for header in getattr(message, kind).headers.headers:
                    value = header.raw_value.decode("latin-1") or header.value
                    found.setdefault(header.key, []).append(value)
                return found
        raise KeyError(kind)

    def body(self, kind: str) -> bytes:
        """Return the bytes of all messages of *kind*, joined."""
        of_kind = [m for m in self.messages if m.WhichOneof("request") == kind]
        return b"".join(getattr(message, kind).body for message in of_kind)

    def attributes(self, index: int) -> dict[str, Any]:
        """Return the attributes of message number *index*."""
        found: dict[str, Any] = {}
        for group in self.messages[index].attributes.values():
            found |= MessageToDict(group)
        return found

    def metadata(self, index: int) -> dict[str, Any]:
        """Return the untyped dynamic metadata that message *index* carried."""
        context = self.messages[index].metadata_context
        return {k: MessageToDict(v) for k, v in context.filter_metadata.items()}


Answer = Any  # a ProcessingResponse; grpc's generated classes have no types


class Processor:
    """
    Listens on a unix socket.

        async with Processor(path, cluster="up") as processor: ...

    Attributes:
        calls: Every stream, in the order in which they were opened.
        clusters: Names of Envoy's clusters, by provider.
        before_head: Awaited before a request's head is answered.
        admit: From the call to the answer, once the whole request is there.
        watch: From the call and a response-side message to the answer; None: stop
            answering and return.
    """

    def __init__(self, path: Path, cluster: str = "up", max_mb: int = 64) -> None:
        self.path = path
        self._first_cluster = cluster
        self._max_bytes = max_mb * 1024 * 1024
        self.clusters: Mapping[str, str] = {}
        self._changed = asyncio.Condition()
        self._server: Any = None
        self.reset()

    def reset(self) -> None:
        """Forget every call, and what a test wanted otherwise."""
        self.calls: list[Call] = []
        self.cluster = self._first_cluster
        self.before_head: Callable[[Call], Awaitable[None]] = _at_once
        self.admit: Callable[[Call], Awaitable[Answer]] = self._forward
        self.watch: Callable[[Call, Any], Awaitable[Answer | None]] = self._let_pass

    def of(self, role: str) -> list[Call]:
        """Return the calls of *role*."""
        return [call for call in self.calls if call.role == role]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds. Raises: TimeoutError."""
        async with asyncio.timeout(_PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(condition)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        options = [
            ("grpc.max_receive_message_length", self._max_bytes),
            ("grpc.max_send_message_length", self._max_bytes),
            ("grpc.http2.max_ping_strikes", 0),
        ]
        self._server = grpc.aio.server(options=options)
        pb_grpc.add_ExternalProcessorServicer_to_server(self, self._server)
        healthy = health.aio.HealthServicer()
        await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(healthy, self._server)
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        """Drop every stream and stop listening."""
        await self._server.stop(None)

    async def wait(self) -> None:
        """Serve until the process is ended."""
        await self._server.wait_for_termination()

    async def Process(  # noqa: N802 - the name of the RPC
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[Answer]:
        """Handle one stream."""
        metadata = dict(context.invocation_metadata())
        call = Call(metadata["x-tokenweir-role"], self.clusters)
        self.calls.append(call)
        answers = self._admission if call.role == "admission" else self._response
        call.ended = "cancelled"
        try:
            call.ended = None
            async for answer in answers(call, requests):
                yield answer
            call.ended = call.ended or "returned"
        except (asyncio.CancelledError, GeneratorExit):
            call.ended = "cancelled"
            raise
        finally:
            await asyncio.shield(self._notify())

    async def _admission(
        self, call: Call, requests: AsyncIterator[Any]
    ) -> AsyncIterator[Answer]:
        async for message in requests:
            await self._record(call, message)
            kind = message.WhichOneof("request")
            if kind == "request_headers" and not message.request_headers.end_of_stream:
                await self.before_head(call)
                yield pb.ProcessingResponse(request_headers=pb.HeadersResponse())
                continue
            yield await self.admit(call)
            return

    async def _response(
        self, call: Call, requests: AsyncIterator[Any]
    ) -> AsyncIterator[Answer]:
        async for message in requests:
            await self._record(call, message)
            answer = await self.watch(call, message)
            if answer is None:
                return
            yield answer
        call.ended = "half-closed"

    async def _record(self, call: Call, message: Any) -> None:
        call.messages.append(message)
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _forward(self, call: Call) -> Answer:
        return forward(call, self.cluster)

    async def _let_pass(self, call: Call, message: Any) -> Answer:
        del call
        return let_pass(message)


async def _at_once(call: Call) -> None:
    del call


def forward(
    call: Call,
    cluster: str,
    *,
    timeout_class: str = "default",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Answer:
    """Return the answer that lets the request of *call* go to the provider *cluster*."""
    cluster = call.clusters.get(cluster, cluster)
    names = {"x-tokenweir-cluster": cluster, "x-tokenweir-timeout": timeout_class}
    names |= dict(headers or {})
    common = pb.CommonResponse(clear_route_cache=not call.whole)
    for name, value in names.items() if not call.whole else ():
        option = common.header_mutation.set_headers.add()
        option.header.key = name
        option.header.raw_value = value.encode()
        option.append_action = _OVERWRITE
    if body is not None:
        common.body_mutation.body = body
    kind = call.messages[-1].WhichOneof("request")
    if kind == "request_headers":
        answer = pb.ProcessingResponse(
            request_headers=pb.HeadersResponse(response=common)
        )
    else:
        answer = pb.ProcessingResponse(request_body=pb.BodyResponse(response=common))
    told = dict(metadata or {})
    if call.whole:  # lua/apply.lua does it
        told["request"] = {"set": names, "remove": {}}
    if metadata is not None or told:
        answer.dynamic_metadata.update({"tokenweir": told})
    return answer


def refuse(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    """Return the answer that makes Envoy reply itself."""
    immediate = pb.ImmediateResponse(body=body, details="refused_by_test")
    immediate.status.code = status
    for name, value in headers.items():
        option = immediate.headers.set_headers.add()
        option.header.key = name.replace("_", "-")
        option.header.raw_value = value.encode()
    return pb.ProcessingResponse(immediate_response=immediate)


def let_pass(message: Any) -> Answer:
    """Return the answer that changes nothing."""
    match message.WhichOneof("request"):
        case "request_headers":
            return pb.ProcessingResponse(request_headers=pb.HeadersResponse())
        case "response_headers":
            return pb.ProcessingResponse(response_headers=pb.HeadersResponse())
        case "response_body":
            return pb.ProcessingResponse(response_body=pb.BodyResponse())
        case kind:
            raise AssertionError(kind)


async def _serve(path: Path, cluster: str) -> None:
    async with Processor(path) as processor:

        async def admit(call: Call) -> Answer:
            return forward(call, cluster, metadata={"strip_usage": True})

        processor.admit = admit
        print("serving", flush=True)  # noqa: T201 - for whoever started it
        await processor.wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))
