"""`tokenweir audit prompts` tells what processors wrote, and what is wrong."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
import redis

from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.core.partition import tag_of
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.ledger import keys
from tokenweir.ledger.link import Link
from tokenweir.ledger.prompts import PromptKey, PromptLedger, PromptSum
from tokenweir.telemetry.fanout import Fanout

SYSTEM = PromptKey("acme", "gpt-4o", Kind.SYSTEM, "0123456789abcdef")
TOOLS = PromptKey("globex", "gpt-4o", Kind.TOOLS, "fedcba9876543210")
DEAR, CHEAP = PromptCost(2, 90, 90, 0, 100, 900), PromptCost(1, 40, 40, 0, 50, 40)
# Seven days, so that midnight does not matter.
LEDGER = ("audit", "prompts", "--ledger")


@pytest.fixture
def url(ledger: Server) -> str:
    """Return the URL of an empty ledger."""
    return ledger.url


async def write(url: str, *rows: PromptSum) -> None:
    """Write sums of today, as processors do."""
    link = Link(url, Fanout(()), deadline_seconds=30)
    for row in rows:
        await PromptLedger(link).add(row.key.tenant, int(time.time() // 86_400), [row])
    await link.close()


async def run(*arguments: str) -> int:
    """Run the command line outside of the test's event loop."""
    return await asyncio.to_thread(main, list(arguments))


async def test_the_dearest_first(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By default as a table, without any text."""
    await write(url, PromptSum(TOOLS, CHEAP, "text"), PromptSum(SYSTEM, DEAR, "text"))
    code = await run(*LEDGER, url)
    title, _, _, first, second, _ = capsys.readouterr().out.splitlines()

    assert code == 0
    assert title.startswith("Parts of prompts from 2")
    assert first.split()[:5] == ["1", "system", SYSTEM.digest, "acme", "gpt-4o"]
    assert second.split()[:4] == ["2", "tools", TOOLS.digest, "globex"]


async def test_texts(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are told if they are asked for, where they are kept."""
    await write(url, PromptSum(TOOLS, CHEAP), PromptSum(SYSTEM, DEAR, "Be brief."))
    assert await run(*LEDGER, url, "--text") == 0
    assert f"#1 system {SYSTEM.digest}\n    Be brief." in capsys.readouterr().out
    assert await run(*LEDGER, url, "--text", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["text"] for row in rows] == ["Be brief.", None]
    assert await run(*LEDGER, url, "--text", "--tenant", "globex") == 0
    assert "keep_prompt_text: true" in capsys.readouterr().out


async def test_one_tenant_and_the_first(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked for is told, and what was left out is summed."""
    await write(url, PromptSum(TOOLS, CHEAP), PromptSum(SYSTEM, DEAR))
    assert await run(*LEDGER, url, "--json", "--tenant", "globex") == 0
    own = json.loads(capsys.readouterr().out)
    assert await run(*LEDGER, url, "--json", "--top", "1", "--days", "35") == 0
    first = json.loads(capsys.readouterr().out)

    assert (own["tenant"], own["others"]) == ("globex", None)
    assert [row["digest"] for row in own["rows"]] == [TOOLS.digest]
    assert [row["digest"] for row in first["rows"]] == [SYSTEM.digest]
    assert (first["others"]["parts"], first["others"]["tokens"]) == (1, 40)
    assert "text" not in first["rows"][0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "No prompts from 2"),
        (("--tenant", "nobody"), "No prompts of nobody from 2"),
        (("--text",), "`audit`"),
    ],
)
async def test_nothing_yet(
    url: str,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    """An empty ledger is no error, and says why it may be empty."""
    assert await run(*LEDGER, url, *arguments) == 0
    assert told in capsys.readouterr().out


def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S08: one that is not there is told of, without its password, and what to do."""
    code = main([*LEDGER, f"unix://:CANARY@{tmp_path}/none.sock"])
    told = capsys.readouterr()

    assert code == 1
    assert "no answer" in told.err
    assert "tokenweir-reader" in told.err
    assert "CANARY" not in told.out + told.err


async def test_what_no_processor_wrote(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told of, and not read as costs."""
    with redis.Redis.from_url(url) as client:
        day = int(time.time() // 86_400)
        client.hset(keys.prompts(tag_of("acme"), day), "acme", "1 2 3")
    code = await run(*LEDGER, url)
    told = capsys.readouterr()

    assert code == 1
    assert "no sums of prompts" in told.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit"], "required: COMMAND"),
        (["audit", "answers"], "invalid choice"),
        ([*LEDGER, "http://user:CANARY@localhost"], "redis://"),
        ([*LEDGER, "unix:///nowhere", "--days", "36"], "must be 1 to 35"),
        ([*LEDGER, "unix:///nowhere", "--top", "0"], "must be 1 to"),
        ([*LEDGER, "unix:///nowhere", "--texts"], "unrecognized"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    """What can't be meant is told before the ledger is asked, and not repeated."""
    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    err = capsys.readouterr().err

    assert code == 2
    assert told in err
    assert "CANARY" not in err
