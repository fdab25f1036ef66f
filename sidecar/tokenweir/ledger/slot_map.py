"""Which node of a Cluster has which slot, and which key a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.crc import key_slot
from redis.exceptions import InvalidResponse

from tokenweir.ledger.address import HostPort

SLOTS = 16_384
# Commands whose key is not their first argument: where it is.
_PLACES = {"EVAL": 3, "EVALSHA": 3, "XGROUP": 2, "XINFO": 2}
_KEYLESS = frozenset({"CLUSTER", "ECHO", "INFO", "PING", "SCAN", "SCRIPT", "TIME"})

SlotMap = list[HostPort | None]


def slot_of(command: Sequence[str | int | bytes]) -> int | None:
    """Return the slot that *command* is about; None: any node will do."""
    name = str(command[0])
    if name in _KEYLESS:
        return None
    if name == "XREADGROUP":
        key = command[command.index("STREAMS") + 1]
    else:
        key = command[_PLACES.get(name, 1)]
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def slot_of_key(key: str) -> int:
    """Return the slot that *key* is in."""
    slot: int = key_slot(key.encode())
    return slot


def slot_map_of(reply: Any, asked: HostPort) -> SlotMap:
    """
    Return what CLUSTER SLOTS says.

    Args:
        reply: As it was sent.
        asked: The node that said it: it need not know its own address.

    Raises: InvalidResponse, if it makes no sense.
    """
    slots: SlotMap = [None] * SLOTS
    try:
        for first, last, primary, *_ in reply:
            name = (primary[0] or b"").decode()
            node = (asked[0] if name in {"", "?"} else name, int(primary[1]))
            for slot in range(first, last + 1):
                slots[slot] = node
    except (AttributeError, IndexError, TypeError, ValueError):
        raise InvalidResponse("is no map of slots") from None
    return slots
