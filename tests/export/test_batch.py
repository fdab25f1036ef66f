"""What was delivered is sorted, and all of it acknowledged."""

from __future__ import annotations

from tests.export.rows import MIDNIGHT_MS, flat, record
from tokenweir.export.batch import Batch
from tokenweir.export.streams import Delivery


def test_sorting() -> None:
    """Records, what is none and what has expired are kept apart; all are taken."""
    batch = Batch()
    assert not batch
    batch.add([], 1.0)
    batch.add([Delivery("t", f"{MIDNIGHT_MS}-0", flat(record()))], 2.0)
    batch.add([Delivery("t", "1-1", {b"a": b"b"}), Delivery("t", "1-2", None)], 3.0)

    assert [row.hold for row in batch.rows] == ["0-1-a"]
    assert [bad.entry for bad in batch.bad] == ["1-1"]
    assert batch.expired == 1
    assert batch.taken == [("t", f"{MIDNIGHT_MS}-0"), ("t", "1-1"), ("t", "1-2")]
    assert len(batch) == 3
    assert batch.since == 2.0
