"""What is written, and how it looks."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from tokenweir.stack.terminal import Style, Terminal


class Screen(io.StringIO):
    """A terminal, as far as a program can see."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_terminal_gets_colours() -> None:
    """On a terminal a style is switched on before the text and off after it."""
    screen = Screen()
    Terminal(screen, {"TERM": "xterm"}).say("text", Style.ERROR)

    assert screen.getvalue() == "\x1b[31mtext\x1b[0m\n"


def test_plain_text_has_no_codes() -> None:
    """Without a style nothing is added to the text."""
    screen = Screen()
    Terminal(screen, {}).say("text")

    assert screen.getvalue() == "text\n"


def test_a_file_gets_no_colours() -> None:
    """What is no terminal gets the text alone."""
    file = io.StringIO()
    Terminal(file, {}).say("text", Style.ERROR)

    assert file.getvalue() == "text\n"


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_declined(env: Mapping[str, str]) -> None:
    """The usual variables switch colours off."""
    screen = Screen()
    Terminal(screen, env).say("text", Style.ERROR)

    assert screen.getvalue() == "text\n"


def test_a_text_can_not_control_the_terminal() -> None:
    """Escape sequences that a client chose are shown, not obeyed."""
    screen = Screen()
    Terminal(screen, {}).say("model\x1b[2J\r\x07é\nnext")

    assert screen.getvalue() == "model?[2J??é\nnext\n"


def test_a_terminal_that_has_gone_is_no_failure() -> None:
    """Writing to what was closed is noticed, not raised."""
    screen = Screen()
    terminal = Terminal(screen, {})
    assert not terminal.gone
    screen.close()

    terminal.say("text")

    assert terminal.gone
