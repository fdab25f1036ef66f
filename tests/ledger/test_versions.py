"""Processors of two versions on one ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.governance.documents import signed
from tests.ledger.builders import (
    TAG,
    Recorder,
    concurrency,
    hold,
    requests,
    reserved_of,
    used,
)
from tests.ledger.conftest import PATIENCE
from tests.ledger.load import Load, books_of
from tests.pod import until
from tests.servers import Server
from tokenweir.cli.main import main
from tokenweir.core.amendment import Amendment
from tokenweir.core.errors import NewerFormatError
from tokenweir.core.hold import Granted
from tokenweir.core.partition import all_tags
from tokenweir.core.window import Window
from tokenweir.export.streams import Streams
from tokenweir.governance.channel import Channel
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.inspector import Inspector
from tokenweir.ledger.keys import FORMAT
from tokenweir.ledger.levels_reader import LevelsReader
from tokenweir.ledger.live import LiveReader
from tokenweir.ledger.prompts import PromptLedger
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.scripts import Script, script_of
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = (requests(10), concurrency(5))


class OtherVersion(RedisStore):
    """A processor whose scripts do the same, and are others."""

    async def _run(self, script: Script, tag: str, arguments: Command) -> Any:
        source = f"-- of another version\n{script.source}"
        other = script_of(script.name, source, is_rooted=script.is_rooted)
        assert other.sha != script.sha
        return await super()._run(other, tag, arguments)


@pytest.fixture
async def other(server: Server, events: Recorder) -> AsyncIterator[RedisStore]:
    """A processor of another version, on the same server."""
    made = OtherVersion(server.url, events, deadline_seconds=PATIENCE)
    yield made
    await made.close()


async def test_versions_share_each_hold(
    live: RedisStore, other: RedisStore, client: redis.Redis
) -> None:
    """What one has reserved the other one renews, settles and cancels."""
    one, two = TaggedLedger(live), TaggedLedger(other)
    assert isinstance(await one.reserve(hold(1, *LIMITS)), Granted)
    assert await two.reserve(hold(1, *LIMITS)) == await one.reserve(hold(1, *LIMITS))
    await two.extend(hold(1, *LIMITS), 70)
    await one.extend(hold(1, *LIMITS), 80)
    await two.settle(hold(1, *LIMITS), used(50, 90))
    await one.settle(hold(1, *LIMITS), used(50, 90))
    assert isinstance(await two.reserve(hold(2, *LIMITS)), Granted)
    assert await one.cancel(hold(2, *LIMITS))

    snapshot = await live.snapshot(TAG)
    (record,) = snapshot.records
    assert record["output_tokens"] == "90"
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [0, 0]
    assert client.exists(f"{{{TAG}}}:f") == 0


async def test_versions_at_the_same_time(
    live: RedisStore, other: RedisStore, client: redis.Redis, events: Recorder
) -> None:
    """Both work under the same tags, and scripts are forgotten now and then (L14)."""
    loads, over = [Load(live, (TAG,)), Load(other, (TAG,))], asyncio.Event()
    running = [asyncio.create_task(load.run_until(over)) for load in loads]
    for settled in (20, 40, 60):
        await until(lambda n=settled: min(x.settled for x in loads) >= n)  # type: ignore[misc]
        client.script_flush()
    over.set()
    await asyncio.gather(*running)
    for load in loads:
        await load.flush()

    books = await books_of(loads[0])
    assert books.spent == books.recorded == sum(load.settled for load in loads)
    assert (books.reserved, books.slots, books.records) == (0, 0, 1)
    assert events.faults == []


def everything(client: redis.Redis) -> dict[str, object]:
    """Return all that there is, but for times to live."""
    return {name: client.dump(name) for name in client.scan_iter()}


async def test_a_newer_format_is_left_alone(
    server: Server, live: RedisStore, events: Recorder
) -> None:
    """No verb of this version reads or changes it; what was refused is told why."""
    ledger, made = TaggedLedger(live), hold(1, *LIMITS)
    await ledger.reserve(made)
    inspector = Inspector(server.url, events)
    amendment = Amendment("b", Window(0, 1), 0, 5, 1_000)
    verbs: dict[str, Callable[[], Awaitable[object]]] = {
        "reserve": lambda: ledger.reserve(hold(2, *LIMITS)),
        "extend": lambda: ledger.extend(made, 5),
        "settle": lambda: ledger.settle(made, used(1, 1)),
        "cancel": lambda: ledger.cancel(made),
        "sweep": lambda: live.sweep([TAG]),
        "tally": lambda: live.tally(TAG, 1, {"a": 1}),
        "look": lambda: inspector.look(TAG, []),
        "amend": lambda: inspector.amend(TAG, [amendment]),
    }
    with redis.Redis.from_url(server.url) as raw:
        raw.set(f"{{{TAG}}}:f", FORMAT + 1)
        before = everything(raw)
        for verb, call in verbs.items():
            with pytest.raises(NewerFormatError, match="upgrade"):
                await call()
            assert events.calls[-1] == (verb, True)
            assert events.reasons[-1] == "NEWFORMAT"
            assert everything(raw) == before
    assert {type(error) for _, error in events.faults} == {NewerFormatError}
    await inspector.close()


async def test_readers_leave_a_newer_format_alone(
    server: Server, live: RedisStore
) -> None:
    """What reports, watches, explains, exports or publishes says so, and stops."""
    ledger = TaggedLedger(live)
    await ledger.reserve(hold(1, *LIMITS))
    await ledger.settle(hold(1, *LIMITS), used(1, 1))
    inspector, events = Inspector(server.url, Recorder()), Recorder()
    reader, levels = LiveReader(server.url, events), LevelsReader(server.url, events)
    streams = Streams(server.url, "g", "c", tags=(TAG,))
    await streams.join()
    new = Streams(server.url, "h", "c", tags=(TAG,))
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: live.snapshot(TAG),
        lambda: live.holdings([TAG]),
        lambda: live.rollups([TAG], 0, 10**7),
        lambda: reader.entries({TAG: "0-0"}, 5),
        lambda: reader.in_flight([TAG], 5),
        lambda: levels.levels(TAG, LIMITS, 0),
        lambda: inspector.hours(0, 10**7),
        lambda: anext(inspector.records(TAG, 0, "+")),
        lambda: PromptLedger(live.link).read(0, 1),
        lambda: streams.new([TAG], 5),
    ]
    for read in reads:
        await read()
    with redis.Redis.from_url(server.url) as raw:
        for tag in (TAG, "tw:001", "twg"):
            raw.set(f"{{{tag}}}:f", FORMAT + 1)
        before = everything(raw)
        for read in reads:
            with pytest.raises(NewerFormatError, match="upgrade"):
                await read()
        with pytest.raises(NewerFormatError, match="upgrade"):
            await new.join()
        async with Channel.open(server.url, events) as channel:
            with pytest.raises(NewerFormatError, match="upgrade"):
                await channel.versions()
            with pytest.raises(NewerFormatError, match="upgrade"):
                await channel.history("policy", 5)
            with pytest.raises(NewerFormatError, match="upgrade"):
                await channel.publish(signed(1), after=0)
        assert everything(raw) == before
    for each in (streams, new, reader, levels, inspector):
        await each.close()


def test_commands_say_what_to_do(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stops with a problem, and names the version that is needed."""
    with redis.Redis.from_url(server.url) as raw:
        for tag in (*all_tags(), "twg"):
            raw.set(f"{{{tag}}}:f", FORMAT + 1)
    for command in (
        ("usage",),
        ("audit", "prompts"),
        ("policy", "history"),
        ("keys", "list"),
        ("export", f"jsonl:{tmp_path}", "--once"),
    ):
        code = main([*command, "--ledger", server.url])
        told = capsys.readouterr()
        assert code == 1, (command, told)
        assert "newer Tokenweir" in told.err, (command, told)


async def test_what_can_not_be_settled_waits_for_an_upgrade(
    server: Server, live: RedisStore, events: Recorder
) -> None:
    """It keeps nobody else waiting, and is settled if the tag is understood again."""
    ledger, made = SpooledLedger(TaggedLedger(live), events), hold(1, *LIMITS)
    await ledger.reserve(made)
    with redis.Redis.from_url(server.url) as raw:
        raw.set(f"{{{TAG}}}:f", FORMAT + 1)
        await ledger.settle(made, used(1, 1))
        assert events.spooled[-1] == 1
        raw.delete(f"{{{TAG}}}:f")
    assert await ledger.flush(PATIENCE) == 0

    assert len((await live.snapshot(TAG)).records) == 1
