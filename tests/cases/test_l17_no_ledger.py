"""L17: without a ledger, every caller gets the answer that the policy chose, in time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from redis.exceptions import ResponseError

from tests.cases.apis import OPENAI, TOLD, Api, both_apis
from tests.cases.connection import Answer
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import KEY, until
from tests.scripted_upstream import reply
from tokenweir.core.bucket import UNITS_PER_TOKEN

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Ours is 200 ms for a ledger call; the rest is what a busy machine takes for its own.
SECONDS_TO_ANSWER = 1.0
SECONDS_AT_MOST = 8.0
QUOTAS = [
    {"tokens_per_minute": 60_000},
    {"requests_per_minute": 6_000},
    {"concurrency": 200},
]
BODY = OPENAI.request(stream=False, max_tokens=100)
OPEN_KEY = key_of("open")
# Slots and levels of which one quota must hold, and the others need not.
MIXED = [
    {"tokens_per_minute": 60_000, "on_ledger_failure": "open"},
    {"concurrency": 200, "on_ledger_failure": "closed"},
]
TENANTS = {
    "open": [{**quota, "on_ledger_failure": "open"} for quota in QUOTAS],
    "mixed": MIXED,
    "free": [],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod with a relay before its ledger."""
    async with Scene.relayed(
        quotas=QUOTAS, adapt=tenants(**TENANTS), retries=0
    ) as opened:
        yield opened


async def begin(scene: Scene) -> None:
    """Make a fresh start, with a provider that answers and a ledger that did once."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

    async def served() -> bool:
        return (await scene.call(BODY)).status == 200

    await until(served)
    await scene.pod.settled()
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))


async def as_the_policy_says(scene: Scene) -> int:
    """Call while the ledger is gone; return how many were admitted as `open`."""
    before = scene.pod.processors[0].metric("tokenweir_ledger_failures_total")
    for key in (KEY, key_of("mixed"), key_of("free")):
        refusals = [await scene.call(BODY, key=key) for _ in range(4)]
        refusals += await asyncio.gather(*(scene.call(BODY, key=key) for _ in range(4)))
        assert [answer.status for answer in refusals] == [503] * 8
        for answer in refusals:
            assert answer.refusal == "ledger_unavailable"
            assert answer.header("retry-after") == "1"
            assert answer.detail["retryable"] is True
        in_time(refusals)
    assert scene.upstream.requests == []

    opened = [await scene.call(BODY, key=OPEN_KEY) for _ in range(4)]

    assert [answer.status for answer in opened] == [200] * 4
    in_time(opened)
    # An alarm: what failed was counted.
    after = scene.pod.processors[0].metric("tokenweir_ledger_failures_total")
    assert after - before >= 20
    return len(opened)


def in_time(answers: list[Answer]) -> None:
    """Demand that they came within the ledger's deadline, and a little."""
    assert min(answer.seconds for answer in answers) < SECONDS_TO_ANSWER
    assert max(answer.seconds for answer in answers) < SECONDS_AT_MOST


async def as_if_nothing_had_been(scene: Scene, opened: int) -> None:
    """Demand that the ledger is used again, and that its levels are in order."""

    async def served() -> bool:
        return (await scene.call(BODY)).status == 200

    await until(served)
    await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * opened, tenant="open")
    await scene.pod.settled()
    for tenant in ("acme", "open", "mixed", "free"):
        state = await scene.pod.ledger.snapshot(tenant)
        for bucket in state.buckets.values():
            assert bucket.reserved == 0
            assert 0 <= bucket.level_units <= bucket.capacity * UNITS_PER_TOKEN
        assert all(not slots.until_ms for slots in state.slots.values())
    assert scene.pod.processors[0].count("fault") == 0
    await until(lambda: not scene.pod.processors[0].metric("tokenweir_spool_settles"))


@pytest.mark.parametrize("how", ["stopped", "paused", "silent", "out of reach"])
async def test_l17_the_server_is_gone(scene: Scene, how: str) -> None:
    """
    Stopped, paused, or not to be reached: 503 or admitted, as chosen; never 429.

    BerriAI/litellm#35528, Significant-Gravitas/AutoGPT#12990, firecrawl/firecrawl#3728
    """
    assert scene.relay is not None
    await begin(scene)
    server, relay = scene.pod.server, scene.relay
    path = relay.path
    if how == "stopped":
        await asyncio.to_thread(server.stop)
    elif how == "paused":
        server.pause()
    elif how == "silent":
        relay.delay_seconds = 60.0
    else:
        path.rename(path.with_suffix(".away"))
        relay.drops_replies = True  # connections that there are
    try:
        opened = await as_the_policy_says(scene)
    finally:
        if how == "stopped":
            await asyncio.to_thread(server.restart)
        server.resume()
        relay.delay_seconds, relay.drops_replies = 0.0, False
        if how == "out of reach":
            path.with_suffix(".away").rename(path)

    await as_if_nothing_had_been(scene, opened)


async def test_l17_the_server_is_busy(scene: Scene) -> None:
    """
    A server that is busy with somebody's script is one that is gone.

    BerriAI/litellm#35528, firecrawl/firecrawl#3728
    """
    await begin(scene)
    await scene.redis("CONFIG", "SET", "busy-reply-threshold", "1")
    endless = asyncio.create_task(scene.redis("EVAL", "while true do end", 0))
    await until(lambda: is_busy(scene))
    try:
        opened = await as_the_policy_says(scene)
    finally:
        await scene.redis("SCRIPT", "KILL")
        await asyncio.gather(endless, return_exceptions=True)

    await as_if_nothing_had_been(scene, opened)


async def is_busy(scene: Scene) -> bool:
    """Tell if the server has no time for anybody."""
    try:
        await scene.redis("PING")
    except ResponseError as error:
        return "BUSY" in str(error)
    return False


async def test_l17_the_server_is_out_of_memory(scene: Scene) -> None:
    """
    At its memory limit nothing new begins, and what was admitted is recorded at once.

    BerriAI/litellm#35528
    """
    await begin(scene)
    await scene.redis("CONFIG", "SET", "maxmemory", "1")
    try:
        opened = await as_the_policy_says(scene)
        await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * opened, tenant="open")
    finally:
        await scene.redis("CONFIG", "SET", "maxmemory", "0")

    await as_if_nothing_had_been(scene, opened)


# How a command begins.
COMMAND = re.compile(rb"(?:^|(?<=\r\n))\*\d+\r\n\$")


@dataclass
class Parrot:
    """
    A server that says the same to everything.

    Attributes:
        path: Its socket.
        says: What it says.
    """

    path: Path
    says: bytes

    @contextlib.asynccontextmanager
    async def perched(self) -> AsyncIterator[None]:
        """Let it speak."""
        server = await asyncio.start_unix_server(self._serve, str(self.path))
        async with server:
            yield

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                # To each command once: some come together.
                writer.write(self.says * max(1, len(COMMAND.findall(data))))
                await writer.drain()
        writer.close()


NONSENSE = {
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "BUSY": b"-BUSY Redis is busy running a script.\r\n",
    "MISCONF": b"-MISCONF Errors writing to the AOF file\r\n",
    "MASTERDOWN": b"-MASTERDOWN Link with MASTER is down\r\n",
    "CLUSTERDOWN": b"-CLUSTERDOWN The cluster is down\r\n",
    "NOAUTH": b"-NOAUTH Authentication required.\r\n",
    "NOPERM": b"-NOPERM User has no permissions to run the 'evalsha' command\r\n",
    "NOSCRIPT, always": b"-NOSCRIPT No matching script.\r\n",
    "MOVED": b"-MOVED 1234 127.0.0.1:1\r\n",
    "an error of the script": b"-ERR user_script:1: boom script: 0123, on @user_script\r\n",
    "nil": b"$-1\r\n",
    "OK": b"+OK\r\n",
    "a number": b":1\r\n",
    "nothing in it": b"*0\r\n",
    "granted, it seems": b"*1\r\n:1\r\n",
    "words for numbers": b"*4\r\n$1\r\nx\r\n$1\r\n1\r\n:0\r\n$0\r\n\r\n",
    "rows of nonsense": b"*4\r\n:1\r\n$1\r\n1\r\n:0\r\n$9\r\n1 1 x 9,,\r\n",
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "not even a line": b"\x00\xff\x00\xff",
}


@contextlib.asynccontextmanager
async def looking_at(scene: Scene, path: Path) -> AsyncIterator[None]:
    """Have the relay go to another server, and come back."""
    assert scene.relay is not None
    before = scene.relay.target
    scene.relay.target = path
    await scene.relay.stop()  # connections that there are
    try:
        yield
    finally:
        scene.relay.target = before
        await scene.relay.stop()


@pytest.mark.parametrize("says", NONSENSE.values(), ids=NONSENSE)
async def test_l17_whatever_the_server_says(
    scene: Scene, tmp_path: Path, says: bytes
) -> None:
    """
    An error, or an answer that makes no sense, is no answer: never "allowed", never 429.

    spring-cloud/spring-cloud-gateway#248, BerriAI/litellm#35528
    """
    assert scene.relay is not None
    await begin(scene)
    parrot = Parrot(Path("/tmp") / f"{tmp_path.name[:40]}.sock", says)
    try:
        async with parrot.perched(), looking_at(scene, parrot.path):
            closed = [await scene.call(BODY) for _ in range(3)]
            opened = [await scene.call(BODY, key=OPEN_KEY) for _ in range(3)]
    finally:
        parrot.path.unlink(missing_ok=True)

    assert {answer.status for answer in closed} == {503}
    assert {answer.refusal for answer in closed} == {"ledger_unavailable"}
    assert {answer.status for answer in opened} == {200}
    in_time(closed + opened)

    async def served() -> bool:
        return (await scene.call(BODY)).status == 200

    await until(served)
    await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * 3, tenant="open")


@both_apis
async def test_l17_both_apis_say_it_in_their_own_words(scene: Scene, api: Api) -> None:
    """
    The refusal is an error of the API that was called. firecrawl/firecrawl#3728
    """
    await begin(scene)
    scene.pod.server.pause()
    try:
        answer = await scene.call(api.request(stream=False), path=api.path)
    finally:
        scene.pod.server.resume()

    assert answer.status == 503
    assert answer.detail["refusal"] == "ledger_unavailable"
    if api.name == "anthropic":
        assert answer.json()["type"] == "error"
    await scene.ledger_shows()


async def test_l17_a_processor_that_never_saw_its_ledger() -> None:
    """
    A processor starts without a ledger, refuses as told, and uses it once it is there.
    That this one would drop levels when its memory is full is told.

    Significant-Gravitas/AutoGPT#12990
    """
    async with Scene.relayed(quotas=QUOTAS, adapt=tenants(**TENANTS)) as opened:
        server = opened.pod.server
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(opened.pod.processors[0].kill)
        await asyncio.to_thread(opened.pod.processors[0].restart)
        await begin_without(opened)
        count = await as_the_policy_says(opened)
        server.command += ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"]
        await asyncio.to_thread(server.restart)

        await as_if_nothing_had_been(opened, count)
        [processor] = opened.pod.processors
        await until(lambda: processor.count("ledger_evicts"))
        assert processor.metric("tokenweir_ledger_evicts") == 1


async def begin_without(scene: Scene) -> None:
    """Wait until Envoy has found the processor."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

    async def answers() -> bool:
        return (await scene.call(BODY)).refusal == "ledger_unavailable"

    await until(answers)
