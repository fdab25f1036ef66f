"""Where a stack's words go: colours for people, none for files."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TextIO


class Style(enum.StrEnum):
    """How a line looks on a terminal; the codes of ECMA-48, 8.3.117."""

    PLAIN = ""
    NOTE = "2"  # faint
    TITLE = "1"  # bold
    REFUSED = "33"  # yellow
    WARNING = "35"  # magenta
    ERROR = "31"  # red


class Terminal:
    """
    Writes to *stream*, in colour if it is a terminal that wants it.

    Attributes:
        gone: Nobody reads any more.
    """

    def __init__(self, stream: TextIO, env: Mapping[str, str]) -> None:
        self._stream = stream
        # https://no-color.org
        plain = env.get("NO_COLOR") or env.get("TERM") == "dumb"
        self._colours = stream.isatty() and not plain
        self.gone = False

    def say(self, text: str, style: Style = Style.PLAIN) -> None:
        """
        Write *text* and a line end. A terminal that was closed is no failure.

        Parts of it were chosen by clients or written by other programs, so nothing
        in it may move the cursor or worse.
        """
        text = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
        if self._colours and style:
            text = f"\x1b[{style}m{text}\x1b[0m"
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.gone = True
