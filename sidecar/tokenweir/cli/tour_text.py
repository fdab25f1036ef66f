"""How `tokenweir tour` tells: each stop for people, or all of them for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import TextIO

from tokenweir.stack.terminal import Style, Terminal
from tokenweir.stack.tour.call import exports
from tokenweir.stack.tour.ground import Ground
from tokenweir.stack.tour.step import Step, differences_of

WIDTH = 88
_INDENT = "   "
_SKIPPED, _KEPT, _DIFFERS = "left out", "as promised", "NOT AS PROMISED"


class Silent:
    """Tells nothing meanwhile: programs read the document at the end."""

    def begins(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""

    def waits(self, seconds: int) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""

    def ends(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""


class Told:
    """
    Tells each stop as it goes on; on a terminal it counts down what is waited for.

    Args:
        terminal: Where to.
        stream: What *terminal* writes to.
        stops: How many there are.
    """

    def __init__(self, terminal: Terminal, stream: TextIO, stops: int) -> None:
        self._terminal = terminal
        self._stream = stream
        self._stops = stops
        self._number = 0

    def begins(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        self._number += 1
        title = f"\n{self._number}/{self._stops}  {step.title}"
        self._terminal.say(title, Style.TITLE)
        self._terminal.say(_filled(step.intro, hanging=""))
        if step.request:
            self._terminal.say(f"\n{textwrap.indent(step.request, _INDENT)}\n")

    def waits(self, seconds: int) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        if self._stream.isatty():
            # The line is overwritten each second, and goes at the end.
            text = f"{_INDENT}{seconds} s …" if seconds else ""
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()

    def ends(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        for line in step.came:
            self._terminal.say(_filled(line, _INDENT))
        if step.why:
            self._terminal.say("")
        for line in step.why:
            self._terminal.say(_filled(line, f"{_INDENT}  "), Style.NOTE)
        for text in step.differences:
            self._terminal.say(_filled(f"{_DIFFERS}: {text}", _INDENT), Style.ERROR)
        if step.skipped:
            self._terminal.say(
                _filled(f"{_SKIPPED}: {step.skipped}", _INDENT), Style.WARNING
            )
        elif not step.differences:
            self._terminal.say(f"{_INDENT}{_KEPT}", Style.NOTE)


def opening(ground: Ground) -> str:
    """Return what is said before the first stop."""
    mock = (
        "A mock provider answers: nothing leaves this machine, and nothing is spent."
        if ground.is_mock
        else "A real provider answers: this may cost money."
    )
    return (
        f"A tour of {ground.url}, as tenant {ground.tenant}. {mock}\n"
        "To make the calls yourself, in another terminal:\n\n"
        f"{_INDENT}{exports(ground.url, ground.shown_key)}"
    )


def closing(steps: Sequence[Step], command: str) -> str:
    """Return what is said after the last stop, for who calls *command*."""
    if differences := differences_of(steps):
        listed = "".join(f"\n  {text}" for text in differences)
        return (
            f"\nNot as promised:{listed}\n"
            "The stack's terminal and its logs say more; docs/runbook.md has what helps."
        )
    left_out = [step.title for step in steps if step.skipped]
    first = f"All as promised; left out: {', '.join(left_out)}."
    return (
        f"\n{first if left_out else 'All as promised.'} Next:\n\n"
        f"  what goes on now, while you call   {command} usage watch\n"
        f"  what was used, and what it cost    {command} usage\n"
        f"  a key of your own                  {command} keys new --id ID\n"
        "  what limits there are              docs/policy.md"
    )


def document_text(ground: Ground, steps: Sequence[Step]) -> str:
    """Return *steps* as JSON."""
    return json.dumps(
        {
            "url": ground.url,
            "tenant": ground.tenant,
            "model": ground.model,
            "mock": ground.is_mock,
            "as_promised": not differences_of(steps),
            "steps": [step.document() for step in steps],
        },
        indent=2,
    )


def _filled(text: str, indent: str = _INDENT, hanging: str = "  ") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}{hanging}",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )
