"""One server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from tests.pod import until
from tests.servers import Server
from tokenweir.ledger.address import address_of
from tokenweir.ledger.node import BATCH, Node, node_at


@pytest.fixture
async def node(server: Server) -> AsyncIterator[Node]:
    """Each server."""
    made = node_at(None, address_of(server.url).options)
    yield made
    await made.close()


async def test_a_command_is_answered(node: Node) -> None:
    """An error is raised; all servers are this one."""
    assert await node.execute("ECHO", b"x") == b"x"
    with pytest.raises(ResponseError):
        await node.execute("NO SUCH COMMAND")
    assert await node.nodes() == (node,)


async def test_an_error_spoils_no_other_answer(node: Node) -> None:
    """Of many commands that go out together, each has an answer of its own."""
    commands = [("ECHO", str(number)) for number in range(BATCH + 5)]
    commands[3] = ("HGET", "few")
    replies = await node.pipelined(commands)

    assert isinstance(replies.pop(3), ResponseError)
    assert replies == [b"%d" % n for n in range(BATCH + 5) if n != 3]


async def test_who_is_to_be_asked_twice_says_so(node: Node) -> None:
    """A server that is no node of a Cluster knows no ASKING, and that is told."""
    assert await node.asking("ECHO", "x") == b"x"
    with pytest.raises(ResponseError):
        await node.asking("NO SUCH COMMAND")


async def test_one_that_is_not_needed_any_more_ends_its_calls(node: Node) -> None:
    """It is closed only once the last of them has its answer."""
    await node.execute("PING")
    waits = asyncio.create_task(node.execute("BLPOP", "never", "0.3"))
    await until(lambda: bool(node._pool._in_use_connections))
    retiring = asyncio.create_task(node.retire())

    assert await waits is None
    await retiring


async def test_connections_that_nobody_uses_are_dropped(node: Node) -> None:
    """The next call makes one anew."""
    await node.execute("PING")
    await node.drop(time.monotonic())
    assert not any(each.is_connected for each in node._pool._available_connections)

    assert await node.execute("ECHO", "x") == b"x"
