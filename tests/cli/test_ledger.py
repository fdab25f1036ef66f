"""`tokenweir ledger verify` and `rebuild`, on a real server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.pod import policy as content
from tests.pod import sha256
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.config.issued_keys import with_issued_keys
from tokenweir.config.load import load_policy
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.hold import Amounts, Hold, Outcome, Settlement, Subject
from tokenweir.core.limits import parts_of
from tokenweir.core.policy import Quota
from tokenweir.core.record import SEPARATOR
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import Envelope, sign
from tokenweir.ledger import keys
from tokenweir.ledger.inspector import Inspector
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.telemetry.fanout import Fanout

Capture = pytest.CaptureFixture[str]

COST_NANOUSD = NANOUSD_PER_USD // 100
TOKENS = 150
# So that no window ends while a test runs.
QUOTAS = [
    {"budget_usd": 1, "per": "month"},
    {"budget_tokens": 1_000, "per": "month", "partition": ["model"]},
]


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A stranger, and an empty server."""
    with redis.Redis.from_url(server.url, decode_responses=True) as found:
        found.flushall()
        yield found


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy with two budgets of acme's."""
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(content(9, quotas=QUOTAS)))
    return path


def spend(
    url: str,
    policy: Path,
    count: int,
    *,
    first: int = 0,
    more: tuple[Quota, ...] = (),
) -> None:
    """Have *count* exchanges of acme's end."""
    quotas = load_policy(policy, {}, credentials=False).tenants["acme"].quotas
    asyncio.run(_spend(url, (*quotas, *more), range(first, first + count)))


async def _spend(url: str, quotas: tuple[Quota, ...], numbers: range) -> None:
    now_ms = int(time.time() * 1_000)
    # One moment for all of them, so that no hour ends in between.
    store = RedisStore(url, Fanout(()), deadline_seconds=30, now_ms=lambda: now_ms)
    ledger = TaggedLedger(store)
    subject = Subject("acme", "ci", "", "chat_completions", "gpt-4o", "openai")
    values = {"tenant": "acme", "key": "ci", "model": "gpt-4o"}
    for number in numbers:
        hold = Hold(
            f"{await ledger.epoch()}-{now_ms:x}-{number}",
            parts_of(quotas, values, now_ms),
            Amounts(1, 100, 100, COST_NANOUSD),
            subject,
        )
        await ledger.reserve(hold)
        usage = TokenUsage(input_tokens=100, output_tokens=TOKENS - 100)
        settlement = Settlement(
            usage, Source.REPORTED, Outcome.COMPLETED, cost_nanousd=COST_NANOUSD
        )
        await ledger.settle(hold, settlement)
    await store.close()


def export(url: str, folder: Path) -> None:
    """Write down the records of acme's, as an exporter does."""
    asyncio.run(_export(url, folder))


async def _export(url: str, folder: Path) -> None:
    from tokenweir.core.partition import tag_of  # noqa: PLC0415

    inspector = Inspector(url, Fanout(()))
    lines = []
    async for entry, record in inspector.records(tag_of("acme"), 0, "+"):
        lines.append(json.dumps({**record, "tag": tag_of("acme"), "entry": entry}))
    (folder / "usage-2026-01-01.jsonl").write_text("\n".join(lines) + "\n")
    await inspector.close()


def counters(client: redis.Redis) -> dict[str, int]:
    """What each budget has spent."""
    found = {}
    for key in client.scan_iter(keys.COUNTERS):
        name = key.partition(":w:")[2].partition(":")[2].partition("|")[0]
        found[name] = int(str(client.get(key)).split(" ")[0])
    return found


def set_back(client: redis.Redis, spent: int) -> None:
    """Let all counters say so much."""
    for key in client.scan_iter(keys.COUNTERS):
        _, *rest = str(client.get(key)).split(" ")
        client.set(key, " ".join([str(spent), *rest]), keepttl=True)


def run(verb: str, server: Server, policy: Path, *more: str) -> int:
    """Run one of the commands."""
    return main(
        ["ledger", verb, "--policy", str(policy), "--ledger", server.url, *more]
    )


def test_all_is_well(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """It is said of how many counters, and by what evidence; --all tells each."""
    spend(server.url, policy, 3)
    client.config_resetstat()

    assert run("verify", server, policy) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 counters at ")
    assert ": 2 agree\nevidence: 3 records in the ledger, 0 exported ones" in out
    assert run("verify", server, policy, "--all", "--days", "40") == 0
    out = capsys.readouterr().out
    assert "acme.budget_usd_per_month" in out
    assert "$0.03" in out
    assert "450" in out
    calls = client.info("commandstats")
    assert not {"cmdstat_set", "cmdstat_del", "cmdstat_hincrby"} & set(calls)


def test_what_is_wrong_is_told_and_mended(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """By how much, what would be done, what was done; then all is well."""
    spend(server.url, policy, 3)
    set_back(client, 10)

    assert run("verify", server, policy) == 1
    out = capsys.readouterr().out
    assert "too low by $0.02999999" in out
    assert "too low by 440" in out
    assert "2 too low" in out

    assert run("rebuild", server, policy) == 1
    assert "Nothing was changed: --apply does it." in capsys.readouterr().out
    assert set(counters(client).values()) == {10}

    assert run("rebuild", server, policy, "--apply") == 0
    assert "Done where it says so." in capsys.readouterr().out
    assert counters(client) == {
        "acme.budget_usd_per_month": 3 * COST_NANOUSD,
        "acme.budget_tokens_per_month_by_model": 3 * TOKENS,
    }
    assert run("verify", server, policy) == 0
    assert run("rebuild", server, policy, "--apply") == 0
    assert "Nothing to put right" in capsys.readouterr().out


def test_what_is_too_high_stays_unless_it_may_be_lowered(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """It is told; who knows better says so."""
    spend(server.url, policy, 1)
    set_back(client, 500)

    assert run("rebuild", server, policy, "--apply") == 0
    assert "too high by 350" in capsys.readouterr().out
    assert counters(client)["acme.budget_tokens_per_month_by_model"] == 500
    assert run("rebuild", server, policy, "--apply", "--allow-decrease") == 0
    assert counters(client)["acme.budget_tokens_per_month_by_model"] == TOKENS


def test_exported_records_know_what_was_lost(
    server: Server, client: redis.Redis, policy: Path, tmp_path: Path, capsys: Capture
) -> None:
    """An empty ledger gets its counters back, and what came after stays."""
    spend(server.url, policy, 3)
    export(server.url, tmp_path)
    client.flushall()
    spend(server.url, policy, 1, first=7)
    given = ("--records", str(tmp_path))

    assert run("verify", server, policy) == 0
    assert run("verify", server, policy, *given) == 1
    assert "3 exported ones" in capsys.readouterr().out
    assert run("rebuild", server, policy, "--apply", *given) == 0
    assert run("rebuild", server, policy, "--rollups", "--apply", *given) == 0
    assert run("verify", server, policy, *given) == 0
    assert counters(client)["acme.budget_usd_per_month"] == 4 * COST_NANOUSD


def test_json(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """Whole numbers, every counter, and what was done."""
    spend(server.url, policy, 2)
    set_back(client, 10)
    assert run("rebuild", server, policy, "--json") == 1
    would: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run("rebuild", server, policy, "--apply", "--json") == 0
    did = json.loads(capsys.readouterr().out)
    assert run("verify", server, policy, "--json") == 0
    after = json.loads(capsys.readouterr().out)

    assert (would["applied"], would["agrees"], would["verdicts"]) == (
        False,
        False,
        {"too low": 2},
    )
    step = did["steps"][1]
    assert step["limit"] == "acme.budget_usd_per_month|budget_usd|tenant=acme"
    assert (step["unit"], step["add"]) == ("nanousd", 2 * COST_NANOUSD - 10)
    assert (step["becomes"], step["done"]) == (2 * COST_NANOUSD, True)
    assert [each["done"] for each in would["steps"]] == [None, None]
    assert after["agrees"] is True
    assert after["evidence"] == {"records": 2, "exported": 0, "sums": 1}
    [finding] = [each for each in after["findings"] if each["unit"] == "tokens"]
    assert finding["counter"] == {
        "spent": {"least": 300, "most": 300},
        "reserved": 0,
        "held": 0,
    }


def rebuild_sums(server: Server, *more: str) -> int:
    """Run the command that needs no policy."""
    return main(["ledger", "rebuild", "--rollups", "--ledger", server.url, *more])


def spoil(client: redis.Redis) -> None:
    """Let a sum say less than it should, and tell of refusals besides."""
    [key] = client.scan_iter("{tw:*}:a:*")
    for name in client.hgetall(key):
        if str(name).endswith(("cost_nanousd", "exchanges")):
            client.hincrby(key, name, -1)
    client.hset(key, f"{str(name).rpartition(SEPARATOR)[0]}{SEPARATOR}refused_x", 4)


def test_sums_that_are_wrong_are_told_and_mended(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """By hour and tenant; counters agree all the while, and refusals stay counted."""
    spend(server.url, policy, 3)
    [key] = client.scan_iter("{tw:*}:a:*")
    right = client.hgetall(key)
    spoil(client)

    assert run("verify", server, policy) == 1
    out = capsys.readouterr().out
    assert ": 2 agree\n" in out
    assert "differs in" in out
    assert "cost_nanousd, exchanges" in out
    assert rebuild_sums(server) == 1
    assert "Nothing was changed: --apply does it." in capsys.readouterr().out
    assert client.hgetall(key) != right

    assert rebuild_sums(server, "--apply") == 0
    assert "Done where it says so." in capsys.readouterr().out
    client.hdel(
        key, *(name for name in client.hgetall(key) if "refused_x" in str(name))
    )
    assert client.hgetall(key) == right
    assert run("verify", server, policy) == 0
    assert rebuild_sums(server, "--apply", "--days", "400") == 0
    assert "Nothing to put right" in capsys.readouterr().out


def test_sums_as_json(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """What they say and should, of each that differs."""
    spend(server.url, policy, 2)
    spoil(client)
    assert run("verify", server, policy, "--json") == 1
    verified: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert rebuild_sums(server, "--json", "--apply") == 0
    rebuilt = json.loads(capsys.readouterr().out)

    assert verified["agrees"] is True
    assert verified["rollups"] == rebuilt["rollups"]
    assert rebuilt["applied"] is True
    assert (rebuilt["rollups"]["verdicts"], rebuilt["rollups"]["left"]) == (
        {"differs": 1},
        0,
    )
    [differing] = rebuilt["rollups"]["differing"]
    assert (differing["tenant"], differing["user"]) == ("acme", None)
    assert differing["says"]["exchanges"] == 1
    assert differing["should"]["exchanges"] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--policy: give the policy in force"),
        (["--policy", "p", "--days", "41"], "counters are kept for 40 days"),
        (["--rollups", "--allow-decrease"], "leave it out with --rollups"),
    ],
)
def test_options_that_do_not_go_together(
    capsys: Capture, arguments: list[str], says: str
) -> None:
    """It is said what would be right."""
    assert main(["ledger", "rebuild", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_budgets_of_issued_keys(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """Keys that were issued through the ledger have theirs, and are found there."""
    entry: dict[str, Any] = {
        "id": "issued",
        "tenant": "acme",
        "sha256": sha256("sk-issued"),
        "created_at": "2026-01-01T00:00:00Z",
        "quotas": [{"budget_usd": 5, "per": "month"}],
    }
    document = json.dumps({"version": 1, "keys": [entry]})
    private_key = Ed25519PrivateKey.generate()
    asyncio.run(_publish(server.url, document, private_key))
    issued = with_issued_keys(load_policy(policy, {}, credentials=False), document)
    spend(server.url, policy, 1, more=issued.keys[entry["sha256"]].quotas)

    assert run("verify", server, policy, "--all") == 1
    out = capsys.readouterr().out
    assert out.count("budget_usd_per_month") == 2
    assert "too high by $0.01" in out  # for another key's it was put down
    assert "no such budget" not in out


async def _publish(url: str, document: str, key: Ed25519PrivateKey) -> None:
    envelope = Envelope("keys", 1, document, 1, "me", "")
    async with Channel.open(url) as channel:
        await channel.publish(sign(envelope, key), after=0)


def test_a_budget_that_is_gone(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """Its counter can't be judged: that is said, and is no agreement."""
    spend(server.url, policy, 1)
    policy.write_text(yaml.safe_dump(content(9, quotas=QUOTAS[:1])))

    assert run("verify", server, policy) == 1
    out = capsys.readouterr().out
    assert "1 agree, 1 no such budget" in out
    assert "left alone" in out


def test_what_was_spent_under_other_policies(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """A budget may be new; whoever knows is told so."""
    spend(server.url, policy, 1)
    client.delete(*client.scan_iter(keys.COUNTERS))

    assert run("verify", server, policy) == 1
    assert "was spent under other policies" in capsys.readouterr().out


def test_no_ledger_there(tmp_path: Path, policy: Path, capsys: Capture) -> None:
    """It is said where none answers, without the password."""
    url = f"unix://user:CANARY@{tmp_path}/none.sock"
    code = main(["ledger", "verify", "--policy", str(policy), "--ledger", url])

    assert code == 1
    err = capsys.readouterr().err
    assert "no answer from unix://" in err
    assert "CANARY" not in err


@pytest.mark.parametrize(
    ("records", "code", "says"),
    [("nowhere", 1, "nowhere"), ("env:TW_NOT_SET", 2, "TW_NOT_SET is empty")],
)
def test_no_such_records(
    server: Server, policy: Path, capsys: Capture, records: str, code: int, says: str
) -> None:
    """Nothing is compared, as if there were none."""
    assert run("verify", server, policy, "--records", records) == code
    assert says in capsys.readouterr().err


def test_records_of_a_variable(
    server: Server,
    client: redis.Redis,
    policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A URL with a password is not on a command line."""
    spend(server.url, policy, 1)
    export(server.url, tmp_path)
    monkeypatch.setenv("TW_RECORDS", str(tmp_path))

    assert run("verify", server, policy, "--records", "env:TW_RECORDS") == 0


def test_a_broken_policy(server: Server, policy: Path, capsys: Capture) -> None:
    """Its problems are told as `check` tells them."""
    policy.write_text("version: 1\ntenants: []\n")

    assert run("verify", server, policy) == 1
    assert "tenants" in capsys.readouterr().out


def test_somebody_else_rebuilds(
    server: Server, client: redis.Redis, policy: Path, capsys: Capture
) -> None:
    """Then nothing is done."""
    client.set(keys.REBUILD_LEASE, "other")

    assert run("rebuild", server, policy, "--apply") == 1
    assert "somebody else rebuilds" in capsys.readouterr().err
    client.delete(keys.REBUILD_LEASE)


@pytest.mark.parametrize("arguments", [[], ["verify"], ["verify", "--days", "99"]])
def test_wrong_usage(arguments: list[str]) -> None:
    """A verb and a policy are needed."""
    with pytest.raises(SystemExit) as left:
        main(["ledger", *arguments])

    assert left.value.code == 2
