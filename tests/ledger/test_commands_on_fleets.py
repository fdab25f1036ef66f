"""
Each command once, by the user that deploy/redis has for it, where several servers are
one ledger: what it reads and writes lies on all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.test_ledger import QUOTAS, spend
from tests.fleet import (
    ClusterFleet,
    SentinelFleet,
    ask,
    cluster_fleet,
    sentinel_fleet,
)
from tests.pod import policy as content
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.ledger.live import LiveReader
from tokenweir.ledger.picture import Painter
from tokenweir.ledger.redis import RedisStore
from tokenweir.telemetry.fanout import Fanout

ACL = Path("deploy/redis/tokenweir.acl")
CALLS = 6
REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello."}]}

Fleet = ClusterFleet | SentinelFleet
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=["cluster", "sentinel"])
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Three nodes, or a primary with a replica and a Sentinel."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "cluster":
        with cluster_fleet(folder) as cluster:
            know_users([node.server for node in cluster.nodes])
            yield cluster
    else:
        with sentinel_fleet(folder, sentinels=1) as watched:
            know_users([node.server for node in watched.servers])
            yield watched


def know_users(servers: list[Server]) -> None:
    """Have *servers* know the users of deploy/redis."""
    for server in servers:
        for line in ACL.read_text().splitlines():
            ask(server, "ACL", "SETUSER", *line.split()[1:])


def as_user(fleet: Fleet, name: str) -> str:
    """The fleet's URL for the user of a task."""
    login = f"tokenweir-{name}:CHANGE-ME-{name.upper()}@"
    return fleet.url.replace("://", f"://{login}")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy with budgets."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(yaml.safe_dump(content(9, quotas=QUOTAS)))
    return path


@pytest.fixture(scope="module")
def spent(fleet: Fleet, policy: Path) -> Fleet:
    """The fleet, with some exchanges that a processor has settled."""
    spend(as_user(fleet, "sidecar"), policy, CALLS)
    return fleet


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the policy names."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-provider")


def run(capsys: Capture, *command: str) -> str:
    """Run a command that has nothing to complain of; return what it prints."""
    code = main(list(command))
    told = capsys.readouterr()
    assert (code, told.err) == (0, ""), (command, told)
    return told.out


def test_reports(spent: Fleet, policy: Path, tmp_path: Path, capsys: Capture) -> None:
    """Usage, prompts, quotas that matched nothing, and what would be decided."""
    reader = ("--ledger", as_user(spent, "reader"))
    usage = run(capsys, "usage", *reader, "--json")
    assert f'"exchanges": {CALLS}' in usage
    run(capsys, "audit", "prompts", *reader)
    main(["check", str(policy), *reader, "--hours", "1"])
    assert "no answer" not in capsys.readouterr().err
    asked = tmp_path / "request.json"
    asked.write_text(json.dumps(REQUEST))
    explain = ("explain", "--policy", str(policy), "--key-id", "ci", str(asked))
    told = run(capsys, *explain, *reader, "--json")
    assert json.loads(told)


async def test_what_goes_on_is_watched(spent: Fleet) -> None:
    """The last minute, this hour and what is in flight, from all servers."""
    url, events = as_user(spent, "reader"), Fanout(())
    store, reader = RedisStore(url, events), LiveReader(url, events)
    picture = await Painter(store, reader, ("tenant",)).look()
    await asyncio.gather(store.close(), reader.close())

    assert picture.minute[("acme",)]["exchanges"] == CALLS
    assert picture.this_hour[("acme",)]["exchanges"] == CALLS
    assert picture.flying == {}


def test_counters_are_proven_and_rebuilt(
    spent: Fleet, policy: Path, capsys: Capture
) -> None:
    """A counter that was set back is found and put right, wherever it lies."""
    auditor = ("--policy", str(policy), "--ledger", as_user(spent, "auditor"))
    rebuilder = ("--policy", str(policy), "--ledger", as_user(spent, "rebuilder"))
    servers = spent.nodes if isinstance(spent, ClusterFleet) else [spent.primary()]
    for node in servers:
        for name in ask(node.server, "KEYS", "{tw:*}:w:*"):
            ask(node.server, "DEL", name)
    assert main(["ledger", "verify", *auditor]) == 1
    capsys.readouterr()
    main(["ledger", "rebuild", *rebuilder, "--apply"])
    capsys.readouterr()

    run(capsys, "ledger", "verify", *auditor)


def test_records_are_exported(spent: Fleet, tmp_path: Path, capsys: Capture) -> None:
    """Of all tags, each once."""
    exporter = ("--ledger", as_user(spent, "exporter"))
    for _ in range(2):
        assert main(["export", f"jsonl:{tmp_path}", *exporter, "--once"]) == 0
    capsys.readouterr()
    files = tmp_path.glob("*.jsonl")
    assert sum(len(file.read_text().splitlines()) for file in files) == CALLS
    lag = run(capsys, "export", "--lag", *exporter, "--json", f"jsonl:{tmp_path}")
    assert '"behind_entries": 0' in lag


def test_policies_and_keys_are_published(
    spent: Fleet,
    policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """By the one user who may; each can be listed, and those of sidecars may not."""
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "keygen"]) == 0
    (tmp_path / "public.pem").write_text(capsys.readouterr().out)
    admin = ("--ledger", as_user(spent, "admin"))
    signing = ("--signing-key", "file:tokenweir-signing-key.pem")
    public = ("--governance-key", "file:public.pem")
    publish = ("policy", "publish", str(policy), *signing, "--comment", "first")
    assert main([*publish, *admin]) == 0
    new = ("keys", "new", "--tenant", "acme", "--id", "app", *signing, *admin)
    assert main([*new]) == 0
    capsys.readouterr()
    assert "first" in run(capsys, "policy", "history", *admin, *public)
    assert "app" in run(capsys, "keys", "list", *admin, *public)
    sidecar = ("--ledger", as_user(spent, "sidecar"))
    assert main([*publish, *sidecar]) == 1
    assert "does not allow" in capsys.readouterr().err
