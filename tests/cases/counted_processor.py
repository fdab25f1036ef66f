"""
The processor, which on SIGUSR1 tells how many tasks it has.

    python -m tests.cases.counted_processor serve …

Run instead of `tokenweir`; the line's event is ``tasks``, its ``count`` the number.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys

from tokenweir.cli.main import main
from tokenweir.core.policy import Policy
from tokenweir.processor.processor import Processor

_start = Processor.start


async def _counted(processor: Processor, policy: Policy | None) -> None:
    await _start(processor, policy)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell)


def _tell() -> None:
    line = {"event": "tasks", "count": len(asyncio.all_tasks())}
    print(json.dumps(line), flush=True)  # noqa: T201 - it is the only way out


if __name__ == "__main__":
    setattr(Processor, "start", _counted)  # noqa: B010 - mypy knows it as a method
    sys.exit(main())
