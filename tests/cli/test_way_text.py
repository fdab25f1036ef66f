"""The way of a request is told in full, or not at all."""

from pathlib import Path
from typing import Any

import pytest

from tests.explain.asking import CREDENTIAL, Source, ask, body, policy
from tokenweir.cli.way_text import way_text
from tokenweir.explain.trial import explain


async def lines(folder: Path, data: bytes, **changes: Any) -> list[str]:
    """Return what is said."""
    headers = changes.pop("headers", ())
    path = changes.pop("path", None)
    asked = ask(policy(folder, **changes), data, headers=headers, path=path)
    told = list(way_text(await explain(asked, Source())))
    assert CREDENTIAL not in "".join(told)
    return told


async def test_the_usual_way(tmp_path: Path) -> None:
    """Route, waits, headers and reader."""
    waits = "  waits: as long as it takes in all, 300 s without a byte; "
    assert await lines(tmp_path, body()) == [
        "  route: openai/default, POST https://api.openai.com:443/v1/chat/completions",
        f"{waits}tried up to 2 times more (connection failed, refused stream, 429, 503)",
        "  headers: sets authorization",
        "  answer: read by the processor (inspect)",
    ]


@pytest.mark.parametrize(
    ("retries", "told"), [(0, "tried once"), (1, "tried once more (connection failed")]
)
async def test_waits(tmp_path: Path, retries: int, told: str) -> None:
    """Times are in seconds, and attempts are counted."""
    timeouts = {"default": {"total": "90m", "idle": "1500ms"}}
    said = await lines(tmp_path, body(), retries=retries, timeouts=timeouts)

    assert f"  waits: 5,400 s in all, 1.5 s without a byte; {told}" in "\n".join(said)


async def test_nothing_of_the_app_is_changed(tmp_path: Path) -> None:
    """With the app's own headers, nothing is said of them."""
    said = await lines(tmp_path, body(model="claude-x"), path="/v1/messages")

    assert not any("headers" in line for line in said)


async def test_unread(tmp_path: Path) -> None:
    """What is not read is said to be so."""
    assert (await lines(tmp_path, b"", path="/v1/models"))[-1] == (
        "  answer: passes unread (inspect)"
    )


async def test_refused(tmp_path: Path) -> None:
    """A refusal has no way."""
    assert await lines(tmp_path, body(model="unknown")) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("native", "read by Envoy (native)"),
        ("observe", "read by the processor, from a copy (observe)"),
    ],
)
async def test_who_reads_the_answer(tmp_path: Path, path: str, told: str) -> None:
    """It is who the policy says, and Envoy has a route for it."""
    said = await lines(tmp_path, body(), responses={"path": path})

    assert said[-1] == f"  answer: {told}"
    assert said[0].startswith(f"  route: openai/default/{path}, ")
