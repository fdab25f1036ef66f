"""Windows of both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.transport.http2.errors import (
    ConnectionBrokenError,
    ErrorCode,
    StreamBrokenError,
)
from tokenweir.transport.http2.flow import MAX_WINDOW_BYTES, ReceiveWindow, SendWindow


def test_send_window() -> None:
    """It grows up to its largest size, and may fall below nothing."""
    window = SendWindow(10)
    window.grow(-30, ConnectionBrokenError)
    assert window.free_bytes == -20
    window.grow(MAX_WINDOW_BYTES + 20, ConnectionBrokenError)
    assert window.free_bytes == MAX_WINDOW_BYTES


@pytest.mark.parametrize("kind", [ConnectionBrokenError, StreamBrokenError])
def test_send_window_overflows(
    kind: type[ConnectionBrokenError | StreamBrokenError],
) -> None:
    """Above that it is a fault of whoever let it grow."""
    with pytest.raises(kind) as broken:
        SendWindow(1).grow(MAX_WINDOW_BYTES, kind)
    assert broken.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_receive_window() -> None:
    """No more than its size comes in, as long as nothing is used up."""
    window = ReceiveWindow(100)
    window.take(60, StreamBrokenError)
    window.take(40, StreamBrokenError)
    with pytest.raises(StreamBrokenError) as broken:
        window.take(1, StreamBrokenError)
    assert broken.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_use() -> None:
    """What is used up is told once it is half of it, and may come in again."""
    window = ReceiveWindow(100)
    window.take(100, StreamBrokenError)

    assert window.use(49) == 0
    assert window.use(1) == 50
    window.take(50, StreamBrokenError)


@given(st.lists(st.integers(0, 100)))
def test_never_stalls(sizes: list[int]) -> None:
    """A peer that sends what it may, and all is used up, can always send more."""
    window = ReceiveWindow(100)
    allowed = 100
    for size in sizes:
        sent = min(size, allowed)
        window.take(sent, StreamBrokenError)
        allowed += window.use(sent) - sent
        assert 50 < allowed <= 100
