"""Floods of what leads nowhere."""

from __future__ import annotations

import pytest

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.patience import IDLE_FRAMES_PER_SECOND, Patience


def test_patience() -> None:
    """So many a second are borne for ever, and one more in a second is not."""
    now = 0.0
    patience = Patience(lambda: now)
    for _ in range(3):
        now += 1.0
        for _ in range(IDLE_FRAMES_PER_SECOND):
            patience.idle_frame()

    with pytest.raises(ConnectionBrokenError) as broken:
        patience.idle_frame()
    assert broken.value.code is ErrorCode.ENHANCE_YOUR_CALM
