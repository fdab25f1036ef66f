"""
What ends a process that does not end.

The interpreter waits for threads, and the event loop for tasks, as long as they take. A
file system that hangs, or an answer that never comes, would keep the process until
somebody kills it. So it ends by itself, and says on standard error where its threads
were: files, functions and lines, no values.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading

# For the end of threads and tasks once everything has been told to end.
LAST_SECONDS = 5.0


def end_within(seconds: float) -> None:
    """
    End this process with code 1 in *seconds*, if it has not ended by then.

    Also if it hangs in a call that keeps the interpreter from running anything else. A
    later call takes the place of an earlier one.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def end_soon(code: int, seconds: float = LAST_SECONDS) -> None:
    """End this process with *code* in *seconds*: all that matters has been done."""
    timer = threading.Timer(seconds, _end, (code,))
    timer.daemon = True
    timer.start()


def _end(code: int) -> None:
    print("does not end by itself; where its threads are:", file=sys.stderr)  # noqa: T201
    faulthandler.dump_traceback()
    os._exit(code)
