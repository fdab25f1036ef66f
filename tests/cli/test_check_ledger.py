"""What a ledger knows beside a policy: issued keys, and quotas that matched nothing."""

from __future__ import annotations

import asyncio
import json
import pathlib
import time
from typing import Any

import pytest
import redis

from tests.config.policies import CANARY, SMALL, edited, write
from tests.governance.documents import PRIVATE, PUBLIC, STRANGER
from tests.servers import Server
from tokenweir.cli import check_ledger
from tokenweir.cli.main import main
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import tag_of
from tokenweir.core.record import SEPARATOR
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import KEYS, Envelope, sign
from tokenweir.governance.key_files import public_text
from tokenweir.ledger.redis import RedisStore
from tokenweir.telemetry.fanout import Fanout

Capture = pytest.CaptureFixture[str]
RPM, TPM = "acme.requests_per_minute", "acme.tokens_per_minute"
KEYLESS = edited(
    SMALL[SMALL.index("    keys:") : SMALL.index("    quotas:")], "", SMALL
)


@pytest.fixture(autouse=True)
def _clean(ledger: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no user of another test, and have the provider's key at hand."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with redis.Redis.from_url(ledger.url) as client:
        client.acl_deluser("reader")


def count(server: Server, hours_ago: int = 0, **figures: int) -> None:
    """Have a processor count *figures* for key ci of acme."""
    group = SEPARATOR.join(("acme", "ci", "gpt-4o-mini", "openai", "chat_completions"))
    sums = {f"{group}{SEPARATOR}{name}": n for name, n in figures.items()}
    hour = int(time.time() // 3_600) - hours_ago

    async def tally() -> None:
        store = RedisStore(server.url, Fanout(()), deadline_seconds=30)
        await store.tally(tag_of("acme"), hour, sums)
        await store.close()

    asyncio.run(tally())


def issue(server: Server, *keys: dict[str, Any], content: str | None = None) -> None:
    """Publish *keys* of tenant acme, or whatever *content* is."""
    entries = [
        {"id": f"issued-{at}", "tenant": "acme", "sha256": f"{at:064x}"} | key
        for at, key in enumerate(keys)
    ]
    for entry in entries:
        entry.setdefault("created_at", "2026-01-01T00:00:00Z")
    content = content or json.dumps({"version": 1, "keys": entries})
    envelope = sign(Envelope(KEYS, 1, content, 0, "ann", "why"), PRIVATE)

    async def publish() -> None:
        async with Channel.open(server.url) as channel:
            await channel.publish(envelope, after=0)

    asyncio.run(publish())


def reader(server: Server, *keys: str) -> str:
    """Return the URL of a user who may use *keys* only."""
    with redis.Redis.from_url(server.url) as client:
        client.acl_setuser(
            "reader",
            enabled=True,
            passwords=["+secret"],
            keys=keys,
            categories=["+@all"],
        )
    return server.url.replace("unix://", "unix://reader:secret@")


def check(server: Server, path: pathlib.Path, *more: str) -> int:
    """Run the command; return its exit code."""
    return main(["check", str(path), "--ledger", server.url, *more])


def test_quotas_that_matched_nothing(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Those of the last hours are named, with how many calls came, and no other."""
    count(ledger, exchanges=2_000, **{f"matched_{RPM}": 2_000, "refused:draining": 3})
    count(ledger, hours_ago=30, **{f"matched_{TPM}": 5})
    path = write(tmp_path, SMALL)

    assert check(ledger, path) == 0
    out, err = capsys.readouterr()
    assert ": fine (digest " in out.splitlines()[0]
    head, line, hint = out.splitlines()[-3:]
    assert head.startswith("quotas that applied to nothing, 20")
    assert head.endswith(f" UTC until now ({ledger.url})")
    assert line == f"  {TPM}: to none of 2,003 calls"
    assert "`tokenweir usage --by tenant,model,route`" in hint
    assert err == ""
    assert check(ledger, path, "--hours", "48") == 0
    assert "every quota has applied to something, 20" in capsys.readouterr().out


def test_calls_are_told_as_people_do(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Without calls nothing can be told of a quota; one call is one."""
    path = write(tmp_path, SMALL)
    check(ledger, path)
    assert f"  {RPM}: nobody who has it made a call\n" in capsys.readouterr().out
    count(ledger, exchanges=1)
    check(ledger, path)

    assert f"  {RPM}: not to the one call\n" in capsys.readouterr().out


def test_json(ledger: Server, tmp_path: pathlib.Path, capsys: Capture) -> None:
    """Machines get the same, and reasons out of a closed list."""
    count(ledger, exchanges=2, **{f"matched_{RPM}": 2})
    more = "      - {requests_per_minute: 700, name: more}\n"
    path = write(tmp_path, SMALL + more)

    assert check(ledger, path, "--json", "--hours", "2") == 0
    told = json.loads(capsys.readouterr().out)
    seen = told.pop("seen")
    begin, end = seen.pop("from"), seen.pop("until")
    assert (begin[-7:], end[-7:]) == (":00:00Z",) * 2
    assert seen == {
        "ledger": ledger.url,
        "keys_version": 0,
        "unmatched_quotas": [
            {"quota": TPM, "calls": 2},
            {"quota": "acme.more", "calls": 2},
        ],
    }
    assert (told["file"], told["problems"]) == (str(path), [])
    [ineffective] = told["ineffective_quotas"]
    assert (ineffective["quota"], ineffective["reason"]) == ("acme.more", "outdone")
    assert f"quota acme.more: {ineffective['text']}" in told["warnings"]


def test_issued_keys_count(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Who has an issued key can call, and its own quotas are looked at."""
    path, known = write(tmp_path, KEYLESS), tmp_path / "known"
    known.write_text(public_text(PUBLIC))
    verified = ("--governance-key", f"file:{known}")
    check(ledger, path, *verified)
    nobody = (
        "tenants.acme: has no keys that work, here or issued: nobody can call as it"
    )
    assert nobody in capsys.readouterr().out
    issue(
        ledger,
        {"quotas": [{"concurrency": 1}]},
        {"tenant": "unknown"},
        {"quotas": [{"concurrency": 1}], "revoked_at": "2026-01-02T00:00:00Z"},
    )

    assert check(ledger, path, *verified) == 0
    out = capsys.readouterr().out
    assert nobody not in out
    assert "  acme/issued-0.concurrency: nobody who has it made a call\n" in out
    assert "acme/issued-2.concurrency: " not in out
    assert "  issued key issued-1: " in out
    assert "not verified" not in out
    assert check(ledger, path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seen"]["keys_version"] == 1
    assert told["warnings"][-1].startswith("issued keys: not verified, ")


def test_issued_keys_that_nobody_known_has_signed(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """They are not believed, and that is told."""
    known = tmp_path / "known"
    known.write_text(public_text(STRANGER.public_key()))
    issue(ledger, {})

    path = write(tmp_path, SMALL)
    assert check(ledger, path, "--governance-key", f"file:{known}") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "signed by nobody who is known here" in err
    assert check(ledger, path, "--governance-key", f"file:{tmp_path}/absent") == 2


def test_issued_keys_that_can_not_be_used(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """What is wrong with them is told."""
    issue(ledger, content='{"version": 1, "keys": [{}]}')

    assert check(ledger, write(tmp_path, SMALL)) == 1
    err = capsys.readouterr().err
    assert err.startswith("The keys that are issued can't be used: keys.0.")


def test_who_may_not_read_issued_keys(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """They are told so; what came is told all the same."""
    url = reader(ledger, "tw:*", "{tw:*")

    assert main(["check", str(write(tmp_path, SMALL)), "--ledger", url]) == 0
    out = capsys.readouterr().out
    assert "  issued keys: not read, as this user of the ledger may not\n" in out
    assert f"  {RPM}: nobody who has it made a call\n" in out
    assert "secret" not in out


def test_who_may_not_read_what_came(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """They are told who may."""
    url = reader(ledger, "{twg}*")

    assert main(["check", str(write(tmp_path, SMALL)), "--ledger", url]) == 1
    assert "does not allow this user to read what came. Use one such as " in (
        capsys.readouterr().err
    )


def test_a_single_tenant(
    ledger: Server, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Keys play no part then, so they are not read."""
    issue(ledger, content="broken")
    path = write(tmp_path, f"{SMALL}single_tenant: acme\n")

    assert check(ledger, path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["seen"]["keys_version"] == 0


def test_a_ledger_that_does_not_answer(
    tmp_path: pathlib.Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, with what to look at, and nothing else is."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    url = f"unix://user:secret@{tmp_path}/absent.sock"

    def dead(*_: object) -> None:
        raise LedgerUnavailableError

    path = write(tmp_path, SMALL)
    assert main(["check", str(path), "--ledger", url]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("--ledger: no answer from ")
    assert "secret" not in err
    # It may also die once the keys are read.
    monkeypatch.setattr(check_ledger, "_with_issued", dead)
    assert main(["check", str(path), "--ledger", url]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--hours", "2"),
        ("--governance-key", "env:X"),
        ("--ledger", "http://x"),
        ("--ledger", "env:NOT_THERE"),
    ],
)
def test_wrong_usage(
    options: tuple[str, ...], tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """Options that need a ledger say so, and what is no ledger is told."""
    assert main(["check", str(write(tmp_path, SMALL)), *options]) == 2
    assert capsys.readouterr().err.startswith("--")


def test_problems_as_json(tmp_path: pathlib.Path, capsys: Capture) -> None:
    """A policy with problems has only those."""
    path = write(tmp_path, edited("version: 1", "version: 1\nretries: 99"))

    assert main(["check", str(path), "--json", "--without-secrets"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "file": str(path),
        "problems": ["retries: must be at most 10 (line 2)"],
    }
