"""T01, T02, T09, T10: an event stream is read by its standard, not by habit."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence

import pytest

from tests.cases.apis import OPENAI, TOLD, WORDS, Api, both_apis, story
from tests.cases.stage import STREAM_HEAD, Stage
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    Step,
    chunk,
    cut,
    head,
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

APART_SECONDS = 0.004  # so that Envoy reads two chunks as two


def spaced(event: bytes, space: bytes) -> bytes:
    """Return *event* with *space* behind the colon of each field."""
    lines = (line.replace(b": ", b":" + space, 1) for line in event.split(b"\n"))
    return b"\n".join(lines)


@both_apis
@pytest.mark.parametrize("space", [b"", b"  ", b" \t"], ids=repr)
async def test_t01_spaces_after_the_colon(stage: Stage, api: Api, space: bytes) -> None:
    """
    `data:{…}` and `data:  {…}` are read like `data: {…}`, and `event:` like `event: `.

    envoyproxy/ai-gateway#2470, sashabaranov/go-openai#949
    """
    events = [spaced(event, space) for event in story(api)]

    _, settled = await stage.stream(api, events)

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"
    assert settled.outcome == "completed"


@both_apis
async def test_t01_unspaced_for_an_app_that_did_not_ask(stage: Stage, api: Api) -> None:
    """
    An unspaced usage event is taken out like any other. envoyproxy/ai-gateway#2470
    """
    events = [spaced(event, b"") for event in story(api)]

    settled = await stage.stream_unasked(api, events, spaced(api.report(), b""))

    assert settled.usage == TOLD.usage


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t01_byte_order_mark(stage: Stage, api: Api, asked: bool) -> None:
    """
    A stream may begin with a byte-order mark, in a piece of its own or not.

    envoyproxy/ai-gateway#2470
    """
    mark = b"\xef\xbb\xbf"
    first, *others = story(api)
    for pieces in ([mark + first, *others], [mark, first, *others]):
        if asked:
            _, settled = await stage.stream(api, pieces, APART_SECONDS)
        else:
            settled = await stage.stream_unasked(
                api, pieces, api.report(), APART_SECONDS
            )

        assert settled.usage == TOLD.usage


LINE_ENDS = {"LF": [b"\n"], "CRLF": [b"\r\n"], "CR": [b"\r"]}
LINE_ENDS["mixed"] = [b"\r\n", b"\n", b"\r", b"\r", b"\n", b"\r\n", b"\n"]
line_ends = pytest.mark.parametrize("ends", LINE_ENDS.values(), ids=LINE_ENDS)


def with_ends(events: Sequence[bytes], ends: Sequence[bytes]) -> list[bytes]:
    """Return *events* with the line *ends*, in turn."""
    next_end = itertools.cycle(ends)
    return [
        b"".join(line + next(next_end) for line in event.split(b"\n")[:-1])
        for event in events
    ]


@both_apis
@line_ends
async def test_t02_line_ends(stage: Stage, api: Api, ends: list[bytes]) -> None:
    """
    LF, CRLF and CR end a line, also side by side. envoyproxy/ai-gateway#2463
    """
    _, settled = await stage.stream(api, with_ends(story(api), ends))

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@pytest.mark.parametrize("ends", [[b"\r\n"], [b"\r"]], ids=["CRLF", "CR"])
async def test_t02_cut_between_cr_and_lf(
    stage: Stage, api: Api, ends: list[bytes]
) -> None:
    """
    A cut inside of a line end makes neither one blank line more nor one less.

    envoyproxy/ai-gateway#2463
    """
    # A line end within the data: taken for two, it would end the event there.
    spread = [event.replace(b"data: {", b"data: {\ndata: ") for event in story(api)]
    sent = b"".join(with_ends(spread, ends))
    cuts = [at + 1 for at, byte in enumerate(sent) if byte == 0x0D]

    _, settled = await stage.stream(api, cut(sent, *cuts), APART_SECONDS)

    assert settled.usage == TOLD.usage


@both_apis
async def test_t02_sampled_cuts_of_crlf(stage: Stage, api: Api) -> None:
    """
    The figures are the same wherever the body is cut. envoyproxy/ai-gateway#2463
    """
    sent = b"".join(with_ends(story(api, WORDS[:2]), [b"\r\n"]))
    # Around the end of each event, where a scanner has most to get wrong.
    blank = [at for at in range(len(sent)) if sent.startswith(b"\r\n\r\n", at)]
    cuts = {at + step for at in blank for step in range(1, 5)} - {len(sent)}

    for at in sorted(cuts):
        _, settled = await stage.stream(api, cut(sent, at), APART_SECONDS)

        assert settled.usage == TOLD.usage, at


@both_apis
async def test_t02_byte_by_byte(stage: Stage, api: Api) -> None:
    """
    A body that comes in single bytes is read like any other. envoyproxy/ai-gateway#2463
    """
    sent = b"".join(with_ends(story(api, WORDS[:1]), LINE_ENDS["mixed"]))

    _, settled = await stage.stream(api, cut(sent, *range(1, len(sent))), 0.0005)

    assert settled.usage == TOLD.usage


@line_ends
async def test_t02_line_ends_for_an_app_that_did_not_ask(
    stage: Stage, ends: list[bytes]
) -> None:
    """
    The event that only we asked for is taken out, however its lines end.

    envoyproxy/ai-gateway#2463
    """
    events = with_ends(story(OPENAI), ends)

    settled = await stage.stream_unasked(OPENAI, events, events[-2])

    assert settled.usage == TOLD.usage


CONTROL = [
    b"retry: 3000\n\n",
    b"id: 7\n\n",
    b"event: ping\n\n",
    b"data:\n\n",
    b"data\n\n",
    b"data: \n\n",
    b"event:\n\n",
    b"id: 8\nevent: ping\nretry: soon\n\n",
    b"unknown: field\n\n",
    b"\n\n\n",
    b": \n\n",
]


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t09_events_without_data(stage: Stage, api: Api, asked: bool) -> None:
    """
    Events of `retry`, `id`, `event` or empty `data` say nothing and break nothing.

    openai/openai-python#2722, openai/openai-python#3833
    """
    events = story(api)
    pieces = [*CONTROL, events[0], *CONTROL, *events[1:-1], *CONTROL, events[-1]]

    if asked:
        _, settled = await stage.stream(api, pieces)
    else:
        settled = await stage.stream_unasked(api, pieces, api.report())

    assert settled.usage == TOLD.usage
    assert settled.outcome == "completed"


COMMENTS = [b":\n\n", b": ping - 2\n\n", b": OPENROUTER PROCESSING\n\n", b":ping\n"]


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
async def test_t10_comments_everywhere(stage: Stage, api: Api, asked: bool) -> None:
    """
    Comments count for nothing, glued to the next event or not, and pass as they are.

    Portkey-AI/gateway#1035, mnfst/llm-gateway#2053, theopenco/llmgateway#2334
    """
    events = story(api)
    comments = itertools.cycle(COMMENTS)
    pieces = list(itertools.chain(*([next(comments), event] for event in events)))

    if asked:
        _, settled = await stage.stream(api, pieces)
    else:
        settled = await stage.stream_unasked(api, pieces, api.report())

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "unasked"])
@pytest.mark.parametrize("comment", COMMENTS, ids=repr)
async def test_t10_comments_pass_at_once(
    stage: Stage, api: Api, asked: bool, comment: bytes
) -> None:
    """
    A comment reaches the app within 100 ms, not with the next event.

    Portkey-AI/gateway#1035, mnfst/llm-gateway#2053
    """
    deltas = [api.delta(word) for word in WORDS]
    pieces = [comment, *api.opening(), comment]
    pieces += [*itertools.chain(*((delta, comment) for delta in deltas))]
    pieces += [*api.finish(), api.report(), api.end()]
    gates = [asyncio.Event() for _ in pieces]
    script: list[Step] = [STREAM_HEAD]
    for gate, piece in zip(gates, pieces, strict=True):
        script += [Hold(gate), chunk(piece)]
    stage.upstream.play(*script, LAST_CHUNK)

    call = await stage.begin(api, api.request(asked=asked))
    waits, sent_bytes = [], 0
    for gate, piece in zip(gates, pieces, strict=True):
        sent_bytes += len(piece)
        began = time.monotonic()
        gate.set()
        if piece == comment:  # nothing else is sent before it has arrived
            await call.until_length(sent_bytes)
            waits.append(time.monotonic() - began)
    await call.reply()
    settled = await stage.settled(call.request_id)

    assert statistics.median(waits) < 0.1
    assert settled.usage == TOLD.usage


@both_apis
async def test_t10_blank_lines_before_a_reply(stage: Stage, api: Api) -> None:
    """
    Blank lines keep a reply that is not streamed alive: they pass at once, and the
    reply behind them is read.

    mnfst/llm-gateway#2053
    """
    gate = asyncio.Event()
    body = api.reply("Once upon a time.")
    framing = (("content-type", "application/json"), ("transfer-encoding", "chunked"))
    blanks = [chunk(b"\n"), chunk(b"\n\n"), chunk(b" \r\n" * 40)]
    stage.upstream.play(
        head(headers=framing), *blanks, Hold(gate), chunk(body), LAST_CHUNK
    )
    call = await stage.begin(api, api.request(stream=False))
    await call.until_length(123)
    gate.set()
    reply = await call.reply()
    settled = await stage.settled(call.request_id)

    assert reply.body.strip() == body
    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")
