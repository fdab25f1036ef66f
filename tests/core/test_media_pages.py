"""Pages out of the beginnings of files."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.media_pages import MAX_COUNTS, pages_in

HEAD_BYTES = 48 * 1024


@pytest.mark.parametrize(
    ("head", "pages"),
    [
        (b"<</Type /Pages /Kids [1 0 R 4 0 R] /Count 3>>", 3),
        (b"<</Count 3/Type/Pages>>", 3),
        (b"<<\n/Type\r\n/Pages\n/Count\n 12\n>>", 12),
        (b"<</Type/Pages/Count 1234567>>", 123_456),
        # The largest is that of the whole tree.
        (b"<</Type/Pages/Count 2>><</Type/Pages/Count 7>><</Count 5/Type/Pages>>", 7),
        # Of other things, of the dictionary beside, of none, without a number, too far.
        (b"<</Type /Outlines /Count 9>>", 0),
        (b"<</Type/Pages>><</Count 9>>", 0),
        (b"<</Count 9>><</Type/Pages>>", 0),
        (b"<</Type/PagesOfMine/Count 9>>", 0),
        (b"<</Kind/Pages/Count 9>>", 0),
        (b"<</Type/Pages/Count -9>>", 0),
        (b"<</Type/Pages/Counting 9>>", 0),
        (b"<</Type/Pages/Count9>>", 0),
        (b"<</Type/Pages" + b" " * 500 + b"/Count 9>>", 0),
        (b"<</Type/Pages/Count", 0),
        (b"", 0),
    ],
)
def test_pages(head: bytes, pages: int) -> None:
    """A count is one of pages in a dictionary that says so, wherever it says it."""
    assert pages_in(head) == pages


@pytest.mark.parametrize(("others", "pages"), [(MAX_COUNTS - 1, 9), (MAX_COUNTS, 0)])
def test_so_many_counts_are_looked_at(others: int, pages: int) -> None:
    """A file that has more is made to keep us busy."""
    assert pages_in(b"/Count 1>>" * others + b"/Type/Pages/Count 9") == pages


def seconds(work: Callable[[], object]) -> float:
    """Return how much of the processor's time *work* takes."""

    def once() -> float:
        began = time.process_time()
        for _ in range(5):
            work()
        return time.process_time() - began

    return min(once() for _ in range(5))


@pytest.mark.parametrize(
    "piece", [b"/Count 1/Type", b"/Count" + b" " * 60, b"/Type/Count 1", b"/Count 1 "]
)
def test_no_file_takes_long(piece: bytes) -> None:
    """Whatever is in it, it takes about as long as any other of its size."""
    usual = (b"<</Type/Pages/Count 1>>" * HEAD_BYTES)[:HEAD_BYTES]
    hostile = (b"%PDF" + piece * HEAD_BYTES)[:HEAD_BYTES]

    assert seconds(lambda: pages_in(hostile)) <= 20 * seconds(lambda: pages_in(usual))


@given(st.lists(st.sampled_from([b"/Type", b"/Pages", b"/Count", b" 7", b">", b"<"])))
def test_anything_can_be_read(pieces: list[bytes]) -> None:
    """Whatever stands there: it says nothing, or what is written."""
    assert pages_in(b"".join(pieces)) in (0, 7, 77, 777, 7_777, 77_777, 777_777)
