import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.telemetry.places import error_facts, places, short_path, type_name

CANARY = "sk-CANARY1"
TABLE: dict[str, int] = {}


def break_() -> None:
    """Raise an error with a cause, both with a secret in their text."""
    try:
        TABLE[CANARY]
    except KeyError as error:
        raise ValueError(CANARY) from error


def break_again() -> None:
    """Raise an error while another is handled."""
    try:
        TABLE[CANARY]
    except KeyError:
        raise OSError(CANARY) from None


def caught(broken: Callable[[], None] = break_) -> Exception:
    """Return what *broken* raises."""
    with pytest.raises(Exception, match=CANARY) as raised:
        broken()
    return raised.value


def test_facts_hold_type_and_place() -> None:
    """An error is told by its type, its lines of code, and its causes' types."""
    facts = error_facts(caught())

    assert facts["error"] == "ValueError"
    assert facts["causes"] == ["KeyError"]
    assert re.match(r"\['telemetry/test_places.py:\d+ break_', ", str(facts["place"]))


def test_facts_hold_no_text() -> None:
    """S08: what an error says stays out, also what its causes say."""
    assert CANARY not in str(error_facts(caught()))


def test_context_counts_as_cause() -> None:
    """An error that came up while another was handled names that one."""
    assert error_facts(caught(break_again))["causes"] == ["KeyError"]


def test_causes_are_bounded() -> None:
    """A chain without end gives a few names only."""
    error = ValueError()
    error.__cause__ = error

    assert error_facts(error)["causes"] == ["ValueError"] * 5


def test_no_cause() -> None:
    """Without a cause there is no such field."""
    assert "causes" not in error_facts(ValueError())


def test_groups_name_their_members() -> None:
    """Of a group, the types of its members are told."""
    group = BaseExceptionGroup(CANARY, [KeyError(CANARY), OSError()])

    assert error_facts(group)["causes"] == ["KeyError", "OSError"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError(), "ValueError"),
        (LedgerUnavailableError(), "tokenweir.core.errors.LedgerUnavailableError"),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError"),
    ],
)
def test_type_name(error: BaseException, name: str) -> None:
    """A class is named with its module, unless it is built in."""
    assert type_name(error) == name


def test_places_are_bounded_and_innermost_first() -> None:
    """A deep stack shows where it broke, not where it began."""

    def sink(depth: int) -> None:
        if depth == 0:
            break_()
        sink(depth - 1)

    lines = places(caught(lambda: sink(50)))

    assert len(lines) == 12
    assert lines[0].endswith(" break_")
    assert all(line.endswith(" sink") for line in lines[1:])


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/opt/x/lib/python3.11/site-packages/redis/client.py", "redis/client.py"),
        ("/src/sidecar/tokenweir/app.py", "tokenweir/app.py"),
        ("/usr/lib/python3.11/asyncio/tasks.py", "asyncio/tasks.py"),
        ("<string>", "<string>"),
    ],
)
def test_short_path(path: str, short: str) -> None:
    """A file is named from its package on."""
    assert short_path(path) == str(Path(short))
