"""
What `tokenweir explain` says of a request is what a pod then does with it.

The pod follows a published policy and issued keys, and so does `explain`: nobody has a
policy file. Each request is explained first, and then sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis
import yaml

from tests.cases.apis import ANTHROPIC, OPENAI, Told, story
from tests.cases.connection import Answer
from tests.cases.priced import add_models, overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.config.issued import document, entry
from tests.governance.documents import PRIVATE, PUBLIC, draft
from tests.pod import sha256, until
from tests.scripted_upstream import Hold, Step, event_stream, reply
from tests.servers import start_valkey
from tokenweir.cli.main import main
from tokenweir.core.hold import Amounts
from tokenweir.core.holding import State
from tokenweir.core.partition import all_tags
from tokenweir.governance.envelope import KEYS, POLICY, encoded, sign
from tokenweir.governance.key_files import public_text

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ACL = Path("deploy/redis/tokenweir.acl")
USERS = [line.split()[1:] for line in ACL.read_text().splitlines()]
# By a call that leaves too little for another.
USED = Told(11, 2_400)
# Not what differs from call to call: the moment, and what follows from it.
TIMES = ("retry_after_ms", "used")
LONG_AGO = "2026-01-01T00:00:00Z"
FAR_AWAY = "2100-01-01T00:00:00Z"
# No month's window may turn between an explanation and the call.
ANCHOR = {"day": (datetime.now(UTC).day + 13) % 28 + 1}
MONTH = {"per": "month", "anchor": ANCHOR}
CHEAPER = {"downgrade_to": "gpt-4o-mini", "hard_limit_usd": 0.2}
ISSUED: dict[str, dict[str, Any]] = {
    "works": {"quotas": [{"requests_per_minute": 600}, {"concurrency": 2}]},
    "expired": {"expires_at": LONG_AGO},
    "revoked": {"revoked_at": LONG_AGO},
    "rotated": {"expires_at": LONG_AGO},
    "newer": {"id": "rotated", "rotated_from": sha256(key_of("rotated"))},
    "one-model": {"models": ["gpt-4o-mini"]},
    "one-route": {"routes": ["messages"], "expires_at": FAR_AWAY},
    "small": {"quotas": [{"tokens_per_minute": 100, "capacity": 100}]},
    "stray": {"tenant": "nobody"},
}


@dataclass(frozen=True)
class Case:
    """
    A request.

    Attributes:
        name: Of the case.
        key: See `key_of`; empty: none is sent.
        body: Of the request; empty: none, and it is a GET.
        refusal: What both must say, so that nothing is compared with nothing.
        path: Where to.
        said: What the explanation must have in it.
    """

    name: str
    key: str
    body: bytes
    refusal: str | None = None
    path: str = OPENAI.path
    said: tuple[str, ...] = ()


def chat(max_tokens: int = 1_000, **members: str) -> bytes:
    """Return a request of OpenAI's API."""
    return OPENAI.request(stream=False, asked=True, max_tokens=max_tokens, **members)


PLAIN = chat()
CASES = (
    Case("plain", "free", PLAIN),
    Case("stream", "free", OPENAI.request(asked=False, max_tokens=300)),
    Case("other_api", "free", ANTHROPIC.request(stream=False), path=ANTHROPIC.path),
    Case("no_body", "free", b"", path="/v1/models"),
    Case("issued_key", "works", PLAIN),
    Case("no_key", "", PLAIN, "unknown_key"),
    Case("unknown_key", "stranger", PLAIN, "unknown_key"),
    Case("key_of_no_tenant", "stray", PLAIN, "unknown_key"),
    Case("expired_key", "expired", PLAIN, "expired_key"),
    Case("revoked_key", "revoked", PLAIN, "revoked_key"),
    Case("rotated_key", "rotated", PLAIN, "rotated_key"),
    Case("rotated_key_of_now", "newer", PLAIN),
    Case("wrong_route", "one-route", PLAIN, "route_not_allowed"),
    Case("wrong_model", "one-model", PLAIN, "model_not_allowed"),
    Case("unknown_model", "free", chat(model="nobodys"), "model_not_allowed"),
    Case("over_quota", "tight", PLAIN, "quota_exhausted"),
    Case("never_fits", "small", PLAIN, "request_exceeds_limit"),
    Case("spent", "broke", PLAIN, "budget_exhausted"),
    Case("downgrade", "spent", PLAIN, said=('"downgraded_from": "gpt-4o"',)),
    Case("cap", "capped", chat(max_tokens=2_000), said=('"from": 2000, "to": 300',)),
    Case("cap_set", "capped", OPENAI.request(stream=False), said=('"to": 200',)),
    Case("cap_kept", "capped", chat(max_tokens=20), said=('"edits": {}',)),
    Case("no_price", "broke", chat(model="unpriced"), "model_unpriced"),
    Case("no_json", "free", b'{"model": ', "malformed_request"),
    Case("unknown_path", "free", b"{}", "path_not_metered", "/v1/files"),
)


def govern(content: dict[str, Any], folder: Path) -> None:
    """Give the policy its tenants, caps and prices."""
    add_models(content, "unpriced")
    tenants(
        free=[{"tokens_per_minute": 1_000_000, "partition": ["tenant", "model"]}],
        tight=[{"tokens_per_minute": 60, "capacity": 2_000}, {"concurrency": 4}],
        spent=[{"budget_usd": 0.05, **MONTH, "on_exceeded": CHEAPER}],
        broke=[{"budget_usd": 0.05, **MONTH}],
        capped=[{"tokens_per_minute": 1_000_000}],
    )(content)
    content["caps"] = [{"output_tokens": 300, "if_unset": 200, "tenants": ["capped"]}]
    content["prices"] = {"overlays": [overlay(folder)]}


def issued() -> str:
    """Return the document of issued keys."""
    entries = [
        entry(**{"id": name, "sha256": sha256(key_of(name)), "tenant": "free", **more})
        for name, more in ISSUED.items()
    ]
    return document(*entries)


def publish(client: redis.Redis, content: dict[str, Any]) -> None:
    """Publish *content* and the issued keys, as what is the first version of each."""
    for name, text in ((POLICY, yaml.safe_dump(content)), (KEYS, issued())):
        stored = encoded(sign(draft(1, text, name=name), PRIVATE))
        client.set(f"{{twg}}:{name}:1", stored)
        client.set(f"{{twg}}:{name}", 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that follows what is published, and spent limits."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await asyncio.to_thread(start_valkey, folder)
        stack.callback(server.stop)
        client = stack.enter_context(redis.Redis.from_url(server.url))
        for user in USERS:
            client.execute_command("ACL", "SETUSER", *user)
        key = folder / "governance.pub"
        key.write_text(public_text(PUBLIC))

        def adapt(content: dict[str, Any]) -> None:
            govern(content, folder)
            publish(client, content)

        arguments = ["--policy", "ledger", "--governance-key", f"file:{key}"]
        options = {"server": server, "arguments": arguments}
        async with Scene.open(options=options, adapt=adapt) as opened:
            for tenant in ("tight", "spent", "broke"):
                await spend(opened, tenant)
            yield opened


async def spend(scene: Scene, tenant: str) -> None:
    """Make a call that leaves too little of the tenant's limit for another."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", USED)))
    assert (await scene.call(PLAIN, key=key_of(tenant))).status == 200
    await scene.pod.settled()


async def explained(scene: Scene, case: Case, folder: Path) -> dict[str, Any]:
    """Return what is said of *case* to somebody who may only read the ledger."""
    reader = "unix://tokenweir-reader:CHANGE-ME-READER@"
    url = scene.pod.server.url.replace("unix://", reader)
    (folder / "governance.pub").write_text(public_text(PUBLIC))
    (folder / "app.key").write_text(key_of(case.key))
    (folder / "request.json").write_bytes(case.body)
    arguments = ["explain", "--json", "--without-secrets", "--path", case.path]
    arguments += ["--ledger", url, "--governance-key", f"file:{folder}/governance.pub"]
    arguments += ["--key", f"file:{folder}/app.key"] * bool(case.key)
    arguments += [str(folder / "request.json")] * bool(case.body)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert await asyncio.to_thread(main, arguments) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


async def done(scene: Scene, case: Case) -> tuple[Answer, Amounts | None]:
    """Return the answer to *case*, and what was held while the provider was asked."""
    gate, scene.upstream.requests = asyncio.Event(), []
    scene.upstream.play(Hold(gate), *script(case))
    sending = asyncio.create_task(
        scene.call(
            case.body,
            key=key_of(case.key) if case.key else None,
            path=case.path,
            method="POST" if case.body else "GET",
        )
    )
    await until(lambda: sending.done() or scene.upstream.requests)
    holdings = await scene.pod.ledger.store.holdings(all_tags())
    held = [each.amounts for each in holdings if each.state is State.HELD]
    gate.set()
    answer = await sending
    await scene.pod.settled()
    assert len(held) == len(scene.upstream.requests)
    return answer, held[0] if held else None


def script(case: Case) -> list[Step]:
    """Return what the provider answers."""
    if b'"stream": true' in case.body:
        return event_stream(story(OPENAI, told=Told(11, 7)))
    api = ANTHROPIC if case.path == ANTHROPIC.path else OPENAI
    return [reply(api.reply("Hi.", Told(11, 7)))]


def edited(said: dict[str, Any], body: bytes) -> Any:
    """Return *body* with the changes that were *said*."""
    content = json.loads(body)
    for name, change in said["edits"].items():
        assert content.get(name) == change["from"]
        content[name] = change["to"]
    return content


def timeless(body: Any) -> Any:
    """Return a refusal's body without what differs from call to call."""
    if isinstance(body, dict):
        return {k: timeless(v) for k, v in body.items() if k not in (*TIMES, "message")}
    return [timeless(each) for each in body] if isinstance(body, list) else body


def agree_on_a_refusal(said: dict[str, Any], answer: Answer) -> None:
    """Demand that the body that the client gets is the one that was *said*."""
    assert said["decision"]["reason"] == answer.refusal
    assert said["reply"]["status"] == answer.status
    assert timeless(said["reply"]["body"]) == timeless(answer.json())
    for name, value in said["reply"]["headers"].items():
        if not any(part in name for part in ("reset", "retry-after", "limit")):
            assert answer.header(name) == value


def agree_on_an_answer(
    said: dict[str, Any], case: Case, scene: Scene, answer: Answer, held: Amounts
) -> None:
    """Demand that what is reserved, and what the provider gets, is what was *said*."""
    assert (answer.status, answer.refusal) == (200, None)
    reserved = said["reservations"][-1]
    assert reserved["outcome"] == "granted"
    assert held == Amounts(
        reserved["requests"],
        reserved["input_tokens"],
        reserved["output_tokens"],
        reserved["cost_nanousd"],
    )
    downgraded = said["decision"]["downgraded_from"]
    assert answer.header("x-tokenweir-downgraded-from") == downgraded
    [sent] = scene.upstream.requests
    if case.body:
        assert json.loads(sent.body) == edited(said, case.body)
        assert json.loads(sent.body)["model"] == said["target"]["upstream_model"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
async def test_a_pod_does_what_is_said(
    case: Case, scene: Scene, tmp_path: Path
) -> None:
    """Status, refusal, model, cap and what is reserved are those of the explanation."""
    said = await explained(scene, case, tmp_path)
    answer, held = await done(scene, case)

    assert said["governance"]["source"] == "ledger"
    assert answer.refusal == case.refusal
    assert said["decision"]["admitted"] is (case.refusal is None)
    if held is None:
        agree_on_a_refusal(said, answer)
    else:
        agree_on_an_answer(said, case, scene, answer, held)
    for expected in case.said:
        assert expected in json.dumps(said)
