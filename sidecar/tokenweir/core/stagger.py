"""
Staggered return: when refused callers are told to come back.

Theory of operation
===================

A hundred callers that are refused at once would all be told the same moment, the one
when the first of them fits. There they would be refused again, but for that one, and so
on: a wave at each step. So each limit has a *cursor*, and one for each tenant if
tenants share it (see `tokenweir.core.hold.Limit.queue`): the moment that the last refused
caller was told. The next one is told a moment later, by as long as its own request takes
to be earned back: just when it would fit if all came as they were told.

The cursor is a moment, so it decays by itself: once it has passed it means nothing, and
a caller that is alone is told its true wait. It runs at most a window ahead of that wait;
who would be told more begins at the wait again, so that callers in excess are spread over
the window and do not pile up at its end.

Rule 1: nobody is told less than its wait, nor more than that and `WINDOW_MS`.

Rule 2: admission never reads the cursor. Who comes early, or was never refused, is
admitted if there is room. It is advice to callers, not a queue.

Rule 3: refusals are free, so a tenant's put off nobody but its own callers.

WARNING: `ledger/lua/levels.lua` is this module's twin. Change both, and run
`tests/ledger/test_stagger_parity.py`.
"""

from __future__ import annotations

from tokenweir.core.bucket import UNITS_PER_TOKEN

WINDOW_MS = 60_000
# Longer, and SDKs do not come back by themselves: nobody is made to wait so long who
# would not have to anyway.
PATIENCE_MS = 120_000


def step_ms(amount: int, rate: int) -> int:
    """Return how long *amount* takes to be earned at *rate* a minute, rounded up."""
    return -(-amount * UNITS_PER_TOKEN // rate)


def place_ms(cursor_ms: int, now_ms: int, wait_ms: int, step: int) -> int:
    """
    Return the moment to tell a caller, which is the cursor from then on.

    Args:
        cursor_ms: The moment that the last one was told; 0: nobody was.
        now_ms: The moment.
        wait_ms: Until this caller fits, if alone.
        step: How far behind the last one it shall come, in ms.
    """
    first = now_ms + wait_ms
    if cursor_ms <= now_ms:
        return first
    place = max(first, cursor_ms + step)
    return place if place - first <= room_ms(wait_ms) else first


def room_ms(wait_ms: int) -> int:
    """Return the most that may be added to a wait."""
    if wait_ms > PATIENCE_MS:
        return WINDOW_MS
    return min(WINDOW_MS, PATIENCE_MS - wait_ms)
