"""A call and its messages, without a connection."""

from __future__ import annotations

import asyncio

import pytest

from tests.recorder import Recorder
from tests.transport.http2.echo import PATH, SECRET, STREAM_PATH, Echo
from tokenweir.transport.base import FAULT
from tokenweir.transport.http2.conversation import Conversation
from tokenweir.transport.http2.methods import Health, methods
from tokenweir.transport.http2.statuses import Status

End = tuple[Status, str]


class Paper:
    """
    Takes replies down.

    Attributes:
        sent: Messages.
        ends: How the stream was ended; there should be one.
        stuck: See `Replies`.
        catches: How often all was dealt with after something was awaited.
        closes: How often the conversation was over.
    """

    def __init__(self, *metadata: str, path: str = PATH, timeout: float | None = None):
        """Begin a conversation with *metadata* about the service at *path*."""
        self.sent: list[bytes] = []
        self.ends: list[End] = []
        self.stuck = False
        self.catches = 0
        self.closes = 0
        self.recorder = Recorder()
        self.service = Echo(path, b"bye" if path == STREAM_PATH else None)
        method = methods([self.service], Health())[path]
        self.talk = Conversation(method, self, self.recorder, self._closed)
        self.talk.begin(dict.fromkeys(metadata, ""), timeout)

    def _closed(self) -> None:
        self.closes += 1

    def send(self, message: bytes) -> None:
        """See `Replies`."""
        assert self.ends == []
        self.sent.append(message)

    def finish(self, status: Status, text: str = "") -> None:
        """See `Replies`."""
        self.ends.append((status, text))

    def caught_up(self) -> None:
        """See `Replies`."""
        self.catches += 1

    def faults(self) -> list[tuple[str, type[BaseException]]]:
        """Return what was reported."""
        return [(where, type(error)) for where, error in self.recorder.faults]

    def over(self, *end: object) -> bool:
        """Tell if it ended once, so, and the call knows."""
        assert self.ends == [tuple(end)], self.ends
        assert [call.closes for call in self.service.calls] == [1]
        return self.talk.over and self.closes == 1


async def turns() -> None:
    """Let tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_answers() -> None:
    """Each message is answered in its turn; the last answer ends the stream, well."""
    paper = Paper()
    paper.talk.take([b"one", b"quiet", b"two"])
    assert paper.sent == [b"one", b"two"]
    assert paper.talk.idle
    paper.talk.take([b"last", b"too late"])

    assert paper.sent == [b"one", b"two", b"last"]
    assert paper.over(Status.OK, "")
    paper.talk.take([b"later still"])
    paper.talk.peer_done()
    paper.talk.abandon()
    assert paper.over(Status.OK, "")


async def test_finished_from_the_start() -> None:
    """A call that has nothing to say ends at once."""
    assert Paper("finished").over(Status.OK, "")


async def test_refused() -> None:
    """A call that is not opened is an invalid argument."""
    paper = Paper("refuse")

    assert paper.ends == [(Status.INVALID_ARGUMENT, "nobody of yours")]
    assert paper.closes == 1
    assert paper.faults() == []


async def test_not_even_opened() -> None:
    """What breaks while a call is opened is a fault."""
    paper = Paper("break")

    assert paper.ends == [(Status.INTERNAL, FAULT)]
    assert paper.closes == 1
    assert paper.recorder.faults == [("echo", SECRET)]


async def test_waits() -> None:
    """What follows an answer that is awaited waits for it, in order."""
    paper = Paper()
    paper.talk.take([b"one", b"wait", b"two"])
    await turns()
    paper.talk.take([b"three"])
    assert paper.sent == [b"one"]
    assert not paper.talk.idle
    paper.service.gate.set()
    await turns()

    assert paper.sent == [b"one", b"wait", b"two", b"three"]
    assert paper.catches == 1
    assert paper.talk.idle


async def test_stuck() -> None:
    """While an answer does not leave, no message is looked at."""
    paper = Paper()
    paper.stuck = True
    paper.talk.take([b"one"])
    assert paper.sent == []
    paper.stuck = False
    paper.talk.go_on()

    assert paper.sent == [b"one"]


@pytest.mark.parametrize(("path", "words"), [(PATH, []), (STREAM_PATH, [b"bye"])])
async def test_peer_done(path: str, words: list[bytes]) -> None:
    """A peer that has said all gets the answers it is owed, then the last word."""
    paper = Paper(path=path)
    paper.talk.take([b"wait"])
    paper.talk.peer_done()
    await turns()
    assert paper.ends == []
    paper.service.gate.set()
    await turns()

    assert paper.sent == [b"wait", *words]
    assert paper.over(Status.OK, "")


async def test_broken() -> None:
    """What breaks ends the stream; its text goes to the hooks alone."""
    paper = Paper()
    paper.talk.take([b"break", b"two"])

    assert paper.over(Status.INTERNAL, FAULT)
    assert paper.recorder.faults == [("echo", SECRET)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [(b"wait and break", RuntimeError), (b"cancelled", asyncio.CancelledError)],
)
async def test_broken_later(message: bytes, kind: type[BaseException]) -> None:
    """So does what breaks while it is awaited, and what somebody else has cancelled."""
    paper = Paper()
    paper.service.gate.set()
    paper.talk.take([message])
    await turns()

    assert paper.over(Status.INTERNAL, FAULT)
    assert paper.faults() == [("echo", kind)]


async def test_broken_close() -> None:
    """A call that does not close well has not ended well."""
    paper = Paper()
    paper.service.breaks_closing = True
    paper.talk.take([b"last"])

    assert paper.over(Status.INTERNAL, FAULT)
    assert paper.recorder.faults == [("echo", SECRET)]


async def test_abandoned() -> None:
    """A call whose peer leaves is told at once if it waits for nothing."""
    paper = Paper()
    paper.talk.take([b"one"])
    paper.talk.abandon()
    paper.talk.abandon()

    assert paper.ends == []
    assert paper.talk.over
    assert [call.closes for call in paper.service.calls] == [1]


async def test_abandoned_while_waiting() -> None:
    """What is awaited is cancelled first, then the call is told, once."""
    paper = Paper()
    paper.talk.take([b"wait", b"two"])
    await turns()
    paper.talk.abandon()
    paper.talk.abandon()
    [call] = paper.service.calls
    assert (call.waits, call.closes) == (1, 0)
    await turns()

    assert (call.waits, call.closes) == (0, 1)
    assert call.got == [b"wait"]
    assert paper.ends == []
    assert paper.sent == []
    assert paper.faults() == []


async def test_abandoned_and_broken() -> None:
    """What breaks when it is cancelled is a fault all the same."""
    paper = Paper()
    paper.talk.take([b"stubborn"])
    await turns()
    paper.talk.abandon()
    await turns()

    assert paper.recorder.faults == [("echo", SECRET)]
    assert [call.closes for call in paper.service.calls] == [1]


async def test_deadline() -> None:
    """A peer that waits no longer is told so, and what it waited for is cancelled."""
    paper = Paper(timeout=0.0)
    paper.talk.take([b"wait"])
    async with asyncio.timeout(30):
        while not paper.talk.over:  # noqa: ASYNC110 - ends with a timer
            await asyncio.sleep(0)

    assert paper.over(Status.DEADLINE_EXCEEDED, "deadline exceeded")


async def test_in_time() -> None:
    """A call that ends in time leaves no timer behind."""
    paper = Paper(timeout=3_600.0)
    paper.talk.take([b"last"])

    assert paper.over(Status.OK, "")
    assert paper.talk._timer is not None
    assert paper.talk._timer.cancelled()


async def test_terminated() -> None:
    """Whoever stops us ends each stream with a status."""
    paper = Paper()
    paper.talk.take([b"wait"])
    await turns()
    paper.talk.terminate(Status.UNAVAILABLE, "the processor ends")
    await turns()

    assert paper.over(Status.UNAVAILABLE, "the processor ends")


async def test_push_after_the_end() -> None:
    """What is pushed when the call is over goes nowhere."""
    paper = Paper()
    paper.talk._push(b"news")
    paper.talk.abandon()
    paper.talk._push(b"late news")

    assert paper.sent == [b"news"]
