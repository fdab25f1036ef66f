"""A provider that switches protocols is an error, and harms nobody else."""

import pytest

from tests.envoyconf.client import request
from tests.envoyconf.gateway import Gateway
from tests.scripted_upstream import End, head, reply

POST = request(body=b'{"model": "m"}')
SWITCH = head(
    "101 Switching Protocols", [("upgrade", "websocket"), ("connection", "upgrade")]
)


@pytest.mark.parametrize(
    "steps",
    [(SWITCH,), (SWITCH + b"\x81\x05hello",), (SWITCH, End.CLOSE), (SWITCH, End.RESET)],
)
async def test_a_switch(gate: Gateway, steps: tuple[bytes | End, ...]) -> None:
    """The app gets an error at once, no byte of the other protocol, and no 101."""
    gate.upstream.play(*steps)
    async with await gate.connect() as app:
        answer = await app.ask(POST)
        gate.upstream.play(reply(b"{}"))
        after = await app.ask(POST)

    assert answer.status == 502
    assert answer.header("x-tokenweir-refusal") == "upstream_invalid"
    assert answer.header("upgrade") is None
    assert b"hello" not in answer.body
    assert (after.status, after.body) == (200, b"{}")
    await gate.processor.wait_for(
        lambda: all(call.ended for call in gate.processor.calls)
    )


@pytest.mark.parametrize(
    "status", ["100 Continue", "102 Processing", "103 Early Hints"]
)
async def test_other_interim_answers(gate: Gateway, status: str) -> None:
    """What only announces an answer does not stand in its way."""
    gate.upstream.play(head(status) + reply(b"{}"))

    answer = await gate.ask(POST)

    assert (answer.status, answer.body) == (200, b"{}")
