"""
Tells a webhook what budgets have passed, in the background.

Theory of operation. Whoever notices that a budget has passed a threshold puts a
message into a queue and goes on. A task takes them one by one, in order, and tries
each until the receiver has taken it (a status from 200 to 299). After a failure it
rests, longer each time, for it is the receiver that is not well and not the message.
A message may come twice, as when an answer is lost on the way: its id is the same.

A message is given up when it is a day old; and one that finds the queue full is not
taken in. Both are counted and logged. Those that wait when the process ends are lost:
the log has had a line of each, and the ledger knows what is spent.

Where to: only the policy says. The URL never comes from a request, redirects are not
followed, no proxy of the environment is asked, and of the answer only the status is
read. No message, log line or metric has the secret or the URL in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import aiohttp

from tokenweir.core.budget import Crossing
from tokenweir.core.webhook import Webhook
from tokenweir.ending import end_tasks
from tokenweir.telemetry.hooks import Delivery
from tokenweir.telemetry.webhook_message import Message, headers_of, message_of

# Some 500 KB. As many budgets pass a threshold in a bad hour of a large fleet.
MAX_WAITING = 1_000
MAX_AGE_S = 86_400.0
FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0


class WebhookEvents(Protocol):
    """What it tells: the part of `tokenweir.telemetry.hooks.Events` it needs."""

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        """A message was taken, was not taken, or was given up."""

    def fault(self, where: str, error: BaseException) -> None:
        """Something of ours broke."""


def rest_s(failures: int) -> float:
    """Return how long to rest after so many *failures* in a row, at least 1."""
    longest = min(LONGEST_REST_S, FIRST_REST_S * (1 << min(failures - 1, 10)))
    # Many pods may have lost the same receiver: they must not come back at once.
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class BudgetWebhook:
    """
    Used within one event loop.

    Args:
        events: Told how it goes.
        clock: The wall clock in seconds.
        rest: How long to rest after so many failures in a row, in seconds.
        max_waiting: Messages in the queue.
    """

    def __init__(
        self,
        events: WebhookEvents,
        *,
        clock: Callable[[], float] = time.time,
        rest: Callable[[int], float] = rest_s,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._events = events
        self._clock = clock
        self._rest = rest
        self._max_waiting = max_waiting
        self._target: Webhook | None = None
        self._waiting: deque[Message] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None
        self._failures = 0

    def use(self, target: Webhook | None) -> None:
        """Send to *target* from now on, what waits too; None: to nobody."""
        if target == self._target:
            return
        self._target, self._context, self._failures = target, None, 0
        if target is None:
            self._waiting.clear()
        self._news.set()

    def tell(self, crossing: Crossing) -> None:
        """Have the webhook told of *crossing*. Never waits, never raises."""
        if self._target is None:
            return
        if len(self._waiting) >= self._max_waiting:
            self._events.webhook(Delivery.DROPPED, len(self._waiting), "queue_full")
            return
        self._waiting.append(message_of(crossing, self._clock()))
        self._idle.clear()
        self._news.set()

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.create_task(self._run())

    async def stop(self, seconds: float) -> None:
        """End; what waits is tried for *seconds* more, and then given up."""
        if self._task is None:
            return
        self._failures = 0
        self._news.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self._waiting else 0):
                await self._idle.wait()
        task, self._task = self._task, None
        await end_tasks(task, where="webhook", on_fault=self._events.fault)
        for left in reversed(range(len(self._waiting))):
            self._events.webhook(Delivery.DROPPED, left, "stopped")
        self._waiting.clear()

    # === the task ==============================================================

    async def _run(self) -> None:
        # No cookies, no environment: nothing that was not said in the policy.
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        ) as session:
            while True:
                self._news.clear()
                target = self._target
                if target is not None and self._waiting:
                    await self._deliver(session, target, self._waiting[0])
                else:
                    self._idle.set()
                    await self._news.wait()

    async def _deliver(
        self, session: aiohttp.ClientSession, target: Webhook, message: Message
    ) -> None:
        reason = await self._try(session, target, message)
        if target is not self._target:
            return  # it may be told to another one now, or to nobody
        if not reason:
            self._failures = 0
            self._waiting.popleft()
            self._events.webhook(Delivery.DELIVERED, len(self._waiting))
            return
        self._failures += 1
        self._context = None  # certificates may have been replaced
        self._events.webhook(Delivery.FAILED, len(self._waiting), reason)
        if self._clock() - message.at_s > MAX_AGE_S:
            self._waiting.popleft()
            self._events.webhook(Delivery.DROPPED, len(self._waiting), "too_old")
        await self._pause(self._rest(self._failures))

    async def _pause(self, seconds: float) -> None:
        """Rest, unless there is another target, or it is time to leave."""
        failures = self._failures
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while failures == self._failures:
                    await self._news.wait()
                    self._news.clear()

    async def _try(
        self, session: aiohttp.ClientSession, target: Webhook, message: Message
    ) -> str:
        """Send *message* once; return why it was not taken, ``""``: it was."""
        try:
            return await self._send(session, target, message)
        # A URL that no host can have is a ValueError.
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return type(error).__name__
        except Exception as error:  # noqa: BLE001 - the next one must be sent
            self._events.fault("webhook", error)
            return type(error).__name__

    async def _send(
        self, session: aiohttp.ClientSession, target: Webhook, message: Message
    ) -> str:
        if self._context is None:
            # Slow: it reads all authorities of the system.
            self._context = await asyncio.to_thread(
                ssl.create_default_context, cafile=target.ca_file
            )
        async with session.post(
            target.url,
            data=message.body,
            headers=headers_of(message, target.secret, self._clock()),
            allow_redirects=False,
            ssl=self._context,
            timeout=aiohttp.ClientTimeout(total=target.timeout_ms / 1_000),
        ) as response:
            taken = 200 <= response.status < 300
            return "" if taken else f"status_{response.status}"
