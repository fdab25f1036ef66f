"""`tokenweir tour`: what is asked for, and why it can't be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tokenweir.cli.main import main
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.stack import announcement
from tokenweir.stack.announcement import Announcement
from tokenweir.stack.demo import TOUR_KEY, demo_policy
from tokenweir.stack.tour import guide
from tokenweir.stack.tour.client import NoAnswerError
from tokenweir.stack.tour.ground import Ground
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import Teller

MOCK_PORT = 4321


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Announcement:
    """The only stack that runs here, if one asks."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(demo_policy(MOCK_PORT))
    told = Announcement(
        "http://127.0.0.1:1", "http://a", str(policy), "unix:///l.sock", MOCK_PORT
    )
    monkeypatch.setattr(announcement, "announced", lambda: [told])
    monkeypatch.delenv("TOKENWEIR_LEDGER_URL", raising=False)
    return told


@pytest.fixture
def toured(monkeypatch: pytest.MonkeyPatch) -> list[Ground]:
    """What was toured; nothing is asked, and one stop is told."""
    grounds: list[Ground] = []

    async def lead(ground: Ground, teller: Teller) -> list[Step]:
        grounds.append(ground)
        step = Step("ask", "Ask", "An app asks.")
        if ground.model != "gpt-4o-mini":
            step.differences.append("it is 500")
        teller.begins(step)
        teller.ends(step)
        return [step]

    monkeypatch.setattr(guide, "lead", lead)
    return grounds


@pytest.mark.usefixtures("stack")
def test_nothing_has_to_be_said(
    toured: list[Ground], capsys: pytest.CaptureFixture[str]
) -> None:
    """The stack that runs here is toured with its own key, and all is told."""
    assert main(["tour"]) == 0
    out = capsys.readouterr().out
    assert "A tour of http://127.0.0.1:1, as tenant tour." in out
    assert f"OPENAI_API_KEY={TOUR_KEY}" in out
    assert "1/8  Ask" in out
    assert "All as promised." in out
    assert toured[0].ledger == "unix:///l.sock"


@pytest.mark.usefixtures("stack", "toured")
def test_what_differs_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """So it is a smoke test, for programs too."""
    assert main(["tour", "--model", "gpt-4o", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)

    assert told["as_promised"] is False
    assert told["steps"][0]["differences"] == ["it is 500"]


@pytest.mark.usefixtures("stack")
def test_all_can_be_said(
    toured: list[Ground], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options go before what the stack tells, and the variable before its ledger."""
    monkeypatch.setenv("KEY", "sk-tokenweir-demo")
    monkeypatch.setenv("TOKENWEIR_LEDGER_URL", "redis://in-variable")
    policy = tmp_path / "other.yaml"
    policy.write_text(demo_policy(5555))
    options = f"--url http://127.0.0.1:2/v1 --admin http://b/ --policy {policy} "
    options += "--key env:KEY --model gpt-4o-mini --yes-spend"

    assert main(["tour", *options.split()]) == 0
    assert main(["tour", *options.split(), "--ledger", "redis://in-option"]) == 0
    first, second = toured
    assert (first.url, first.admin, first.tenant) == (
        "http://127.0.0.1:2",
        "http://b",
        "demo",
    )
    assert (first.ledger, second.ledger) == ("redis://in-variable", "redis://in-option")


def test_without_a_stack_it_is_told_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is wrong usage, and no traceback."""
    monkeypatch.setattr(announcement, "announced", list)

    assert main(["tour"]) == 2
    assert "\n  tokenweir up\n" in capsys.readouterr().err


@pytest.mark.usefixtures("stack")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--ledger env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is empty or not set"),
        ("--ledger bad", "redis://127.0.0.1:6379"),
        ("--key env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is empty or not set"),
        ("--url http://elsewhere", "--policy FILE"),
    ],
)
def test_what_can_not_be_read_is_wrong_usage(
    options: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each says what would be right."""
    assert main(["tour", *options.split()]) == 2
    assert told in capsys.readouterr().err


def test_a_broken_policy_is_told_as_check_does(
    stack: Announcement, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file's name, and on stderr: what goes to stdout may be read as JSON."""
    Path(stack.policy).write_text("version: 1\n")

    assert main(["tour", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert stack.policy in captured.err


@pytest.mark.usefixtures("stack")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NoAnswerError("nobody is there"), "nobody is there"),
        (LedgerUnavailableError("silent"), "no answer from unix:///l.sock"),
    ],
)
def test_silence_is_told(
    error: Exception,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whose it is, and what to look at."""

    async def lead(ground: Ground, teller: Teller) -> list[Step]:
        raise error

    monkeypatch.setattr(guide, "lead", lead)

    assert main(["tour"]) == 1
    assert told in capsys.readouterr().err
