"""S08, other secrets: what apps and providers say, passwords, and mistakes in a policy."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from redis.asyncio import Redis

from tests.cases.apis import OPENAI, TOLD, WORDS, Api, both_apis, data
from tests.cases.connection import Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, KEY, until
from tests.scripted_upstream import End, Step, event_stream, reply
from tests.servers import start_valkey

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [
    {"requests_per_minute": 6_000, "partition": ["tenant", "key"]},
    {"tokens_per_minute": 1_000_000_000},
]
# The loudest that the interpreter and grpc can be told to be.
LOUD = {"PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1", "GRPC_VERBOSITY": "DEBUG"}
MARK = re.compile(r"CANARY[A-Z]*")
PASSWORD = "sk-CANARYPASSWORD"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that is told to be loud."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOUD.items():
            patch.setenv(name, value)
        async with Scene.open(quotas=QUOTAS, retries=0) as opened:
            yield opened


async def written(scene: Scene) -> dict[str, str]:
    """Return all text that the pod and its ledger hold, by where."""
    processor, envoy = scene.pod.processors[0], scene.pod.envoy
    found = {
        "log": processor.log.read_text(),
        "metrics": processor.admin("/metrics"),
        "readiness": processor.admin("/readyz"),
        "access log": envoy.output(),
        "Envoy's log": envoy.log(),
    }
    for page in ("config_dump", "stats", "clusters", "server_info", "listeners"):
        found[f"Envoy's {page}"] = await asyncio.to_thread(envoy.admin, f"/{page}")
    readers: dict[bytes, tuple[str | int, ...]] = {
        b"string": ("GET",),
        b"hash": ("HGETALL",),
        b"zset": ("ZRANGE", 0, -1),
        b"stream": ("XRANGE", "-", "+"),
        b"set": ("SMEMBERS",),
        b"list": ("LRANGE", 0, -1),
    }
    for name in await scene.redis("KEYS", "*"):
        verb, *rest = readers[await scene.redis("TYPE", name)]
        held = await scene.redis(str(verb), name, *rest)
        found[f"ledger {name!r}"] = f"{name!r} {held!r}"
    return found


async def nothing_leaked(scene: Scene, *known: str) -> None:
    """Demand that no canary but *known* is anywhere, nor a key or a credential."""
    await scene.pod.settled()
    await asyncio.sleep(0.2)  # the access log is written now and then
    texts = await written(scene)

    leaks = {
        (where, mark)
        for where, text in texts.items()
        for mark in MARK.findall(text)
        if mark not in known
    }
    leaks |= {
        (where, secret)
        for where, text in texts.items()
        for secret in (KEY, CREDENTIAL, PASSWORD)
        if secret in text
    }
    assert leaks == set()
    assert len(texts["access log"]) > 100
    assert len(texts["log"]) > 100


def telling(api: Api) -> bytes:
    """Return a request with something private in each place that can have it."""
    content: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": "CANARYPROMPT", "name": "CANARYNAME"},
            {"role": "assistant", "content": [{"type": "text", "text": "CANARYPART"}]},
            {"role": "user", "content": "CANARYAGAIN"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "CANARYTOOL",
                "input_schema": {"description": "CANARYSCHEMA"},
                "function": {"name": "CANARYTOOL", "description": "CANARYTOOL"},
            }
        ],
        "metadata": {"note": "CANARYNOTE"},
        "CANARYMEMBER": "CANARYVALUE",
        "max_tokens": 1_000,
    }
    if api is not OPENAI:
        content["system"] = "CANARYSYSTEM"
    return api.request(asked=False, **content)


def scripts(api: Api) -> list[list[Step]]:
    """Return answers in which a provider tells something private, well or badly."""
    told = [api.delta(f"CANARYTEXT {word}") for word in WORDS]
    error = {"message": "CANARYMESSAGE", "type": "CANARY TYPE", "code": "CANARY CODE"}
    headers = [("content-type", "CANARYKIND"), ("x-info", "CANARYHEADER")]
    body = json.dumps({"error": error}).encode()
    return [
        event_stream([*api.opening(), *told, *api.finish(), api.report(), api.end()]),
        event_stream([*api.opening(), *told]),
        event_stream([*api.opening(), *told, data({"error": error})]),
        event_stream([b"data: {CANARYBROKEN\n\n", b"CANARYLINE", b"\xffCANARYBYTE"]),
        [reply(api.reply("CANARYREPLY", TOLD))],
        [reply(b"CANARYPAGE", headers=[("content-type", "text/html")])],
        [reply(b"CANARYZIP", headers=[("content-encoding", "gzip")])],
        [reply(body, "401 No", headers)],
        [reply(body, "429 No", headers)],
        [reply(body, "500 No", headers)],
        [b"HTTP/1.1 200 CANARYREASON\r\nCANARYHEAD\r\n\r\n", End.CLOSE],
        [b"CANARYPROTOCOL\r\n\r\n", End.CLOSE],
    ]


@both_apis
async def test_s08_what_is_said_is_written_nowhere(scene: Scene, api: Api) -> None:
    """
    Prompts, answers, headers, cookies and errors pass, and are kept by nobody, though
    every library is told to be loud.

    BerriAI/litellm#15799, BerriAI/litellm#8075
    """
    await scene.clear()
    headers = [
        ("cookie", "CANARYCOOKIE"),
        ("x-custom", "CANARYCUSTOM"),
        ("user-agent", "CANARYAGENT"),
        ("referer", "http://CANARYREFERER/"),
    ]
    for script in scripts(api):
        scene.upstream.play(*script)
        path = f"{api.path}?CANARYQUERY=CANARYQUERY&api-key={KEY}"
        asked = request(telling(api), path=path, headers=headers)
        await recorded(scene, asked)

    await nothing_leaked(scene)


async def recorded(scene: Scene, asked: bytes) -> None:
    """Send *asked*, and read what comes until there is one more record."""
    before = len(await scene.pod.ledger.records())

    async def is_recorded() -> bool:
        return len(await scene.pod.ledger.records()) > before

    async with Connection.open(scene.pod.port) as app:
        await app.send(asked)
        reading = asyncio.create_task(app.everything())
        await until(is_recorded)
    await asyncio.gather(reading, return_exceptions=True)


REFUSED: dict[str, dict[str, Any]] = {
    "a broken body": {"body": b'{"model": "gpt-4o", "CANARYBODY'},
    "a name twice": {"body": b'{"CANARYNAME": 1, "CANARYNAME": 2}'},
    "a wrong type": {"body": OPENAI.request(max_tokens="CANARYCAP")},
    "a wrong role": {"body": OPENAI.request(messages=[{"role": ["CANARYROLE"]}])},
    "an encoding": {"headers": [("content-encoding", "gzip, CANARYCODING")]},
    "a query": {"path": "/v1/nowhere?key=CANARYQUERY#CANARYFRAGMENT"},
    "a key": {"key": "sk-CANARYKEY"},
    "a key without a prefix": {"key": "CANARYKEY"},
    "a credential of a user": {"key": None, "headers": [("authorization", "Basic CANARYBASIC")]},
    "a key elsewhere": {"key": None, "headers": [("api-key", "CANARYKEY")]},
    "a key for another": {"key": None, "headers": [("x-goog-api-key", "CANARYKEY")]},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_s08_refusals_quote_no_secret(scene: Scene, name: str) -> None:
    """
    What is wrong with a request is said without saying it again; only the name of an
    encoding is, as it is no secret.

    BerriAI/litellm#25203: a rejected key was in the body of the 401.
    """
    await scene.clear()
    asked = {"body": OPENAI.request(), **REFUSED[name]}

    answer = await scene.call(asked.pop("body"), **asked)

    assert answer.status in (400, 401, 403, 415)
    known = ["CANARYCODING"] if name == "an encoding" else []
    shown = MARK.findall(answer.body.decode() + str(answer.head.headers))
    assert set(shown) <= set(known)
    await nothing_leaked(scene)


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
async def test_s08_the_ledgers_password(tmp_path: Path, right: bool) -> None:
    """
    The password of the ledger is written nowhere, right or wrong, with or without the
    ledger.

    BerriAI/litellm#8075
    """
    server = await asyncio.to_thread(start_valkey, tmp_path)
    async with Redis(unix_socket_path=str(server.path)) as client:
        rules = ("on", f">{PASSWORD}", "~*", "&*", "+@all")
        execute: Callable[..., Awaitable[Any]] = client.execute_command
        await execute("ACL", "SETUSER", "weir", *rules)
    given = PASSWORD if right else f"{PASSWORD}X"
    url = f"unix://weir:{given}@{server.path}"
    options = {"server": server, "ledger_url": url}
    try:
        async with Scene.open(quotas=QUOTAS, options=options) as other:
            other.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
            answer = await other.call(OPENAI.request())
            server.pause()
            refused = await other.call(OPENAI.request())
            server.resume()
            told = other.pod.processors[0].log.read_text()
            told += other.pod.processors[0].admin("/readyz")
            told += other.pod.processors[0].admin("/metrics")
    finally:
        server.stop()

    assert "CANARY" not in told
    assert answer.status == (200 if right else 503)
    assert b"CANARY" not in answer.body
    expect(refused, OPENAI, 503, "ledger_unavailable")


Mistake = Callable[[dict[str, Any]], object]
SECRET = "sk-CANARYMISTAKE"
MISTAKES: dict[str, Mistake] = {
    "a key for its digest": lambda c: c["tenants"]["acme"]["keys"][0].update(sha256=SECRET),
    "a key for its entry": lambda c: c["tenants"]["acme"].update(keys=[SECRET]),
    "keys for a list": lambda c: c["tenants"]["acme"].update(keys=SECRET),
    "a key for its id": lambda c: c["tenants"]["acme"]["keys"][0].update(id=f"{SECRET}!"),
    "a credential": lambda c: c["providers"]["openai"].update(credential=SECRET),
    "a variable": lambda c: c["providers"]["openai"].update(credential=f"env:{SECRET}"),
    "a password": lambda c: c["providers"]["openai"].update(base_url=f"https://u:{SECRET}@h"),
    "a query": lambda c: c["providers"]["openai"].update(base_url=f"https://h/?k={SECRET}"),
    "an unknown field": lambda c: c["providers"]["openai"].update(api_key=SECRET),
    "a number": lambda c: c.update(retries=SECRET),
}  # fmt: skip
BROKEN = {
    "no end": f'\nx: "{SECRET}\n',
    "a tab": f"\n\t{SECRET}: x\n",
    "two colons": f"\nx: {SECRET}: y\n",
    "an alias": f"\nx: *{SECRET}\n",
    "a tag": f"\nx: !{SECRET} y\n",
    "a control character": f'\nx: "{SECRET}\x01"\n',
}


async def refused_policies(scene: Scene, text: str) -> list[str]:
    """Return the problems that are found in a policy of *text*."""
    processor = scene.pod.processors[0]
    before = processor.count("policy_refused")
    scene.pod.policy_path.write_text(text)
    os.kill(processor.process.pid, signal.SIGHUP)
    await until(lambda: processor.count("policy_refused") > before)
    lines = [line for line in processor.lines() if line["event"] == "policy_refused"]
    return [str(problem) for problem in lines[-1]["problems"]]


async def test_s08_mistakes_in_a_policy(scene: Scene) -> None:
    """
    Whoever writes a secret into a policy is told where, and the secret is not told on.

    BerriAI/litellm#8075
    """
    good = scene.pod.policy_path.read_text()
    content = yaml.safe_load(good)
    try:
        for name, spoil in MISTAKES.items():
            spoiled = copy.deepcopy(content)
            spoil(spoiled)
            problems = await refused_policies(scene, yaml.safe_dump(spoiled))
            assert problems, name
        for name, more in BROKEN.items():
            assert await refused_policies(scene, good + more), name
    finally:
        scene.pod.policy_path.write_text(good)

    await nothing_leaked(scene)
