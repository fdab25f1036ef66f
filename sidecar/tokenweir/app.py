"""The life of a processor's process: from its arguments to its exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping

import uvloop

from tokenweir.config.load import load_policy
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.ending import end_tasks
from tokenweir.processor import last_resort
from tokenweir.processor.processor import Processor
from tokenweir.processor.settings import ServeSettings

# How long a thread that reads or counts may keep the interpreter while the loop wants
# it: at each of the dozen steps of an exchange. Python's own choice is five times that.
SWITCH_SECONDS = 0.001
# For what is not bounded by itself at the end, beyond the time that all the rest takes.
LATE_SECONDS = 10.0


def serve(settings: ServeSettings, env: Mapping[str, str]) -> int:
    """Run a processor until SIGTERM or SIGINT; return the exit code."""
    path, policy = settings.policy.path, None
    try:
        if path is not None:
            policy = load_policy(path, env)
    except PolicyError as error:
        for problem in error.problems:
            print(f"{path}: {problem}", file=sys.stderr)  # noqa: T201
        return 1
    return uvloop.run(_serve(settings, env, policy))


async def _serve(
    settings: ServeSettings, env: Mapping[str, str], policy: Policy | None
) -> int:
    sys.setswitchinterval(SWITCH_SECONDS)
    processor = Processor(settings, env)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, processor.reload)
    starting = asyncio.create_task(processor.start(policy))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if starting.done():
            starting.result()
    except (OSError, PolicyError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        print(f"can't start: {why or error}", file=sys.stderr)  # noqa: T201
        last_resort.end_soon(1)
        return 1
    await stopping
    last_resort.end_within(processor.longest_stop_seconds + LATE_SECONDS)
    await end_tasks(starting)  # it may wait for a policy for ever
    await processor.stop()
    last_resort.end_soon(0)
    return 0
