"""How other software reads forms: Python's `email`, and aiohttp."""

from __future__ import annotations

import asyncio
from email import message_from_bytes
from email.policy import HTTP

import aiohttp
from aiohttp.base_protocol import BaseProtocol

# Its name, whether it is a file, and its value.
Field = tuple[str, bool, bytes]


def by_email(body: bytes, content_type: str) -> list[Field]:
    """Return what the standard library reads."""
    head = f"MIME-Version: 1.0\r\nContent-Type: {content_type}\r\n\r\n".encode()
    message = message_from_bytes(head + body, policy=HTTP)
    found: list[Field] = []
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        value = part.get_payload(decode=True)
        assert isinstance(value, bytes)
        found.append((str(name), part.get_filename() is not None, value))
    return found


def by_aiohttp(body: bytes, content_type: str) -> list[Field]:
    """Return what aiohttp reads."""
    return asyncio.run(_by_aiohttp(body, content_type))


async def _by_aiohttp(body: bytes, content_type: str) -> list[Field]:
    protocol = BaseProtocol(asyncio.get_running_loop())
    stream = aiohttp.StreamReader(protocol, 2**20)
    stream.feed_data(body)
    stream.feed_eof()
    reader = aiohttp.MultipartReader({"Content-Type": content_type}, stream)
    found: list[Field] = []
    while (part := await reader.next()) is not None:
        assert isinstance(part, aiohttp.BodyPartReader)
        value = await part.read(decode=True)
        found.append((str(part.name), part.filename is not None, bytes(value)))
    return found
