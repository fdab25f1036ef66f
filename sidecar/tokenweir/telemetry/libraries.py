"""
What libraries log, without their words.

They put exceptions and connection URLs into their messages; asyncio, for one,
prints the text of every exception that no task retrieved. So only who logged,
and where, and the type and place of an error are passed on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tokenweir.telemetry.places import error_facts, short_path


class LibraryHandler(logging.Handler):
    """Gives *report* the facts of each record, from warnings upwards."""

    def __init__(self, report: Callable[[dict[str, object]], None]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Report the place of *record*, and the error that it carries."""
        fields: dict[str, object] = {
            "logger": record.name,
            "severity": record.levelname.lower(),
            "at": f"{short_path(record.pathname)}:{record.lineno}",
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields |= error_facts(record.exc_info[1])
        self._report(fields)


def capture(report: Callable[[dict[str, object]], None]) -> None:
    """Have *report* told of what any library logs, in the whole process."""
    logging.basicConfig(
        level=logging.WARNING, handlers=[LibraryHandler(report)], force=True
    )
