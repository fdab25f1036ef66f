import io
import threading

from tokenweir.telemetry.lines import LineWriter


class StuckStream(io.StringIO):
    """Takes nothing until it is released, like a pipe that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.released = threading.Event()

    def write(self, text: str) -> int:
        """Wait, then take *text*."""
        self.entered.set()
        self.released.wait(30)
        return super().write(text)

    def wait_for(self, text: str) -> bool:
        """Wait until *text* was written; tell if it was."""
        for _ in range(3_000):
            if text in self.getvalue():
                return True
            threading.Event().wait(0.01)
        return False


class BrokenStream(io.StringIO):
    """Fails, like a pipe whose reader has gone."""

    def write(self, text: str) -> int:
        """Fail."""
        raise BrokenPipeError(text)


def gap(missing: int) -> str:
    """Return the line that tells of missing lines."""
    return f"{missing} missing"


def test_lines_come_in_order() -> None:
    """Every line is written once, in order, with a line end."""
    stream = io.StringIO()
    writer = LineWriter(stream, gap)

    for n in range(1_200):
        writer.write(str(n))

    assert writer.close(30)
    assert stream.getvalue() == "".join(f"{n}\n" for n in range(1_200))


def test_a_stuck_stream_blocks_nobody() -> None:
    """Lines for a stream that nobody reads are dropped, counted, and told of later."""
    stream = StuckStream()
    dropped: list[int] = []
    writer = LineWriter(stream, gap, lambda: dropped.append(1), max_waiting=2)
    writer.write("a")
    assert stream.entered.wait(30)

    for line in "bcdef":  # b and c wait, the rest does not fit
        writer.write(line)
    stream.released.set()

    assert writer.close(30)
    assert len(dropped) == 3
    assert stream.getvalue() == "a\nb\nc\n3 missing\n"


def test_the_gap_stands_where_lines_are_missing() -> None:
    """Once lines flow again, the first of them comes after the note of the gap."""
    stream = StuckStream()
    writer = LineWriter(stream, gap, max_waiting=1)
    writer.write("a")
    assert stream.entered.wait(30)
    writer.write("b")
    writer.write("lost")
    stream.released.set()
    assert stream.wait_for("b\n")

    writer.write("c")

    assert writer.close(30)
    assert stream.getvalue() == "a\nb\n1 missing\nc\n"


def test_close_gives_up_on_a_stuck_stream() -> None:
    """Leaving does not wait for ever, and says that not all was written."""
    stream = StuckStream()
    writer = LineWriter(stream, gap)
    writer.write("a")
    assert stream.entered.wait(30)

    assert not writer.close(0.01)
    stream.released.set()


def test_lines_after_close_are_dropped() -> None:
    """What comes too late is counted as dropped."""
    stream = io.StringIO()
    dropped: list[int] = []
    writer = LineWriter(stream, gap, lambda: dropped.append(1))
    writer.close(30)

    writer.write("late")

    assert len(dropped) == 1
    assert stream.getvalue() == ""


def test_a_broken_stream_is_survived() -> None:
    """A stream that fails takes neither the thread nor the caller with it."""
    writer = LineWriter(BrokenStream(), gap)
    writer.write("a")
    writer.write("b")

    assert writer.close(30)
