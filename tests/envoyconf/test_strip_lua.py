"""
lua/strip.lua: the usage-only event never reaches an app that did not ask for it,
and no other byte is touched, however the stream is cut and framed.
"""

import gzip
import json
import random
import re

import pytest

from tests.envoyconf.client import Reply, request
from tests.envoyconf.gateway import Gateway
from tests.envoyconf.processor import Answer, Call, forward
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Pause,
    Step,
    chunk,
    cut,
    event_stream,
    head,
    reply,
)

POST = request(body=b'{"stream": true}')
USAGE = (
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"total_tokens":3}}\n\n'
)
DELTA = b'data: {"id":"c","choices":[{"delta":{"content":"hi"}}],"usage":null}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = DELTA + DELTA + USAGE + DONE
STRIPPED = DELTA + DELTA + DONE
SSE = ("content-type", "text/event-stream")
# As strip.lua has it.
SLICE_BYTES = 65_536


LINE_END = re.compile(rb"\r\n|\n|\r")


def stripped(stream: bytes) -> bytes:
    """Return *stream* without its usage-only events: what strip.lua is to do."""
    return b"".join(event for event in _events(stream) if not _usage_only(event))


def _events(stream: bytes) -> list[bytes]:
    """Cut *stream* behind each empty line, and behind comments before an event."""
    events = [b""]
    at = 0
    for end in LINE_END.finditer(stream):
        line, at = stream[at : end.start()], end.end()
        comment = line.startswith(b":") and not events[-1]
        events[-1] += line + end[0]
        if comment or not line:
            events.append(b"")
    return [*events[:-1], events[-1] + stream[at:]]


def _usage_only(event: bytes) -> bool:
    lines = LINE_END.split(event)
    data = [line[5:] for line in lines if line.startswith(b"data:")]
    try:
        body = json.loads(b"\n".join(data))
    except ValueError:
        return False
    return (
        isinstance(body, dict)
        and not body.get("choices")
        and bool(body.get("usage"))
        and not body.get("error")
    )


def with_line_ends(stream: bytes, kinds: list[bytes], chance: random.Random) -> bytes:
    """Return *stream*, each line ending in one of *kinds*, and no CR before an LF."""
    for _ in range(stream.count(b"\n")):
        before, _, rest = stream.partition(b"\n")
        allowed = [b"\r\n"] if before.endswith(b"\r") and b"\n" in kinds else kinds
        stream = before + chance.choice(allowed).replace(b"\n", b"\0") + rest
    return stream.replace(b"\0", b"\n")


@pytest.fixture
def strip(gate: Gateway) -> Gateway:
    """Return the gateway with a processor that asks for stripping."""

    async def admit(call: Call) -> Answer:
        return forward(call, "up", metadata={"strip_usage": True})

    gate.processor.admit = admit
    return gate


async def _ask(gate: Gateway, *steps: Step) -> Reply:
    gate.upstream.play(*steps)
    return await gate.ask(POST)


def test_the_reference() -> None:
    """The reference that these tests compare with does what it should."""
    assert stripped(STREAM) == STRIPPED


# === framings ===================================================================


async def test_chunks(strip: Gateway) -> None:
    """The event is taken out of a chunked stream, and its end is clean."""
    answer = await _ask(strip, *event_stream([DELTA, DELTA, USAGE, DONE], 0.005))

    assert (answer.body, answer.whole) == (STRIPPED, True)
    watched = strip.processor.of("response")[0]
    await strip.processor.wait_for(lambda: watched.ended is not None)
    assert watched.body("response_body") == STREAM


async def test_content_length(strip: Gateway) -> None:
    """A length that would no longer be true is taken away."""
    answer = await _ask(strip, reply(STREAM, headers=[SSE]))

    assert (answer.body, answer.whole) == (STRIPPED, True)
    assert answer.header("content-length") is None


async def test_end_of_connection(strip: Gateway) -> None:
    """A stream that ends with the connection is stripped and ends cleanly."""
    answer = await _ask(strip, head(headers=[SSE]), STREAM, End.CLOSE)

    assert (answer.body, answer.whole) == (STRIPPED, True)


async def test_http_1_0_app(strip: Gateway) -> None:
    """An HTTP/1.0 app gets the stripped stream, and the end of the connection."""
    strip.upstream.play(*event_stream([STREAM]))

    answer = await strip.ask(request(body=b"{}", version="HTTP/1.0"))

    assert answer.body == STRIPPED


async def test_trailers(strip: Gateway) -> None:
    """Trailers behind the stream change nothing."""
    answer = await _ask(
        strip,
        *event_stream([STREAM])[:-1],
        b"0\r\nx-checksum: 1\r\n\r\n",
    )

    assert (answer.body, answer.whole) == (STRIPPED, True)


async def test_reset(strip: Gateway) -> None:
    """A stream that is cut is cut for the app, with all whole events before it."""
    pieces = event_stream([DELTA, DELTA, USAGE])[:-1]
    answer = await _ask(strip, *pieces, Pause(0.05), End.RESET)

    assert (answer.body, answer.whole) == (DELTA + DELTA, False)


# === cuts =======================================================================


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_every_cut_in_two(strip: Gateway, line_end: bytes) -> None:
    """Wherever the stream is cut, the app gets the same bytes."""
    stream = (DELTA + USAGE + DONE).replace(b"\n", line_end)
    expected = (DELTA + DONE).replace(b"\n", line_end)
    for position in range(1, len(stream)):
        pieces = cut(stream, position)
        answer = await _ask(strip, *event_stream(pieces, 0.001))

        assert (answer.body, answer.whole) == (expected, True), position


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_a_large_piece(strip: Gateway, line_end: bytes) -> None:
    """What comes at once is looked at in slices, and none of their ends matters."""
    usage, done = (each.replace(b"\n", line_end) for each in (USAGE, DONE))
    for missing in range(0, len(usage) + 2, 5):
        line = b"data: " + b"x" * (SLICE_BYTES - missing - 6 - 2 * len(line_end))
        before = line + 2 * line_end
        assert len(before) == SLICE_BYTES - missing
        answer = await _ask(strip, reply(before + usage + before + done, headers=[SSE]))

        assert answer.body == before + before + done, missing


async def test_single_bytes(strip: Gateway) -> None:
    """Byte by byte, too, though every event's lines end in ways of their own."""
    ends = [b"\r\n\r", b"\r\r\n", b"\n\r", b"\r\n\n"]
    events = [DELTA, USAGE, DELTA, USAGE, DONE]
    mixed = [
        event.replace(b"\n\n", end)
        for event, end in zip(events, [*ends, b"\n\n"], strict=True)
    ]
    pieces = [bytes([byte]) for byte in b"".join(mixed)]
    answer = await _ask(strip, *event_stream(pieces, 0.0005))

    assert answer.body == b"".join((mixed[0], mixed[2], mixed[4]))
    assert answer.whole


async def test_random_streams(strip: Gateway) -> None:
    """Streams of all kinds of events and line ends, cut at random, lose just these."""
    chance = random.Random(20)
    kinds = [
        *(
            DELTA,
            USAGE,
            DONE,
            b": ping\n\n",
            b":\n\n",
            b"event: x\nid: 7\ndata: {}\n\n",
        ),
        b'data: {"choices":[],"prompt_filter_results":[{"x":1}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\"choices\\":[],\\"usage\\":{"}}]}\n\n',
        b'data:{"usage": {"total_tokens": 1}, "choices" : [ ]}\n\n',
        b'data: {"choices":[{"delta":{}}],"usage":{"total_tokens":2}}\n\n',
        b'data: {"choices": [], "usage": {"total_tokens": 4}}\n\n',
        b'data: {"choices": null, "usage": {"total_tokens": 5}}\n\n',
        b'data: {"usage": {"total_tokens": 6}}\n\n',
        b'data: {"error": {"message": "no"}, "usage": {"total_tokens": 7}}\n\n',
        'data: {"choices":[{"delta":{"content":"你好 ✅"}}]}\n\n'.encode(),
        b"data: \xff\xfe\n\n",
        b"data: " + b"x" * 20_000 + b"\n\n",
    ]
    line_ends = [[b"\n"], [b"\r\n"], [b"\r"], [b"\n", b"\r\n", b"\r"]]
    for _ in range(120):
        stream = b"".join(chance.choices(kinds, k=chance.randint(1, 9)))
        stream += chance.choice([b"", b"data: tail", DONE[:-1], USAGE[:-2]])
        stream = with_line_ends(stream, chance.choice(line_ends), chance)
        count = min(len(stream) - 1, chance.randint(0, 12))
        positions = chance.sample(range(1, len(stream)), count)
        answer = await _ask(strip, *event_stream(cut(stream, *positions), 0.0005))

        assert answer.body == stripped(stream), (stream, sorted(positions))
        assert answer.whole


# === what stays as it is ========================================================


@pytest.mark.parametrize(
    "stream",
    [
        DELTA + DONE,
        DELTA.replace(b"null", b'{"total_tokens":3}') + DONE,
        b'data: {"choices":[],"usage":null}\n\n' + DONE,
        b"data: " + b"long" * 300_000 + b"\n\n" + DONE,
        DELTA + b'data: {"choices":[],"usa',
        b"",
    ],
)
async def test_other_streams_pass(strip: Gateway, stream: bytes) -> None:
    """A stream without a usage-only event keeps every byte."""
    answer = await _ask(strip, head(headers=[SSE]), stream, End.CLOSE)

    assert (answer.body, answer.whole) == (stream, True)


async def test_a_long_event_is_not_held(strip: Gateway) -> None:
    """What can't be a usage event flows before it has ended."""
    strip.upstream.play(
        head(headers=[SSE, ("transfer-encoding", "chunked")]),
        chunk(b"data: " + b"x" * 40_000),
        End.STALL,
    )
    async with await strip.connect() as app:
        app.send(POST)
        await app.reader.readuntil(b"x" * 20_000)


@pytest.mark.parametrize("line", [b"data: x\n", b"data:\r\n", b"x\r", b": x\n", b"\n"])
async def test_many_lines_cost_as_many(strip: Gateway, line: bytes) -> None:
    """An event of many short lines, in one piece, takes no time to speak of (S09)."""
    stream = DELTA + line * 200_000 + b"\n\n" + STREAM
    answer = await _ask(strip, head(headers=[SSE]), stream, End.CLOSE)

    assert answer.whole
    assert answer.body == DELTA + line * 200_000 + b"\n\n" + STRIPPED


async def test_a_long_event_is_no_usage_event(strip: Gateway) -> None:
    """Whether an event is taken out does not depend on how it was cut."""
    long = USAGE.replace(b'"id"', b'"x":"' + b"x" * 20_000 + b'","id"')
    for pieces in ([long], cut(long, 17_000), cut(long, 100, 19_000)):
        answer = await _ask(strip, *event_stream(pieces, 0.01))

        assert answer.body == long


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b"\r\n", b"\r", b""])
async def test_keep_alive_comments_are_not_held(strip: Gateway, end: bytes) -> None:
    """A comment passes at once, be it an event of its own, a line, or half a line."""
    strip.upstream.play(*event_stream([DELTA, b": ping" + end])[:-1], End.STALL)
    async with await strip.connect() as app:
        app.send(POST)
        await app.reader.readuntil(b": ping" + end)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_a_comment_before_the_event_stays(strip: Gateway, end: bytes) -> None:
    """Of a comment and the usage event on the next line, only the latter is taken."""
    pieces = [DELTA, b": pi", b"ng", end, USAGE, DONE]
    answer = await _ask(strip, *event_stream(pieces, 0.005))

    assert answer.body == DELTA + b": ping" + end + DONE


async def test_data_over_several_lines(strip: Gateway) -> None:
    """The event is known though its data is spread over lines."""
    spread = (
        b'data: {"choices": [\ndata: ],\ndata: "usage":\ndata: {"total_tokens":3}}\n\n'
    )
    answer = await _ask(strip, *event_stream([DELTA, spread, DONE]))

    assert answer.body == DELTA + DONE


async def test_without_the_last_empty_line(strip: Gateway) -> None:
    """An app may read an event that has no empty line: it is taken out as well."""
    answer = await _ask(strip, *event_stream([DELTA, USAGE[:-2]], 0.005))

    assert (answer.body, answer.whole) == (DELTA, True)


@pytest.mark.parametrize("kind", ["text/plain", "application/json", None])
async def test_a_stream_with_another_label(strip: Gateway, kind: str | None) -> None:
    """SDKs don't look at the label of a stream, and neither does the filter."""
    headers = [("transfer-encoding", "chunked")]
    headers += [("content-type", kind)] if kind else []
    pieces = map(chunk, (DELTA, USAGE, DONE))
    answer = await _ask(strip, head(headers=headers), *pieces, LAST_CHUNK)

    assert (answer.body, answer.whole) == (DELTA + DONE, True)


async def test_json_in_chunks_passes(strip: Gateway) -> None:
    """What begins as JSON is no stream, and is not held."""
    json_type = ("content-type", "application/json")
    body = b'{"choices": [], "usage": {"total_tokens": 3}'
    framing = head(headers=[json_type, ("transfer-encoding", "chunked")])
    strip.upstream.play(framing, chunk(body), End.STALL)
    async with await strip.connect() as app:
        app.send(POST)
        await app.reader.readuntil(body)


async def test_json_passes(strip: Gateway) -> None:
    """A reply that is no stream keeps its bytes and its length."""
    body = b'{"choices":[],"usage":{"total_tokens":3}}\n\n'
    answer = await _ask(strip, reply(body))

    assert answer.body == body
    assert answer.header("content-length") == str(len(body))


async def test_encoded_streams_pass(strip: Gateway) -> None:
    """What can't be read is not touched."""
    body = gzip.compress(STREAM)
    headers = [SSE, ("content-encoding", "gzip")]
    answer = await _ask(strip, reply(body, headers=headers))

    assert answer.body == body
    assert answer.header("content-length") == str(len(body))


async def test_content_type_with_parameters(strip: Gateway) -> None:
    """The kind of a stream is told in any case, and may have parameters."""
    kind = ("content-type", "Text/Event-Stream; charset=utf-8")
    answer = await _ask(strip, reply(STREAM, headers=[kind]))

    assert answer.body == STRIPPED


@pytest.mark.parametrize("metadata", [None, {}, {"strip_usage": False}])
async def test_not_asked(gate: Gateway, metadata: dict[str, object] | None) -> None:
    """Nothing is taken out unless admission asked for it."""

    async def admit(call: Call) -> Answer:
        return forward(call, "up", metadata=metadata)

    gate.processor.admit = admit
    answer = await _ask(gate, *event_stream([DELTA, DELTA, USAGE, DONE]))
    with_length = await _ask(gate, reply(STREAM, headers=[SSE]))

    assert answer.body == with_length.body == STREAM
    assert with_length.header("content-length") == str(len(STREAM))


async def test_head_of_a_stream(strip: Gateway) -> None:
    """A HEAD that is answered with a stream's head has no body to read."""
    strip.upstream.play(head(headers=[SSE, ("content-length", "9")]))

    answer = await strip.ask(request("HEAD", "/v1/stream"))

    assert answer.status == 200
    assert LAST_CHUNK not in answer.body
