"""The users of deploy/redis can do their work, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from tests.core.spenders import DAY, policy
from tests.governance.documents import signed
from tests.ledger_view import LedgerView, Silent
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.amendment import Amendment
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Amounts,
    Granted,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
    Subject,
)
from tokenweir.core.holding import share_of
from tokenweir.core.limits import parts_of
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.core.record import HOUR_MS, hour_of
from tokenweir.core.rollups import RollupFinding, RollupVerdict
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.core.window import Window
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import POLICY
from tokenweir.governance.key_desk import newest_at
from tokenweir.ledger.audit import Auditor
from tokenweir.ledger.inspector import Inspector
from tokenweir.ledger.link import Link
from tokenweir.ledger.live import LiveReader
from tokenweir.ledger.picture import Painter
from tokenweir.ledger.prompts import PromptKey, PromptLedger, PromptSum
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.rollups import RollupAuditor
from tokenweir.ledger.sweeper import Sweeper
from tokenweir.ledger.tagged import TaggedLedger

DAY_NS = 86_400_000_000_000
PROMPT = PromptSum(
    PromptKey("acme", "gpt-4o", Kind.SYSTEM, "0123456789abcdef"),
    PromptCost(1, 30, 30, 0, 40, 5),
    "Be brief.",
)
ACL = Path("deploy/redis/tokenweir.acl")
LIMITS = (
    Limit("acme.tokens", Axis.TOKENS, "tenant=acme", 1_000, 1_000),
    Limit("acme.slots", Axis.CONCURRENCY, "tenant=acme", 0, 4),
)


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of each kind."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"{REDIS_SERVER} is not installed")
    start = start_valkey if request.param == "valkey" else start_redis
    started = start(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def admin(server: Server) -> Iterator[redis.Redis]:
    """A connection that may do everything, to a server with all users."""
    with redis.Redis.from_url(server.url) as client:
        for line in ACL.read_text().splitlines():
            execute(client, "ACL", "SETUSER", *line.split()[1:])
        yield client


def execute(client: redis.Redis, *command: str) -> object:
    """Send one command as it is."""
    answer: object = client.execute_command(*command)  # type: ignore[no-untyped-call]
    return answer


def url_of(server: Server, user: str) -> str:
    """Return the URL of one of the users."""
    password = f"CHANGE-ME-{user.upper()}"
    return server.url.replace("unix://", f"unix://tokenweir-{user}:{password}@")


def hold(name: str) -> Hold:
    """Return a hold of 100 tokens."""
    subject = Subject("acme", "ci", "", "chat_completions", "gpt-4o", "openai")
    part = Part(tag_of("acme"), LIMITS)
    return Hold(f"0-0-{name}", (part,), Amounts(1, 40, 60), subject)


async def work(store: RedisStore) -> None:
    """Do all that a processor does."""
    ledger = TaggedLedger(store)
    await ledger.ping()
    for name in ("settled", "cancelled", "expired"):
        assert isinstance(await ledger.reserve(hold(name)), Granted)
    await ledger.extend(hold("settled"), 70)
    settlement = Settlement(
        TokenUsage(40, output_tokens=50), Source.REPORTED, Outcome.COMPLETED
    )
    await ledger.settle(hold("settled"), settlement)
    await ledger.cancel(hold("cancelled"))
    await store.tally(tag_of("acme"), 0, {"acme\x1fci\x1fm\x1fp\x1fr\x1fmatched_q": 1})
    await PromptLedger(store.link).add("acme", time.time_ns() // DAY_NS, [PROMPT])
    assert await Sweeper(store, Silent()).sweep_once() is not None
    assert await store.eviction() is not None


@pytest.mark.usefixtures("admin")
async def test_sidecar_can_do_its_work(server: Server) -> None:
    """Every verb, the sweep and the reaper run under the least rights."""
    store = RedisStore(
        url_of(server, "sidecar"), Silent(), deadline_seconds=30, hold_ms=1
    )
    try:
        await work(store)
    finally:
        await store.close()


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("user", ["sidecar", "reader"])
async def test_what_is_published_others_only_read(server: Server, user: str) -> None:
    """The admin publishes; others see it, and Redis refuses whatever they write."""
    async with Channel.open(url_of(server, "admin")) as channel:
        for version in (1, 2):
            await channel.publish(signed(version), after=version - 1)
    async with Channel.open(url_of(server, user)) as channel:
        assert await channel.versions() == {"policy": 2, "keys": 0}
        assert await channel.history(POLICY, 10) == [signed(2), signed(1)]
        with pytest.raises(LedgerUnavailableError, match="NoPermission"):
            await channel.publish(signed(3), after=2)


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    "command",
    [
        ("SET", "{twg}:policy", "9"),
        ("DEL", "{twg}:policy"),
        ("GETEX", "{twg}:policy", "PX", "1"),
        ("PEXPIRE", "{twg}:policy", "1"),
        ("ZADD", "{twg}:policy:versions", "9", "9"),
        ("ZREM", "{twg}:policy:versions", "1"),
        ("EVAL", "return redis.call('SET', '{twg}:policy', '9')", "0"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "{twg}:policy"),
    ],
    ids=str,
)
def test_a_sidecar_can_not_publish(server: Server, command: tuple[str, ...]) -> None:
    """Neither by a command nor from a script."""
    refusal = pytest.raises(redis.ResponseError, match=r"(?i)permission|access|acl")
    with redis.Redis.from_url(url_of(server, "sidecar")) as client, refusal:
        execute(client, *command)


async def test_reader_sees_what_sidecars_wrote(
    server: Server, admin: redis.Redis
) -> None:
    """The reader sees records and rollups, can watch, and can't write any."""
    store = RedisStore(url_of(server, "sidecar"), Silent(), deadline_seconds=30)
    await work(store)
    await store.close()
    async with LedgerView.connect(url_of(server, "reader")) as view:
        assert await view.total() == (40, 50)
        assert (await view.rolled_up())["exchanges"] == 1

    user = url_of(server, "reader")
    link = Link(user, Silent(), deadline_seconds=10)
    today = time.time_ns() // DAY_NS
    prompts = await PromptLedger(link).read(today - 1, today)
    assert prompts == {PROMPT.key: PROMPT.cost}
    assert await PromptLedger(link).texts(prompts) == {PROMPT.key.digest: PROMPT.text}
    await link.close()
    seen = RedisStore(user, Silent(), deadline_seconds=30)
    live = LiveReader(user, Silent())
    picture = await Painter(seen, live, ("tenant", "model")).look()
    await seen.close()
    await live.close()
    assert picture.minute[("acme", "gpt-4o")]["output_tokens"] == 50

    with (
        redis.Redis.from_url(url_of(server, "reader")) as reader,
        pytest.raises(NoPermissionError),
    ):
        reader.set("{tw:000}:e", 1)
    assert admin.exists("{tw:000}:e") == 0


async def _reserve_of_a_budget(server: Server) -> None:
    """Have a sidecar's user reserve something of `DAY`."""
    store = RedisStore(url_of(server, "sidecar"), Silent(), deadline_seconds=30)
    limits = parts_of((DAY,), {"tenant": "acme"}, time.time_ns() // 1_000_000)
    amounts = Amounts(1, 40, 60, 700)
    spent = replace(hold("spent"), parts=limits, amounts=amounts)
    await store.reserve(limits[0].tag, share_of(spent, limits[0], keeps_record=True))
    await store.close()


def _capped_once(hour: int) -> list[RollupFinding]:
    """Return what has both kinds of sums tell of one more capped answer."""
    return [
        RollupFinding(
            hour, tuple("tkmpr"), user, RollupVerdict.DIFFERS, {}, {"capped": 1}
        )
        for user in (None, "u")
    ]


@pytest.mark.usefixtures("admin")
async def test_auditor_and_rebuilder_can_do_their_work(server: Server) -> None:
    """The one sees counters, holds, records, sums; the other can write sums, counters."""
    await _reserve_of_a_budget(server)
    url = url_of(server, "auditor")
    inspector = Inspector(url, Silent())
    reader = RedisStore(url, Silent(), deadline_seconds=30)
    await Auditor(inspector, reader, policy(DAY)).audit()
    assert await newest_at(url, ()) is None
    ((tag, (name,)),) = (await inspector.counters()).items()
    before = (await inspector.look(tag, [name])).spendings[name]
    amendment = Amendment(name[0], Window(name[1], before.end_ms), 0, 5, 1_000)
    with pytest.raises(LedgerUnavailableError):
        await inspector.amend(tag, [amendment])
    assert (await RollupAuditor(inspector, HOUR_MS).audit()).differing == ()
    hour = hour_of(await inspector.now_ms())
    sums = _capped_once(hour)
    with pytest.raises(LedgerUnavailableError):
        await inspector.mend(tag, hour, sums)
    await reader.close()
    await inspector.close()

    inspector = Inspector(url_of(server, "rebuilder"), Silent())
    assert await inspector.lead("me", 1_000)
    assert await inspector.amend(tag, [amendment]) == [True]
    after = (await inspector.look(tag, [name])).spendings[name]
    assert after == replace(before, spent=5)
    assert await inspector.mend(tag, hour, sums) == [True, True]
    await inspector.close()


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("user", ["sidecar", "reader", "admin", "auditor", "rebuilder"])
@pytest.mark.parametrize(
    "command",
    [
        ("GET", "another-app"),
        ("SET", "another-app", "1"),
        ("HGETALL", "tw:000"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("KEYS", "*"),
        ("EVAL", "return redis.call('GET', 'another-app')", "0"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_else_is_theirs(
    server: Server, user: str, command: tuple[str, ...]
) -> None:
    """Other keys, configuration, users and flushing are out of reach."""
    refusal = pytest.raises(redis.ResponseError, match=r"(?i)permission|access|acl")
    with redis.Redis.from_url(url_of(server, user)) as client, refusal:
        execute(client, *command)
