"""
The processor, whose holds expire sooner: for tests of what the reaper does.

    python -m tests.cases.short_holds serve …

Run instead of `tokenweir`. How long holds really last is tried where a processor is
killed: tests/e2e/test_killed_processor.py and L06.
"""

from __future__ import annotations

import sys
from functools import partial

from tokenweir.cli.main import main
from tokenweir.ledger.redis import RedisStore
from tokenweir.processor import processor

# Longer than from one renewal to the next.
HOLD_MS = 13_000


def install() -> None:
    """Make holds short."""
    assert vars(processor)["RedisStore"] is RedisStore  # or nothing is replaced
    setattr(processor, "RedisStore", partial(RedisStore, hold_ms=HOLD_MS))  # noqa: B010


if __name__ == "__main__":
    install()
    sys.exit(main())
