"""`tokenweir calibration` tells what was learned, and forgets it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import redis

from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.core.calibration import Batch, Place, Side
from tokenweir.core.partition import tag_of
from tokenweir.ledger import keys
from tokenweir.ledger.calibration import CalibrationLedger
from tokenweir.ledger.link import Link
from tokenweir.telemetry.fanout import Fanout

BATCH = Batch(9, 900, 900 * 587_787, 900 * 100)


@pytest.fixture
def url(ledger: Server) -> str:
    """Return the URL of an empty ledger."""
    return ledger.url


async def learn(url: str, *names: tuple[str, str]) -> None:
    """Let factors be learned of tenants and models, as processors do."""
    link = Link(url, Fanout(()), deadline_seconds=30)
    for tenant, model in names:
        spot = (Place(tenant, "vllm", model, "chat_completions"), Side.INPUT)
        await CalibrationLedger(link).learn(tenant, {spot: BATCH})
    await link.close()


async def run(*arguments: str) -> int:
    """Run the command line outside of the test's event loop."""
    return await asyncio.to_thread(main, ["calibration", *arguments])


async def told(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> list[tuple[str, str]]:
    """Return tenants and models that are told in JSON."""
    assert await run(*arguments, "--json") == 0
    [rows] = json.loads(capsys.readouterr().out).values()
    return [(row["tenant"], row["model"]) for row in rows]


async def test_list(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All, or those of a tenant or a model; in order of names."""
    await learn(url, ("globex", "b"), ("acme", "b"), ("acme", "a"))
    assert await run("list", "--ledger", url) == 0
    _, first, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[:6] == [
        *("acme", "vllm", "a", "chat_completions", "input", "1.800")
    ]

    assert await told(capsys, "list", "--ledger", url) == [
        *(("acme", "a"), ("acme", "b"), ("globex", "b"))
    ]
    one = await told(capsys, "list", "--ledger", url, "--tenant", "acme")
    assert one == [("acme", "a"), ("acme", "b")]
    assert await told(capsys, "list", "--ledger", url, "--model", "b") == [
        *(("acme", "b"), ("globex", "b"))
    ]


async def test_reset(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One model of a tenant, or all; others stay."""
    await learn(url, ("globex", "b"), ("acme", "b"), ("acme", "a"))
    gone = await told(
        capsys, "reset", "--ledger", url, "--tenant", "acme", "--model", "a"
    )
    assert gone == [("acme", "a")]
    assert await run("reset", "--ledger", url, "--tenant", "acme") == 0
    assert capsys.readouterr().out.startswith("Forgotten:")
    assert await told(capsys, "list", "--ledger", url) == [("globex", "b")]
    assert await run("reset", "--ledger", url, "--tenant", "acme") == 0
    assert "Nothing was learned of acme" in capsys.readouterr().out


async def test_nothing(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said so, and why that may be."""
    assert await run("list", "--ledger", url) == 0
    assert "every five seconds" in capsys.readouterr().out


async def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody there, no right to, no URL: each says what to do."""
    nobody = f"unix://{tmp_path}/none.sock"
    assert await run("list", "--ledger", nobody) == 1
    assert "tokenweir-reader" in capsys.readouterr().err
    assert await run("reset", "--ledger", nobody, "--tenant", "a") == 1
    assert "a processor's" in capsys.readouterr().err
    assert await run("list", "--ledger", "nonsense") == 2
    assert capsys.readouterr().err


async def test_a_ledger_that_refuses(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no hash is something else's, and that is said."""
    with redis.Redis.from_url(url) as client:
        client.set(keys.learned(tag_of("acme"), "acme"), "x")
    assert await run("list", "--ledger", url) == 1
    assert "refused" in capsys.readouterr().err


async def test_a_ledger_that_turns_away(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said what to do about it."""
    stranger = url.replace("unix://", "unix://nobody:wrong@")
    assert await run("list", "--ledger", stranger) == 1
    assert "does not take this user and password" in capsys.readouterr().err
