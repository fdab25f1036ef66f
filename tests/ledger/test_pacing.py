"""No fleet keeps down the server that it waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as NotConnectedError

from tests.ledger.builders import Recorder
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger.link import Link
from tokenweir.ledger.pacing import MAX_A_SECOND, Pacer

WRONG = AuthenticationError("wrong password")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    moment = [1_000.0]
    monkeypatch.setattr("tokenweir.ledger.pacing.time.monotonic", lambda: moment[0])
    return moment


def attempts(pacer: Pacer, now: list[float], seconds: float) -> list[float]:
    """Return when one is let in who asks each millisecond and always fails."""
    found = []
    for number in range(round(seconds * 1_000)):
        now[0] = 1_000.0 + number / 1_000
        with contextlib.suppress(NotConnectedError):
            pacer.begin()
            pacer.end(WRONG)
            found.append(now[0])
    return found


def test_pauses_grow_and_are_of_random_length(now: list[float]) -> None:
    """Of a thousand attempts in a second a handful is made; later one a second."""
    one, two = (attempts(Pacer(), now, 10.0) for _ in range(2))

    for found in (one, two):
        assert len([at for at in found if at < 1_001]) <= 8
        assert len([at for at in found if at >= 1_002]) <= 16
        assert len([at for at in found if at >= 1_002]) >= 7
    assert one != two


def test_who_may_not_connect_is_told_why(now: list[float]) -> None:
    """It is what the last one was told; and until one has succeeded one tries alone."""
    pacer = Pacer()
    pacer.begin()
    pacer.end(WRONG)
    with pytest.raises(AuthenticationError, match="wrong password"):
        pacer.begin()
    now[0] += 1.0
    pacer.begin()
    with pytest.raises(AuthenticationError):
        pacer.begin()
    pacer.end(None)

    pacer.begin()
    pacer.begin()


def test_no_more_than_so_many_a_second(now: list[float]) -> None:
    """Though each succeeds: a server may hang up on everybody."""
    pacer = Pacer()
    for _ in range(MAX_A_SECOND):
        pacer.begin()
        pacer.end(None)
    with pytest.raises(NotConnectedError, match="too many"):
        pacer.begin()
    now[0] += 1.0

    pacer.begin()


# === at a server ================================================================


@dataclass
class Doorkeeper:
    """
    A server that counts who comes.

    Attributes:
        reply: To everything; None: it hangs up at once.
        came: When each connection was made, by the loop's clock.
        port: Where it listens.
    """

    reply: bytes | None = None
    came: list[float] = field(default_factory=list)
    port: int = 0

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one connection."""
        self.came.append(asyncio.get_running_loop().time())
        if self.reply is not None:
            with contextlib.suppress(OSError):
                while data := await reader.read(65_536):
                    # A greeting is followed by others.
                    writer.write(self.reply * data.count(b"*"))
        writer.close()

    def most_in_a_second(self) -> int:
        """Return how many came within the busiest second."""
        return max(sum(at <= each < at + 1.0 for each in self.came) for at in self.came)


@pytest.fixture
async def door() -> AsyncIterator[Doorkeeper]:
    """One such server."""
    made = Doorkeeper()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        (None, {"ConnectionError"}),
        (b"-LOADING Redis is loading the dataset in memory\r\n", {"BusyLoadingError"}),
        (b"-WRONGPASS invalid username-password pair\r\n", {"AuthenticationError"}),
        (b"-ERR max number of clients reached\r\n", {"ConnectionError"}),
    ],
    ids=["hangs up", "loads", "knows us not", "is full"],
)
async def test_a_storm_of_calls_is_no_storm_of_connections(
    door: Doorkeeper, reply: bytes | None, reasons: set[str], events: Recorder
) -> None:
    """
    Twenty processors, each with a call every few milliseconds, to a server that turns
    them all away: some connections each, and every call is told why at once.
    """
    door.reply = reply
    url = f"redis://127.0.0.1:{door.port}?protocol=2"
    if reply and b"WRONGPASS" in reply:
        url = url.replace("://", "://user:password@")
    links = [Link(url, events, deadline_seconds=1.0) for _ in range(20)]

    async def insist(link: Link) -> int:
        for _ in range(50):
            with pytest.raises(LedgerUnavailableError):
                await link.ping()
            await asyncio.sleep(0.005)
        return 50

    calls = sum(await asyncio.gather(*map(insist, links)))

    # While pauses double there is time for some; were each call let in, for a thousand.
    seconds = door.came[-1] - door.came[0] + 1.0
    assert len(links) <= len(door.came) <= len(links) * (6 + 2 * seconds)
    assert door.most_in_a_second() < calls / 5
    assert set(events.reasons) <= reasons
    for link in links:
        await link.close()
