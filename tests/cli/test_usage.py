import argparse
import asyncio
import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_valkey
from tokenweir.cli.main import main
from tokenweir.cli.usage import groups
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
ALL = ("--by", "hour,day,route,provider,model,user,key,tenant")


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
    store = RedisStore(url, Fanout(()), deadline_seconds=10.0)
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
    """Sums come by tenant, key and model, who cost most first, with a total."""
    mini, haiku = ("acme", "ci", "gpt-4o-mini"), ("beta", "app", "claude-haiku-4-5")
    await settle(server.url, haiku, mini, mini)
    code = await run("usage", "--ledger", server.url, "--hours", "2")
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert lines[0].startswith("Used from 2")
    assert lines[0].endswith(" UTC until now")
    head, *rows = lines[2:6]
    assert head == (
        "tenant  key  model             calls  input  cached  output  cost USD  share"
    )
    assert [row.split() for row in rows] == [
        [
            "acme",
            "ci",
            "gpt-4o-mini",
            "2",
            "2,468",
            "468",
            "132",
            "0.50",
            "67%",
            "████",
        ],
        [
            "beta",
            "app",
            "claude-haiku-4-5",
            "1",
            "1,234",
            "234",
            "66",
            "0.25",
            "33%",
            "██",
        ],
        ["total", "3", "3,702", "702", "198", "0.75"],
    ]


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

    assert ("\x1b[1mtenant" in capsys.readouterr().out) is bold


async def test_by(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums can be kept apart by anything, in any order, each once."""
    await settle(server.url, ("acme", "ci", "a"), ("acme", "app", "b"))
    code = await run("usage", "--ledger", server.url, *ALL, "--hours", "2", "--json")
    rows = json.loads(capsys.readouterr().out)["rows"]

    assert code == 0
    assert [row["key"] for row in rows] == ["ci", "app"]
    assert {row["exchanges"] for row in rows} == {1}
    assert [*rows[0]][:8] == ALL[1].split(",")
    assert rows[0]["hour"].startswith(rows[0]["day"])
    assert (rows[0]["provider"], rows[0]["route"]) == ("openai", "chat_completions")
    assert rows[0]["user"] == "-"


async def test_one_tenant(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what one tenant used can be asked for; who used nothing is told so."""
    await settle(server.url, ("acme", "ci", "a"), ("beta", "app", "b"))
    own = ("usage", "--ledger", server.url, "--hours", "2", "--by", "tenant")
    await run(*own, "--tenant", "beta", "--json")
    document = json.loads(capsys.readouterr().out)
    code = await run(*own, "--tenant", "nobody")

    assert document["tenant"] == "beta"
    assert [row["tenant"] for row in document["rows"]] == ["beta"]
    assert document["total"]["exchanges"] == 1
    assert code == 0
    assert capsys.readouterr().out.startswith("Nothing was used by nobody from 2")


async def test_csv(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV has a head, a line for each row asked for, and one for the others."""
    await settle(server.url, ("acme", "ci", "a"), ("acme", "ci", "a"), ("x", "y", "b"))
    code = await run(
        *("usage", "--ledger", server.url, "--csv", "--hours", "2", "--top", "1")
    )
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    assert code == 0
    assert [line["tenant"] for line in lines] == ["acme", "others"]
    assert [line["total_tokens"] for line in lines] == ["2600", "1300"]
    assert [line["cost_usd"] for line in lines] == ["0.50000015", "0.250000075"]


async def test_sort(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes first can be chosen."""
    await settle(server.url, ("a", "k", "m"), cost_nanousd=1)
    await settle(server.url, ("b", "k", "m"), ("b", "k", "m"), cost_nanousd=0)
    own = ("usage", "--ledger", server.url, "--hours", "2", "--by", "tenant", "--json")
    orders = {}
    for sort in ("cost", "tokens", "name"):
        await run(*own, "--sort", sort)
        rows = json.loads(capsys.readouterr().out)["rows"]
        orders[sort] = "".join(row["tenant"] for row in rows)

    assert orders == {"cost": "ab", "tokens": "ba", "name": "ab"}


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


def test_groups() -> None:
    """Any of the groups in any order, each once."""
    assert groups("model, tenant") == ("model", "tenant")
    assert len(groups("tenant,key,user,model,provider,route,day,hour")) == 8
    for text in ("", "users", "tenant,tenant", "tenant,"):
        with pytest.raises(argparse.ArgumentTypeError, match="tenant,key,user,model"):
            groups(text)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "2026-01-01"], "--to: goes with --from"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "before the end"),
        (["--from", "yesterday"], "must be a day"),
        (["--from", "2026-01-01T12:00"], "must be a day"),
        (["--month", "11"], "must be a month"),
        (["--hours", "0"], "must be 1 to 10,000"),
        (["--hours", "2", "--today"], "not allowed with"),
        (["--month", "2026-01", "--from", "2026-01-01"], "not allowed with"),
        (["--json", "--csv"], "not allowed with"),
        (["--sort", "size"], "cost"),
        (["--top", "0"], "must be 1 to"),
        (["--by", "colour"], "must be a list"),
        (["--every", "2"], "goes with watch"),
        (["look"], "watch"),
        (["watch", "--hours", "2"], "--hours: not with watch"),
        (["watch", "--from", "2026-01-01"], "--from: not with watch"),
        (["watch", "--csv"], "--csv: not with watch"),
        (["watch", "--by", "tenant,hour"], "no hour with watch"),
        (["watch", "--every", "0"], "must be 1 to"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    """What can't be meant is told before the ledger is asked."""
    try:
        code = main(["usage", "--ledger", "unix:///nowhere", *arguments])
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]

    assert code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--month", "2025-02"], "2025-02-01 00:00 to 2025-03-01 00:00"),
        (
            ["--from", "2025-02-01", "--to", "2025-02-02"],
            "2025-02-01 00:00 to 2025-02-03",
        ),
        (
            ["--from", "2025-02-01T04:30Z", "--to", "2025-02-01T06:00Z"],
            "2025-02-01 04:00 to 06:00 UTC",
        ),
    ],
)
async def test_past(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    """Months, days and hours of the past can be asked for, and are told."""
    await settle(server.url, ("acme", "ci", "a"))
    code = await run("usage", "--ledger", server.url, *arguments)

    assert code == 0
    assert f"Nothing was used from {words}" in capsys.readouterr().out
