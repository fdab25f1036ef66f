"""How the tour is told."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from tests.stack.tour.trips import GROUND
from tokenweir.cli.tour_text import (
    WIDTH,
    Silent,
    Told,
    closing,
    document_text,
    opening,
)
from tokenweir.stack.demo import TOUR_KEY
from tokenweir.stack.terminal import Terminal
from tokenweir.stack.tour.step import Step

LONG = "many words " * 20


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def told(*steps: Step) -> str:
    """Return what a pipe reads of *steps*."""
    stream = io.StringIO()
    teller = Told(Terminal(stream, {}), stream, len(steps))
    for step in steps:
        teller.begins(step)
        teller.waits(3)
        teller.waits(0)
        teller.ends(step)
    return stream.getvalue()


def test_a_stop_is_told_in_its_order() -> None:
    """Which one of how many, what is done, the request, what came back, and why."""
    step = Step("ask", "Ask", "An app asks.", "curl x", ["200"], ["settled  18"])

    assert told(step, replace(step, title="Again")).splitlines()[:11] == [
        "",
        "1/2  Ask",
        "   An app asks.",
        "",
        "   curl x",
        "",
        "   200",
        "",
        "     settled  18",
        "   as promised",
        "",
    ]


def test_what_differs_and_what_is_left_out_stand_out() -> None:
    """Neither is told to be as promised."""
    differing = Step("ask", "Ask", "", differences=["it is 500"])
    skipped = Step("wait", "Wait", "", skipped="too long")
    text = told(differing, skipped)

    assert "NOT AS PROMISED: it is 500" in text
    assert "left out: too long" in text
    assert "as promised" not in text


def test_lines_fit_but_commands_are_whole() -> None:
    """Text is wrapped; what is to be copied is not."""
    command = "curl " + "x" * 200
    text = told(Step("ask", "Ask", LONG, command, [LONG], [LONG]))
    lines = text.splitlines()

    assert f"   {command}" in lines
    assert all(len(line) <= WIDTH for line in lines if "curl" not in line)


def test_a_terminal_counts_down_and_a_pipe_does_not() -> None:
    """The line is overwritten, and gone at the end."""
    screen = Screen()
    teller = Told(Terminal(screen, {"NO_COLOR": "1"}), screen, 1)
    teller.waits(2)
    teller.waits(0)

    assert screen.getvalue() == "\r\x1b[K   2 s …\r\x1b[K"
    assert "2 s" not in told(Step("wait", "Wait", ""))


def test_programs_are_told_nothing_meanwhile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They read one document at the end."""
    teller, step = Silent(), Step("ask", "Ask", "")
    teller.begins(step)
    teller.waits(1)
    teller.ends(step)

    assert capsys.readouterr().out == ""
    fine = json.loads(document_text(GROUND, [step]))
    wrong = json.loads(document_text(GROUND, [replace(step, differences=["no"])]))
    assert fine["steps"] == [{"step": "ask", "state": "ok", "differences": []}]
    assert (fine["as_promised"], wrong["as_promised"]) == (True, False)
    assert fine["mock"] is True


def test_the_beginning_tells_whether_it_costs() -> None:
    """The demo's key is shown, and one's own is not."""
    own = replace(GROUND, is_mock=False, key="sk-CANARY", shown_key="<yours>")

    assert "nothing is spent" in opening(GROUND)
    assert TOUR_KEY in opening(GROUND)
    assert "cost money" in opening(own)
    assert "CANARY" not in opening(own)


def test_the_end_tells_what_to_do_next() -> None:
    """What was left out is named; what differed too, and where to look."""
    fine = Step("ask", "Ask", "")
    skipped = Step("wait", "Wait", "", skipped="too long")
    wrong = Step("ask", "Ask", "", differences=["it is 500"])

    assert "All as promised. Next:" in closing([fine], "tw")
    assert "tw usage watch" in closing([fine], "tw")
    assert "left out: Wait." in closing([fine, skipped], "tw")
    text = closing([wrong], "tw")
    assert "Ask: it is 500" in text
    assert "runbook" in text
