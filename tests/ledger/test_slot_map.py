"""Which slot a command is about, and who has it."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import InvalidResponse

from tokenweir.ledger.node import Command
from tokenweir.ledger.slot_map import SLOTS, slot_map_of, slot_of

KEY = "{tw:017}:u"
SLOT = slot_of(("GET", KEY))


@pytest.mark.parametrize(
    "command",
    [
        ("HGETALL", KEY),
        ("MGET", KEY, "{tw:017}:v"),
        ("ZRANGE", b"{tw:017}", 0, -1),
        ("EVALSHA", "ab", 2, "{tw:017}", "{tw:017}:e", "x"),
        ("EVAL", "return 1", 1, KEY),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", 5, "STREAMS", KEY, ">"),
        ("XGROUP", "CREATE", KEY, "g", "0-0"),
        ("XINFO", "GROUPS", KEY),
        ("XACK", KEY, "g", "1-0"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_goes_where_its_key_is(command: Command) -> None:
    """Whatever stands before the key, and whatever follows the hash tag."""
    assert slot_of(command) == SLOT


@pytest.mark.parametrize("name", ["PING", "TIME", "INFO", "SCAN", "CLUSTER"])
def test_what_has_no_key_goes_anywhere(name: str) -> None:
    """Its first argument is no key."""
    assert slot_of((name, "memory")) is None


def test_the_slot_is_that_of_the_specification() -> None:
    """As computed there."""
    assert slot_of(("GET", "123456789")) == 12_739


def test_a_map_names_the_primary_of_each_slot() -> None:
    """A node that does not know its own address has that of who was asked."""
    reply = [
        [0, 99, [b"10.0.0.1", 7000, b"id"], [b"10.0.0.9", 7009, b"replica"]],
        [100, 100, [None, 7001, b"id", []]],
        [101, SLOTS - 2, [b"", 7002, b"id"]],
    ]
    slots = slot_map_of(reply, ("asked", 1))

    assert set(slots[:100]) == {("10.0.0.1", 7000)}
    assert slots[100] == ("asked", 7001)
    assert set(slots[101:-1]) == {("asked", 7002)}
    assert slots[-1] is None
    assert len(slots) == SLOTS


@pytest.mark.parametrize(
    "reply",
    [
        None,
        1,
        b"OK",
        [[0]],
        [[0, 1, []]],
        [[0, SLOTS, [b"h", 1]]],
        [["a", "b", [b"h", 1]]],
    ],
)
def test_nonsense_is_no_map(reply: Any) -> None:
    """Whoever says that is no node of a Cluster."""
    with pytest.raises(InvalidResponse):
        slot_map_of(reply, ("asked", 1))
