import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest

from tokenweir.telemetry.libraries import capture

CANARY = "sk-CANARY1"


@pytest.fixture
def reported() -> Iterator[list[dict[str, object]]]:
    """Return what is reported while libraries are captured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    lines: list[dict[str, object]] = []
    capture(lines.append)
    yield lines
    root.handlers[:] = handlers
    root.setLevel(level)


def test_who_and_where(reported: list[dict[str, object]]) -> None:
    """A library's line tells who logged and where, and not what."""
    logging.getLogger("some.library").warning("no route to %s", CANARY)

    (line,) = reported
    assert line["logger"] == "some.library"
    assert line["severity"] == "warning"
    assert str(line["at"]).startswith("telemetry/test_libraries.py:")
    assert CANARY not in str(line)


def test_errors_are_told_by_type(reported: list[dict[str, object]]) -> None:
    """An error that a library logs shows up by type and place."""
    try:
        int(CANARY)
    except ValueError:
        logging.getLogger("some.library").exception("failed: %s", CANARY)

    (line,) = reported
    assert line["error"] == "ValueError"
    assert CANARY not in str(line)


def test_below_warning_is_nothing(reported: list[dict[str, object]]) -> None:
    """Libraries' information and debugging stay out."""
    logging.getLogger("some.library").info("hello")

    assert reported == []


def test_forgotten_tasks(reported: list[dict[str, object]]) -> None:
    """S08: asyncio prints a forgotten task's error; its text stays out."""

    async def breaks() -> None:
        raise ValueError(CANARY)

    async def forgets() -> None:
        task = asyncio.get_running_loop().create_task(breaks())
        await asyncio.sleep(0)
        del task
        gc.collect()

    asyncio.run(forgets())

    assert [line["logger"] for line in reported] == ["asyncio"]
    assert reported[0]["error"] == "ValueError"
    assert CANARY not in str(reported)
