"""The access log tells what an operator needs, and no secret."""

import json

from tests.envoyconf.client import request
from tests.envoyconf.gateway import gateway
from tests.envoyconf.processor import Answer, Call, forward, refuse
from tests.scripted_upstream import End, reply
from tokenweir.envoyconf.access_log import FIELDS


async def test_an_exchange() -> None:
    """A line has who, what, where to, how it ended, and what it cost in time."""
    async with gateway() as gate:
        gate.upstream.play(reply(b'{"ok": 1}'))
        said = {"tenant": "acme", "model": "gpt-4o", "hold": "1-2-3"}

        async def admit(call: Call) -> Answer:
            return forward(call, "up", metadata=said)

        gate.processor.admit = admit
        headers = ["x-request-id: r-1"]
        await gate.ask(request(body=b"{}", headers=headers))
        [line] = gate.envoy.access_log(1)

    assert set(line) == set(FIELDS)
    assert line.pop("time") > "2026"
    assert line.pop("duration_ms") >= 0
    assert line == said | {
        "method": "POST",
        "path": "/v1/chat/completions",
        "protocol": "HTTP/1.1",
        "status": 200,
        "flags": "-",
        "details": "via_upstream",
        "request_bytes": 2,
        "response_bytes": 9,
        "provider": "up",
        "attempts": 1,
        "request_id": "r-1",
    }


async def test_exchanges_that_failed() -> None:
    """The reason of an answer that is not the provider's is told."""
    async with gateway() as gate:
        data = request(body=b"{}")
        gate.processor.cluster = "nowhere"
        await gate.ask(data)
        gate.processor.cluster = "dead"
        await gate.ask(data)

        async def admit(call: Call) -> Answer:
            del call
            return refuse(429)

        gate.processor.admit = admit
        await gate.ask(data)
        lines = gate.envoy.access_log(3)

    assert [line["status"] for line in lines] == [503, 503, 429]
    first, second, third = (line["details"] for line in lines)
    assert first == "cluster_not_found"
    assert second.startswith("upstream_reset_before_response_started{")
    assert third == "refused_by_test"


async def test_no_secrets() -> None:
    """Keys, query strings, bodies and the words of exceptions are not in it."""
    secrets = ["authorization: Bearer CANARY", "x-api-key: CANARY", "cookie: CANARY"]
    data = request(path="/v1/a?key=CANARY", body=b'"CANARY"', headers=secrets)
    async with gateway() as gate:
        gate.upstream.play(reply(b'"CANARY"', headers=[("x-a", "CANARY")]))
        await gate.ask(data)
        gate.upstream.play(End.RESET)
        await gate.ask(data)

        async def admit(call: Call) -> Answer:
            del call
            raise ValueError("CANARY")

        gate.processor.admit = admit
        await gate.ask(data)
        lines = gate.envoy.access_log(3)

    assert [line["path"] for line in lines] == ["/v1/a"] * 3
    assert "CANARY" not in json.dumps(lines)


async def test_hostile_values() -> None:
    """What an app chooses can't forge a line, and is bounded."""
    async with gateway() as gate:
        long = "/" + "a" * 5_000
        await gate.ask(request("GET", long, headers=['x-request-id: "}\t{' + "b" * 99]))
        [line] = gate.envoy.access_log(1)

    assert len(line["path"]) == 256
    assert len(line["request_id"]) == 64
