"""A webhook is told everything, in order, however ill it is; and nobody waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.envoyconf.certificates import Authority
from tests.pod import until
from tests.telemetry.receiver import SECRET, Receiver, is_signed, receiver
from tokenweir.core.budget import Crossing
from tokenweir.core.policy import Secret
from tokenweir.core.webhook import Webhook
from tokenweir.core.window import Window
from tokenweir.telemetry.hooks import Delivery
from tokenweir.telemetry.webhook import (
    LONGEST_REST_S,
    MAX_AGE_S,
    BudgetWebhook,
    rest_s,
)

CROSSING = Crossing("acme.b|budget_usd|tenant=acme", 50, 82, 100, Window(0, 9))


@dataclass
class Told:
    """Notes what the webhook's sender tells of itself."""

    outcomes: list[tuple[str, int, str]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        self.outcomes.append((outcome, waiting, reason))

    def fault(self, where: str, error: BaseException) -> None:
        assert where == "webhook"
        self.faults.append(error)


@contextlib.asynccontextmanager
async def sending(
    target: Webhook | None, told: Told, **options: Any
) -> AsyncIterator[BudgetWebhook]:
    """Run a sender to *target* that hardly rests."""
    sender = BudgetWebhook(told, **{"rest": lambda _: 0.01, **options})
    sender.use(target)
    sender.start()
    try:
        yield sender
    finally:
        await sender.stop(0)


def to(it: Receiver, **fields: Any) -> Webhook:
    """Return how *it* is told."""
    return Webhook(it.url, Secret(SECRET), **fields)


def tell(sender: BudgetWebhook, *percents: int) -> None:
    """Have *sender* tell of so many thresholds."""
    for percent in percents:
        sender.tell(replace(CROSSING, percent=percent))


def percents(it: Receiver) -> list[int]:
    """Return the thresholds that *it* was told of."""
    return [body["threshold_percent"] for body in it.bodies]


async def test_what_is_told() -> None:
    """Each once and in order, signed, to where the policy says, and nothing else."""
    told = Told()
    async with receiver() as it, sending(to(it), told) as sender:
        tell(sender, 50, 80, 95)
        await until(lambda: len(told.outcomes) == 3)

    assert percents(it) == [50, 80, 95]
    assert it.paths == ["/hook?team=llm"] * 3
    assert all(is_signed(*post, SECRET.encode()) for post in it.posts)
    assert all("cookie" not in map(str.lower, headers) for headers, _ in it.posts)
    assert [outcome[0] for outcome in told.outcomes] == ["delivered"] * 3
    assert told.outcomes[-1] == ("delivered", 0, "")


@pytest.mark.parametrize("statuses", [[500, 503, 429], [400, 404], [302, 307]])
async def test_what_is_not_taken_is_told_again(statuses: list[int]) -> None:
    """Any other status than success is a failure; a redirect is not followed."""
    told = Told()
    async with receiver() as it, sending(to(it), told) as sender:
        it.statuses = list(statuses)
        tell(sender, 50, 80)
        await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert percents(it) == [50] * (len(statuses) + 1) + [80]
    assert len(set(it.ids)) == 2
    assert told.outcomes == [
        *(("failed", 2, f"status_{status}") for status in statuses),
        ("delivered", 1, ""),
        ("delivered", 0, ""),
    ]
    assert "/elsewhere" not in it.paths


async def test_down_and_up() -> None:
    """Who is down when it happens is told when it is up again."""
    told = Told()
    async with receiver() as gone:
        target = to(gone)
    port = int(target.url.split(":")[2].split("/")[0])
    async with sending(target, told) as sender:
        tell(sender, 50, 80)
        await until(lambda: len(told.outcomes) >= 3)
        async with receiver(port) as it:
            await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert told.outcomes[0] == ("failed", 2, "ClientConnectorError")
    assert percents(it) == [50, 80]


async def test_slow() -> None:
    """Who takes too long is tried again, with the same id; nobody waits for it."""
    told = Told()
    async with (
        receiver() as it,
        sending(to(it, timeout_ms=50), told) as sender,
    ):
        it.hang = asyncio.Event()
        tell(sender, 50)
        await until(lambda: len(told.outcomes) >= 2)
        it.hang.set()
        await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert told.outcomes[0][0] == "failed"
    assert "Timeout" in told.outcomes[0][2]
    assert len(it.ids) >= 3
    assert len(set(it.ids)) == 1


async def test_certificates(tmp_path: Path) -> None:
    """Nothing is sent to who can't be trusted; who has our CA's certificate is."""
    told = Told()
    authority = Authority.create(tmp_path)
    context = authority.server_context("127.0.0.1")
    async with receiver(context=context) as it, sending(to(it), told) as sender:
        tell(sender, 50)
        await until(lambda: told.outcomes)
        assert told.outcomes[0][2] == "ClientConnectorCertificateError"
        assert it.posts == []
        sender.use(to(it, ca_file=str(authority.file)))
        await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert percents(it) == [50]


async def test_no_certificates() -> None:
    """A bundle that is gone is a failure like another, and is looked for again."""
    told = Told()
    async with receiver() as it, sending(to(it, ca_file="/no/such"), told) as sender:
        tell(sender, 50)
        await until(lambda: len(told.outcomes) >= 2)

    assert told.outcomes[0] == ("failed", 1, "FileNotFoundError")
    assert it.posts == []


async def test_another_target() -> None:
    """A policy that names another one moves what waits there, at once."""
    told = Told()
    async with receiver() as first, receiver() as second:
        first.statuses = [500] * 9
        async with sending(to(first), told, rest=lambda _: 3_600.0) as sender:
            tell(sender, 50, 80)
            await until(lambda: told.outcomes)
            sender.use(to(first))  # the same as before: it goes on resting
            sender.use(to(second))
            await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert percents(second) == [50, 80]
    assert len(first.posts) == 1


async def test_no_target() -> None:
    """Without a webhook nothing is kept; one that is taken away is told no more."""
    told = Told()
    async with receiver() as it:
        it.statuses = [500] * 9
        async with sending(None, told, rest=lambda _: 3_600.0) as sender:
            tell(sender, 50)
            sender.use(to(it))
            tell(sender, 80)
            await until(lambda: told.outcomes)
            sender.use(None)
            it.statuses = []
            sender.use(to(it))
            tell(sender, 95)
            await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert percents(it) == [80, 95]


async def test_a_target_that_changes_while_it_answers() -> None:
    """What the old one has taken meanwhile may be told to the new one too."""
    told = Told()
    async with receiver() as first, receiver() as second:
        first.hang = asyncio.Event()
        async with sending(to(first), told) as sender:
            tell(sender, 50)
            await until(lambda: first.posts)
            sender.use(to(second))
            first.hang.set()
            await until(lambda: told.outcomes)

    assert first.ids == second.ids


async def test_a_full_queue() -> None:
    """What does not fit is not taken in, and that is told."""
    told = Told()
    async with sending(to(Receiver("http://127.0.0.1:1/")), told, max_waiting=2) as it:
        tell(it, 50, 80, 95)

    assert told.outcomes[0] == ("dropped", 2, "queue_full")


async def test_an_end() -> None:
    """What waits is tried once more, also out of a rest; the rest is given up."""
    told = Told()
    async with receiver() as it:
        it.statuses = [500]
        sender = BudgetWebhook(told, rest=lambda _: 3_600.0)
        await sender.stop(9)  # it was never started
        sender.use(to(it))
        sender.start()
        tell(sender, 50, 80)
        await until(lambda: told.outcomes)
        await sender.stop(20)
        assert percents(it) == [50, 50, 80]
        it.statuses = [500] * 9
        sender.start()
        tell(sender, 50, 80)
        await until(lambda: len(told.outcomes) > 3)
        await sender.stop(0)

    assert told.outcomes[-2:] == [("dropped", 1, "stopped"), ("dropped", 0, "stopped")]


async def test_too_old() -> None:
    """After a day a message is given up, and the next one has its turn."""
    told, moments = Told(), iter([0.0, 1.0, *[MAX_AGE_S + 0.5] * 99])
    async with receiver() as it:
        it.statuses = [500]
        async with sending(to(it), told, clock=lambda: next(moments)) as sender:
            tell(sender, 50, 80)
            await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert told.outcomes[:2] == [("failed", 2, "status_500"), ("dropped", 1, "too_old")]
    assert percents(it) == [50, 80]


async def test_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody thought of is a fault, and a failure like another."""
    told = Told()
    error = RuntimeError(SECRET)

    def broken(*_: object, **__: object) -> None:
        raise error

    async with receiver() as it, sending(to(it), told) as sender:
        with monkeypatch.context() as patch:
            patch.setattr(aiohttp.ClientSession, "post", broken)
            tell(sender, 50)
            await until(lambda: told.outcomes)
        await until(lambda: ("delivered", 0, "") in told.outcomes)

    assert told.faults[0] is error
    assert told.outcomes[0] == ("failed", 1, "RuntimeError")
    assert SECRET not in str(told.outcomes)


def test_rests() -> None:
    """They get longer up to a minute, and no two pods rest alike."""
    for failures, longest in ((1, 1), (2, 2), (5, 16), (7, 60), (10_000, 60)):
        rests = [rest_s(failures) for _ in range(50)]
        assert all(longest / 2 <= rest <= longest for rest in rests)
        assert len(set(rests)) > 1
    assert LONGEST_REST_S == 60
