import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_valkey
from tokenweir.cli.ledger_option import LedgerOptionError
from tokenweir.cli.main import main
from tokenweir.cli.usage import Span, _groups, _ledger_url, _span
from tokenweir.core.hold import (
    Amounts,
    Granted,
    Hold,
    Outcome,
    Part,
    Settlement,
    Subject,
)
from tokenweir.core.partition import tag_of
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.telemetry.fanout import Fanout

USED = TokenUsage(
    input_tokens=1_000, cached_input_tokens=234, output_tokens=60, reasoning_tokens=6
)
COST_NANOUSD = 250_000_075


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return an empty ledger's server."""
    server = start_valkey(tmp_path)
    yield server
    server.stop()


async def settle(
    url: str, *exchanges: tuple[str, str, str], cost_nanousd: int = COST_NANOUSD
) -> None:
    """Have exchanges of (tenant, key, model) end that used `USED` each."""
    store = RedisStore(url, Fanout(()))
    ledger = TaggedLedger(store)
    for number, (tenant, key, model) in enumerate(exchanges):
        subject = Subject(tenant, key, "", "chat_completions", model, "openai")
        hold_id = f"0-{int(time.time() * 1_000):x}-{number}"
        hold = Hold(hold_id, (Part(tag_of(tenant), ()),), Amounts(), subject)
        granted = await ledger.reserve(hold)
        assert isinstance(granted, Granted)
        settlement = Settlement(
            USED,
            Source.REPORTED,
            Outcome.COMPLETED,
            2,
            200,
            cost_nanousd=cost_nanousd,
        )
        await ledger.settle(hold, settlement)
    await store.close()


async def test_table(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums come by tenant, key and model, who used most first, with a total."""
    mini, haiku = ("acme", "ci", "gpt-4o-mini"), ("beta", "app", "claude-haiku-4-5")
    await settle(server.url, haiku, mini, mini)
    code = await run("usage", "--ledger", server.url, "--hours", "2")

    assert code == 0
    assert capsys.readouterr().out == (
        "tenant  key  model             exchanges  input  cached  output  total  lost"
        "     cost USD\n"
        "acme    ci   gpt-4o-mini               2  2,468     468     132  2,600     0"
        "  0.500000150\n"
        "beta    app  claude-haiku-4-5          1  1,234     234      66  1,300     0"
        "  0.250000075\n"
        "total                                  3  3,702     702     198  3,900     0"
        "  0.750000225\n"
    )


@pytest.mark.parametrize(("no_color", "bold"), [(None, True), ("1", False)])
async def test_on_a_terminal(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str | None,
    bold: bool,
) -> None:
    """On a terminal the head is set off, unless NO_COLOR says otherwise."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    await settle(server.url, ("acme", "ci", "gpt-4o-mini"))
    await run("usage", "--ledger", server.url, "--hours", "2")

    assert capsys.readouterr().out.startswith("\x1b[1m") is bold


async def test_by(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums can be kept apart by less; one row needs no total."""
    await settle(server.url, ("acme", "ci", "a"), ("acme", "app", "b"))
    code = await run("usage", "--ledger", server.url, "--by", "tenant", "--hours", "2")

    assert code == 0
    assert capsys.readouterr().out == (
        "tenant  exchanges  input  cached  output  total  lost    cost USD\n"
        "acme            2  2,468     468     132  2,600     0  0.50000015\n"
    )


async def test_without_costs(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens that cost nothing are told of: they may be free, or without a price."""
    await settle(server.url, ("acme", "ci", "ours"), cost_nanousd=0)
    await settle(server.url, ("beta", "app", "dear"), cost_nanousd=2_000_000_000)
    code = await run("usage", "--ledger", server.url, "--by", "tenant", "--hours", "2")
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert [line.split()[-1] for line in lines[1:4]] == ["0.00", "2.00", "2.00"]
    assert lines[4] == ""
    assert lines[5].startswith("Tokens that cost 0.00 are free or have no price: ")


async def test_json(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has every figure, with the names of usage records."""
    await settle(server.url, ("acme", "ci", "gpt-4o-mini"))
    code = await run("usage", "--ledger", server.url, "--json", "--hours", "2")
    document = json.loads(capsys.readouterr().out)

    assert code == 0
    assert document["by"] == ["tenant", "key", "model"]
    assert document["from"].endswith(":00:00Z")
    assert document["rows"] == [
        {
            "tenant": "acme",
            "key": "ci",
            "model": "gpt-4o-mini",
            "exchanges": 1,
            "requests": 2,
            "input_tokens": 1_000,
            "cached_input_tokens": 234,
            "cache_write_tokens": 0,
            "cache_write_1h_tokens": 0,
            "audio_input_tokens": 0,
            "output_tokens": 60,
            "reasoning_tokens": 6,
            "audio_output_tokens": 0,
            "image_input_tokens": 0,
            "image_output_tokens": 0,
            "outcome_lost": 0,
            "outcome_completed": 1,
            "source_reported": 1,
            "total_input_tokens": 1_234,
            "total_output_tokens": 66,
            "total_tokens": 1_300,
            "cost_nanousd": 250_000_075,
            "cost_usd": "0.250000075",
        }
    ]


async def test_total_in_json(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has the sum of all rows, without their names."""
    await settle(server.url, ("acme", "ci", "a"), ("beta", "app", "b"))
    await run("usage", "--ledger", server.url, "--json", "--hours", "2")
    total = json.loads(capsys.readouterr().out)["total"]

    assert total["exchanges"] == 2
    assert total["total_tokens"] == 2_600
    assert total["cost_usd"] == "0.50000015"
    assert "tenant" not in total


async def test_csv(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV has a head and a line for each row; no name in it is a formula."""
    await settle(server.url, ("acme", "ci", '=HYPERLINK("x")'))
    code = await run("usage", "--ledger", server.url, "--csv", "--hours", "2")

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        (
            "tenant,key,model,exchanges,requests,total_input_tokens,cached_input_tokens,"
            "total_output_tokens,total_tokens,outcome_lost,cost_usd"
        ),
        'acme,ci,"\'=HYPERLINK(""x"")",1,2,1234,234,66,1300,0,0.250000075',
    ]


async def test_nothing_yet_in_csv(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without rows there is the head."""
    code = await run("usage", "--ledger", server.url, "--csv", "--by", "model")

    assert code == 0
    (head,) = capsys.readouterr().out.splitlines()
    assert head.startswith("model,exchanges,requests,")


async def test_nothing_yet(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty ledger is no error, and says since when it is empty."""
    code = await run("usage", "--ledger", server.url)

    assert code == 0
    assert capsys.readouterr().out.startswith("Nothing was used from 2")


async def test_nothing_yet_in_json(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that reads JSON gets a document without rows."""
    code = await run("usage", "--ledger", server.url, "--json", "--today")

    assert code == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []


def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S08: a ledger that is not there is told of without its URL and password."""
    url = f"unix://:CANARY@{tmp_path}/none.sock"
    code = main(["usage", "--ledger", url])
    told = capsys.readouterr()

    assert code == 1
    assert "no answer" in told.err
    assert "CANARY" not in told.out + told.err


def test_no_url(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no URL of a ledger is wrong usage, and is not repeated."""
    code = main(["usage", "--ledger", "http://user:CANARY@localhost"])
    told = capsys.readouterr()

    assert code == 2
    assert "redis://" in told.err
    assert "CANARY" not in told.out + told.err


async def run(*arguments: str) -> int:
    """Run the command line outside of the test's event loop."""
    return await asyncio.to_thread(main, list(arguments))


# === what is asked for ============================================================


def test_span_of_today() -> None:
    """Today begins at midnight UTC, also just after it, and ends with this hour."""
    midnight_s = 1_767_225_600

    assert _span(midnight_s + 12.5 * 3_600, None).begin == "2026-01-01T00:00:00Z"
    assert _span(midnight_s + 12.5 * 3_600, None).end == "2026-01-01T13:00:00Z"
    assert _span(midnight_s, None) == Span(490_896, 490_896)
    assert _span(midnight_s - 1, None).begin == "2025-12-31T00:00:00Z"


def test_span_of_hours() -> None:
    """The last hours include the one that runs."""
    assert _span(1_767_225_600 + 1, 1) == Span(490_896, 490_896)
    assert _span(1_767_225_600 + 1, 3) == Span(490_894, 490_896)


def test_groups() -> None:
    """Any of the groups in any order, each once."""
    assert _groups("model, tenant") == ("model", "tenant")
    for text in ("", "user", "tenant,tenant", "tenant,"):
        with pytest.raises(argparse.ArgumentTypeError, match="tenant,key,model"):
            _groups(text)


def test_url_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL with a password can be in the environment, in any variable."""
    monkeypatch.setenv("TOKENWEIR_LEDGER_URL", "redis://one")
    monkeypatch.setenv("OTHER", "redis://two")

    assert _ledger_url("redis://zero") == "redis://zero"
    assert _ledger_url(None) == "redis://one"
    assert _ledger_url("env:OTHER") == "redis://two"
    with pytest.raises(LedgerOptionError, match="MISSING is empty"):
        _ledger_url("env:MISSING")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder in which stacks keep their files, and no other is."""
    monkeypatch.delenv("TOKENWEIR_LEDGER_URL", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tokenweir.stack.folder.SHORT_PARENT", str(tmp_path))
    return tmp_path


def test_url_of_a_running_stack(machine: Path, server: Server) -> None:
    """Without a word, the ledger of the stack that runs here is meant."""
    socket = machine / "tokenweir-a" / "ledger.sock"
    socket.parent.mkdir()
    socket.symlink_to(server.path)

    assert _ledger_url(None) == f"unix://{socket}"

    second = machine / "tokenweir-b" / "ledger.sock"
    second.parent.mkdir()
    second.symlink_to(server.path)
    with pytest.raises(LedgerOptionError, match=f"--ledger unix://{second}"):
        _ledger_url(None)


def test_no_running_stack(machine: Path) -> None:
    """A stack that was killed does not count as running."""
    left = machine / "tokenweir-dead" / "ledger.sock"
    left.parent.mkdir()
    left.touch()

    with pytest.raises(LedgerOptionError, match="Say where the ledger is"):
        _ledger_url(None)
