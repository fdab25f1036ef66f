"""
The processor, whose ledger goes by a clock that a test sets.

    TW_CLOCK=/path python -m tests.cases.driven_clock serve …

Run instead of `tokenweir`. The file has the moment in milliseconds; replace it whole.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from tokenweir.cli.main import main
from tokenweir.ledger.redis import RedisStore
from tokenweir.processor import processor

VARIABLE = "TW_CLOCK"


def now_ms() -> int:
    """Return what the test has set."""
    return int(Path(os.environ[VARIABLE]).read_text())


if __name__ == "__main__":
    assert vars(processor)["RedisStore"] is RedisStore  # or nothing is replaced
    setattr(processor, "RedisStore", partial(RedisStore, now_ms=now_ms))  # noqa: B010
    sys.exit(main())
