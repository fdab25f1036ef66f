"""A provider that speaks HTTP/2 over TLS, just well enough to answer."""

from __future__ import annotations

import asyncio
import ssl
from typing import Self

import h2.config
import h2.connection
import h2.events


class H2Upstream:
    """
    Answers every request with 200 and *body*, in two frames.

    Attributes:
        requests: Headers of each request, pseudo headers too.
        bodies: Of each request.
    """

    def __init__(self, tls: ssl.SSLContext, body: bytes = b'{"h2": true}') -> None:
        self.requests: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self._tls = tls
        self._body = body
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The TCP port."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        settings = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(settings)
        connection.initiate_connection()
        bodies: dict[int, bytes] = {}
        while True:
            writer.write(connection.data_to_send())
            data = await reader.read(65_536)
            if not data:
                break
            for event in connection.receive_data(data):
                self._handle(connection, event, bodies)
        writer.close()

    def _handle(
        self,
        connection: h2.connection.H2Connection,
        event: h2.events.Event,
        bodies: dict[int, bytes],
    ) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests.append({str(k): str(v) for k, v in event.headers})
            bodies[event.stream_id] = b""
        elif isinstance(event, h2.events.DataReceived):
            bodies[event.stream_id] += event.data
            connection.acknowledge_received_data(
                event.flow_controlled_length, event.stream_id
            )
        elif isinstance(event, h2.events.StreamEnded):
            self.bodies.append(bodies.pop(event.stream_id))
            half = len(self._body) // 2
            headers = [(":status", "200"), ("content-length", str(len(self._body)))]
            connection.send_headers(event.stream_id, headers)
            connection.send_data(event.stream_id, self._body[:half])
            connection.send_data(event.stream_id, self._body[half:], end_stream=True)
