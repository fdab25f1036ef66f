"""
What is told while a stack runs: a line for each exchange and each event.

Logs that hold neither, such as Envoy's, are followed too: so they are kept short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tokenweir.stack.exchange_line import readable
from tokenweir.stack.log_file import LogFile
from tokenweir.stack.terminal import Terminal

FOLLOW_SECONDS = 0.1


class Feed:
    """
    Tells *terminal* what is new in *logs*.

    Args:
        logs: All logs of a stack.
        terminal: Where to.
    """

    def __init__(self, logs: Sequence[LogFile], terminal: Terminal) -> None:
        self._logs = logs
        self._terminal = terminal

    def skip(self) -> None:
        """Let pass what is there now."""
        for log in self._logs:
            log.new_lines()

    def tell(self) -> None:
        """Tell what is new."""
        for log in self._logs:
            for line in log.new_lines():
                if (told := readable(line)) is not None:
                    self._terminal.say(*told)

    async def follow(self) -> None:
        """Tell whatever comes, until the terminal has gone."""
        while not self._terminal.gone:
            self.tell()
            await asyncio.sleep(FOLLOW_SECONDS)
