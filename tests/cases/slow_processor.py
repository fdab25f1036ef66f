"""
The processor, whose answer to a request's head comes late.

    python -m tests.cases.slow_processor serve …

Run instead of `tokenweir`; `SECONDS` is how late.
"""

from __future__ import annotations

import asyncio
import sys

from tokenweir.cli.main import main
from tokenweir.core.commands import Answer
from tokenweir.core.events import RequestBody, RequestHead
from tokenweir.driver.request import RequestDriver

SECONDS = 1.0

_advance = RequestDriver.advance


async def _late(driver: RequestDriver, event: RequestHead | RequestBody) -> Answer:
    if isinstance(event, RequestHead):
        await asyncio.sleep(SECONDS)
    return await _advance(driver, event)


if __name__ == "__main__":
    setattr(RequestDriver, "advance", _late)  # noqa: B010 - it is of another shape
    sys.exit(main())
