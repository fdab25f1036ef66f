"""
Children die with their parent, even if it is killed with SIGKILL.

Linux sends a process the signal that it asked for by prctl(2) when the thread that
forked it ends. The wish is made between fork and exec, and survives exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1  # linux/prctl.h

# Loaded here: after the fork nothing may be loaded any more.
_LIBC = ctypes.CDLL(None)


def lifeline() -> Callable[[], None]:
    """Return what to run in a new child before its exec; call it in the parent."""
    parent = os.getpid()

    def tie() -> None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # If the parent died before the wish was made, nobody would fulfil it.
        if os.getppid() != parent:
            os._exit(1)

    return tie
