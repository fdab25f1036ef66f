"""T22: an app that leaves when it is admitted, and before anything is forwarded."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tests.cases.apis import OPENAI
from tests.cases.stage import CAPACITY, Stage
from tests.extproc.envoy_messages import parsed, request_body, request_headers
from tests.pod import KEY, until
from tokenweir.core.bucket import UNITS_PER_TOKEN
from tokenweir.extproc.service import SERVICE
from tokenweir.extproc.session import ADMISSION, ROLE_HEADER

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

REQUEST_ID = "between-the-filters"
HEAD = request_headers(
    (
        (":method", "POST"),
        (":path", OPENAI.path),
        ("authorization", f"Bearer {KEY}"),
        ("content-type", "application/json"),
        ("x-request-id", REQUEST_ID),
    )
)


async def admit_and_leave(stage: Stage) -> None:
    """Ask a processor for admission as Envoy does, and open no response stream."""
    path = stage.pod.processors[0].socket
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call: Any = channel.stream_stream(f"/{SERVICE}/Process")(
            metadata=((ROLE_HEADER, ADMISSION),)
        )
        for message in (HEAD, request_body(OPENAI.request())):
            await call.write(message)
            answer = parsed(await call.read())
            assert not answer.HasField("immediate_response")
        await call.done_writing()


async def test_t22_left_between_the_filters(stage: Stage) -> None:
    """
    Nothing was forwarded: nothing is owed, no record is written, and the log tells.

    open-ace/open-ace#3422
    """

    def told() -> list[dict[str, Any]]:
        lines = stage.pod.exchanges()
        return [line for line in lines if line.get("request_id") == REQUEST_ID]

    await stage.watch()
    await admit_and_leave(stage)
    assert not await stage.pod.ledger.nothing_held()
    await until(told)

    [line] = told()
    assert line["decision"] == "abandoned"
    assert line["hold_id"]
    assert (line["tenant"], line["route"]) == ("acme", "chat_completions")
    await until(stage.pod.ledger.nothing_held)
    assert await stage.records(REQUEST_ID) == []
    assert await stage.level_units() == CAPACITY * UNITS_PER_TOKEN
    abandoned = 'tokenweir_exchanges_total{decision="abandoned"'
    assert stage.pod.processors[0].metric(abandoned) == 1
