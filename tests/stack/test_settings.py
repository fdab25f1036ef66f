"""What was asked for."""

from __future__ import annotations

from tokenweir.stack.settings import StackSettings


def test_each_worker_has_an_admin_port() -> None:
    """The first has the one that was asked for, others those after it."""
    assert StackSettings().admin_ports == (9090,)
    assert StackSettings(admin_port=9100, workers=3).admin_ports == (9100, 9101, 9102)
