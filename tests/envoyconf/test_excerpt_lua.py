"""
lua/excerpt.lua, under the LuaJIT that Envoy has: whatever is read of a body can be read
of what is written down of it, however it comes, and the app gets every byte.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envoyconf.test_strip_lua import stripped
from tests.envoyconf.told_bodies import CHAT, JSON, SSE, Body, recorded, scripted
from tests.envoyconf.watched import NATIVE, STRIPPED, Watch
from tests.recorded import NEEDS_RECORDINGS
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.excerpt import Excerpt, read_excerpt

WATCH = Watch()
# A body of at most so many bytes is cut at each of them, and comes byte by byte.
SHORT = 700
WAYS = 8


def cuts(pieces: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield ways in which a body comes that was sent in *pieces*."""
    body, chance = b"".join(pieces), random.Random(7)
    yield list(pieces)
    yield [body]
    if len(body) <= SHORT:
        yield [body[at : at + 1] for at in range(len(body))]
        for at in range(1, len(body)):
            yield [body[:at], body[at:]]
        return
    for _ in range(WAYS):
        count = min(len(body) - 1, chance.choice((1, 3, 20, 200)))
        places = sorted(chance.sample(range(1, len(body)), count))
        yield [body[a:b] for a, b in pairwise([0, *places, len(body)])]


def told(facts: ResponseFacts) -> ResponseFacts:
    """Return *facts* without what only the text itself tells."""
    return replace(facts, texts=[], text_bytes=0, deltas=0, hidden=False, strange=False)


def excerpt_of(body: Body, pieces: Sequence[bytes]) -> Excerpt:
    """Return what is written down of *body*, that comes in *pieces*; all must pass."""
    watched = WATCH.reply(pieces, told=NATIVE, content_type=body.content_type)

    assert watched.errors == []
    assert watched.body == b"".join(pieces)
    excerpt = read_excerpt(watched.notes)
    assert not excerpt.fault
    assert excerpt.whole
    assert excerpt.seen_bytes == len(watched.body)
    return excerpt


def check(body: Body) -> None:
    """Compare what is known of *body* with what is known by its excerpts."""
    expected = body.facts([body.data])
    for pieces in cuts(body.pieces):
        excerpt = excerpt_of(body, pieces)

        assert excerpt.gap_at is None
        assert body.facts_in(excerpt) == expected
        decisive = body.facts(unit.data for unit in excerpt.decisive())
        assert told(decisive) == told(expected)


@pytest.mark.parametrize("body", scripted(), ids=lambda body: body.name)
def test_scripted_bodies(body: Body) -> None:
    """What the tests have providers say is written down, all of it."""
    check(body)


@NEEDS_RECORDINGS
@pytest.mark.parametrize("body", recorded(), ids=lambda body: body.name)
def test_recorded_bodies(body: Body) -> None:
    """What providers have said is written down, all of it."""
    check(body)


# === what events look like ======================================================

DELTA = (
    'data: {{"id":"c-1","object":"chat.completion.chunk","choices":[{{"index":0,'
    '"delta":{{"content":{}}},"finish_reason":null}}],"usage":null}}\n\n'
)
SUMS = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
USAGE = f'data: {{"id":"c-1","choices":[],"usage":{json.dumps(SUMS)}}}\n\n'.encode()
DONE = b"data: [DONE]\n\n"


def delta(text: str) -> bytes:
    """Return an event with *text*."""
    return DELTA.format(json.dumps(text, ensure_ascii=False)).encode()


def stream(*pieces: bytes) -> Body:
    """Return a chat's answer."""
    return Body("", CHAT, SSE, pieces)


def reply(members: Any, path: str = CHAT) -> Body:
    """Return an answer that is JSON."""
    return Body("", path, JSON, (json.dumps(members).encode(),))


def slices(data: bytes, size: int = 16_384) -> list[bytes]:
    """Return *data* as Envoy brings it."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def units(excerpt: Excerpt) -> list[bytes]:
    """Return the bytes of what was kept."""
    return [unit.data for unit in excerpt.units]


def written_bytes(notes: dict[str, object]) -> int:
    """Return how much is written down."""
    return sum(len(text.encode()) for text in notes.values() if isinstance(text, str))


def test_a_delta_is_its_text() -> None:
    """Events that look alike are written as their texts, whatever these are."""
    texts = [f" word{i}" if i % 7 else '你 "quoted" \\ é' for i in range(1_000)]
    body = stream(*map(delta, texts), USAGE, DONE)
    watched = WATCH.reply(body.pieces)

    excerpt = read_excerpt(watched.notes)
    assert body.facts_in(excerpt).texts == texts
    assert written_bytes(watched.notes) < 20 * len(texts)
    assert len(excerpt.decisive()) < 10


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        # What may be more than a text, or none, is written whole.
        ('{"a":"x","content":"a"}', '{"a":"x","content":"b"}', '{"a":"x","content":""}'),
        ('{"b":"x","n":1}', '{"b":"x","n":2}', '{"b":"x","n":null}'),
        ('{"b":"x","n":1}', '{"b":"x","n":2}', '{"b":"x","n":"3"}'),
        ('{"b":"x","n":"1"}', '{"b":"x","n":"2"}', '{"b":"x","n":"3","m":"4"}'),
        ('{"b":"x","n":"1"}', '{"b":"x","n":"2"}', '{"b":"x","n":"3\\\\","m":"4"}'),
        ('{"b":"x","n":"1"}', '{"b":"x","n":"2"}', '{"b":"y","n":"3"}'),
    ],
)  # fmt: skip
def test_what_is_more_than_a_text(first: str, second: str, third: str) -> None:
    """A unit that differs in more than the text of a value is not taken for routine."""
    known = '"id":"some-id-that-is-long-enough"'
    events = [
        f"data: {{{known},{each[1:]}\n\n".encode() for each in (first, second, third)
    ]
    excerpt = excerpt_of(stream(*events), events)

    assert [unit.data for unit in excerpt.units] == events
    assert not any(unit.routine for unit in excerpt.units)


@pytest.mark.parametrize(
    "member",
    [
        '"usage":{"prompt_tokens":%d}',
        '"finish_reason":"stop","index":%d',
        '"type":"%d"',
        '"error":{"code":%d}',
    ],
)
def test_what_tells_is_decisive(member: str) -> None:
    """Units that report, end, fail, or say what they are, all count."""
    known = '"id":"some-id-that-is-long-enough"'
    events = [f"data: {{{known},{member % i}}}\n\n".encode() for i in range(1, 9)]
    excerpt = excerpt_of(stream(*events), events)

    assert [unit.data for unit in excerpt.decisive()] == events


def test_the_moment_of_each() -> None:
    """Of the first units it is told when they passed; of none a moment before that."""
    body = stream(*(delta(str(i)) for i in range(200)), DONE)
    excerpt = excerpt_of(body, body.pieces)

    moments = [unit.at_us for unit in excerpt.units]
    assert moments == sorted(moments)
    assert len(set(moments[:5])) == 5
    assert excerpt.head_us < moments[0]


@pytest.mark.parametrize("passed", [0, 1, 5, 15, 30, 100, 999])
def test_a_stream_that_is_cut(passed: int) -> None:
    """All but an eighth of what passed is there, and how much that is."""
    body = stream(*(delta(f" {i % 10}") for i in range(1_000)))
    pieces = body.pieces[: passed + 1]
    watched = WATCH.reply(body.pieces, cut_after=passed + 1)
    excerpt = read_excerpt(watched.notes)

    assert watched.body.startswith(b"".join(pieces[:-1]))
    assert not excerpt.whole
    assert passed > 15 or units(excerpt) == [*pieces]
    assert len(excerpt.units) == excerpt.seen_units >= passed * 7 // 8
    assert (
        b"".join(unit.data for unit in excerpt.units) == body.data[: excerpt.seen_bytes]
    )
    assert watched.writes < 60


def test_what_differs_is_written_at_once() -> None:
    """A report that comes before a cut is there, and so is the last event."""
    pieces = [*(delta(f" {i % 10}") for i in range(500)), USAGE, DONE, delta("x")]
    for cut_after, last in ((501, USAGE), (502, DONE)):
        watched = WATCH.reply(pieces, cut_after=cut_after)
        excerpt = read_excerpt(watched.notes)

        assert excerpt.units[-1].data == last
        assert not excerpt.whole


def test_units_that_never_look_alike() -> None:
    """A stream without any likeness is there as well, and is not written too often."""
    chance = random.Random(3)
    names = ["".join(chance.choices("abcdefgh", k=9)) for _ in range(400)]
    body = stream(*(f'data: {{"{name}":[]}}\n\n'.encode() for name in names))
    watched = WATCH.reply(body.pieces)

    excerpt = read_excerpt(watched.notes)
    assert b"".join(unit.data for unit in excerpt.units) == body.data
    assert watched.writes < 120


# === much of it =================================================================


def long_stream(count: int) -> Body:
    """Return one with *count* deltas, of which none is like the other in length."""
    chance = random.Random(5)
    texts = (" " + "x" * chance.randint(1, 40) for _ in range(count))
    return stream(*map(delta, texts), USAGE, DONE)


def test_a_long_stream() -> None:
    """Of more than there is room for, the beginning and the end are there."""
    body = long_stream(20_000)
    watched = WATCH.reply(body.pieces)
    excerpt = read_excerpt(watched.notes)

    assert watched.body == body.data
    assert excerpt.gap_at is not None
    before = excerpt.units[: excerpt.gap_at]
    after = excerpt.units[excerpt.gap_at :]
    passed = sum(len(unit.data) for unit in excerpt.units)
    assert passed + excerpt.gap_bytes == len(body.data) == excerpt.seen_bytes
    assert body.data.startswith(b"".join(unit.data for unit in before))
    assert body.data.endswith(b"".join(unit.data for unit in after))
    assert body.facts_in(excerpt).usage == body.facts([body.data]).usage
    assert written_bytes(watched.notes) < 100_000
    assert watched.writes < 150


def test_the_gap_says_as_much_as_the_rest() -> None:
    """Text by size, as much of what is missing as of what is there, is about right."""
    body = long_stream(20_000)
    excerpt = excerpt_of(body, body.pieces)
    facts, expected = body.facts_in(excerpt), body.facts([body.data])

    fed = sum(len(unit.data) for unit in excerpt.units)
    about = facts.text_bytes + facts.text_bytes * excerpt.gap_bytes // fed
    assert abs(about - expected.text_bytes) < expected.text_bytes // 20


def test_a_report_amid_a_long_stream_stays() -> None:
    """Of what came when there was no more room, what differs is kept longest."""
    deltas = [delta(f" {i % 10}" * 20) for i in range(8_000)]
    body = stream(*deltas, USAGE, *deltas[:300])
    excerpt = excerpt_of(body, body.pieces)

    assert excerpt.gap_at is not None
    assert USAGE in [unit.data for unit in excerpt.units[excerpt.gap_at :]]


def completed(text: str, **more: Any) -> bytes:
    """Return the last event of a response with *text*."""
    response = {
        "status": "completed",
        "model": "gpt-4o",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": text}]}
        ],
        **more,
        "usage": {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16},
    }
    event = {"type": "response.completed", "response": response}
    return b"event: response.completed\ndata: " + json.dumps(event).encode() + b"\n\n"


@pytest.mark.parametrize("size", [1, 65_536, 4_096])
@pytest.mark.parametrize(
    "text",
    [
        "word " * 40_000,
        "你好" * 30_000,
        '\\"\n' * 20_000,
        "🙂" * 20_000,
        "é\ud83dx" * 9,
    ],
)
def test_a_long_event(text: str, size: int) -> None:
    """Its long strings are cut, nothing else, wherever it is cut itself."""
    event = completed(text if size > 1 else text[:9_000])
    pieces = slices(event, size)
    body = Body("", "/v1/responses", SSE, (event,))
    excerpt = excerpt_of(body, pieces)

    [unit] = excerpt.units
    assert len(unit.data) + unit.elided_bytes == len(event)
    assert unit.elided_bytes > 0 or len(event) < 20_000
    assert told(body.facts_in(excerpt)) == told(body.facts([event]))


@pytest.mark.parametrize("size", [16_384, 65_536])
def test_an_event_that_is_too_long(size: int) -> None:
    """What nobody reads is not kept, but it is told that it was there."""
    long = b"data: " + b"x" * 1_100_000 + b"\n\n"
    excerpt = excerpt_of(stream(), slices(delta("a") + long + USAGE, size))

    assert excerpt.left_out == 1
    assert [unit.data for unit in excerpt.units] == [delta("a"), USAGE]


def test_an_event_of_many_members() -> None:
    """One that does not get short by cutting its strings is left out."""
    event = completed("", tools=[{"name": str(i)} for i in range(20_000)])
    excerpt = excerpt_of(stream(), slices(event + DONE))

    assert (excerpt.left_out, excerpt.units[0].data) == (1, DONE)


PICTURE = {
    "created": 1,
    "data": [{"b64_json": "A" * 1_500_000}, {"b64_json": "B" * 300_000}],
    "usage": {"input_tokens": 50, "output_tokens": 1_056, "total_tokens": 1_106},
}
VECTORS = {
    "object": "list",
    "data": [
        {
            "object": "embedding",
            "index": i,
            "embedding": [i / 7 + k for k in range(900)],
        }
        for i in range(20)
    ],
    "model": "text-embedding-3-large",
    "usage": {"prompt_tokens": 11, "total_tokens": 11},
}
INLINE = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "C" * 1_400_000}}
                ]
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 8,
        "candidatesTokenCount": 1_290,
        "totalTokenCount": 1_298,
    },
    "modelVersion": "gemini-2.5-flash-image",
}


@pytest.mark.parametrize(
    ("members", "path"),
    [
        (PICTURE, "/v1/images/generations"),
        (VECTORS, "/v1/embeddings"),
        (INLINE, "/v1beta/models/m:generateContent"),
    ],
    ids=["picture", "vectors", "inline"],
)
@pytest.mark.parametrize("size", [777, 65_536])
def test_a_large_reply(members: Any, path: str, size: int) -> None:
    """Of more than a megabyte of JSON, all members are there, in little room."""
    body = reply(members, path)
    pieces = slices(body.data, size)
    watched = WATCH.reply(pieces, content_type=JSON)
    excerpt = read_excerpt(watched.notes)

    assert watched.body == body.data
    assert excerpt.gap_at is None
    assert told(body.facts_in(excerpt)) == told(body.facts([body.data]))
    assert json.loads(excerpt.units[0].data).keys() == members.keys()
    assert written_bytes(watched.notes) < 140_000
    assert watched.writes == 1


def test_a_large_reply_of_little_members() -> None:
    """What can't be made short is there with its beginning and its end."""
    odds = [
        {"token": f"t{i}", "logprob": -0.1, "bytes": [i % 256]} for i in range(40_000)
    ]
    message = {"role": "assistant", "content": "t"}
    choice = {"message": message, "logprobs": odds, "finish_reason": "stop"}
    body = reply({"model": "m", "choices": [choice], "usage": SUMS})
    watched = WATCH.reply(slices(body.data), content_type=JSON)
    excerpt = read_excerpt(watched.notes)

    assert watched.body == body.data
    assert excerpt.gap_at == 1
    kept = b"".join(unit.data for unit in excerpt.units)
    assert len(kept) + excerpt.gap_bytes == len(body.data)
    assert body.facts_in(excerpt).usage == body.facts([body.data]).usage
    assert written_bytes(watched.notes) < 300_000


@pytest.mark.parametrize(
    "body",
    [
        stream(*[b"data: " + b"x" * 1_000_000 + b"\n\n"] * 10),
        stream(b"data: " + b"x" * 10_000_000),
        stream(b"data: {" + b'"a":"b",' * 1_200_000),
        stream(b"\n" * 1_000_000),
        stream(b": x\n\n" * 300_000),
        stream(b"data:\n" * 300_000),
        stream(b"data: x\r\r" * 200_000),
        stream(*(f"data: {i}\n\n".encode() for i in range(200_000))),
        stream(*(f'data: {{"{i}":{i}}}\n\n'.encode() for i in range(50_000))),
        Body("", "/v1beta/models/m:generateContent", JSON, (b"[" + b"1," * 600_000,)),
        Body("", "/v1beta/models/m:generateContent", JSON, (b"[" * 1_000_000,)),
        Body("", CHAT, JSON, (b'{"a":"' + b"\\" * 3_000_000,)),
        Body("", CHAT, JSON, (b'{"a":[' + b"[" * 1_000_000,)),
        Body("", CHAT, "text/html", (b"<html>" + b"x" * 3_000_000,)),
        Body("", "/model/m/converse-stream", JSON, (b"\0" * 2_000_000,)),
    ],
)
@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_floods(body: Body, size: int) -> None:
    """Whatever comes, what is written down is bounded, and every byte passes (S09)."""
    pieces = body.pieces if len(body.pieces) > 50 else slices(body.data, size)
    watched = WATCH.reply(pieces, content_type=body.content_type)

    assert watched.errors == []
    assert watched.body == body.data
    assert written_bytes(watched.notes) < 600_000
    assert watched.writes < 350
    assert read_excerpt(watched.notes).seen_bytes == len(body.data)


# === what is encoded, or is no answer ===========================================


@pytest.mark.parametrize("declared", [True, False])
def test_an_encoded_reply(*, declared: bool) -> None:
    """It is kept as it is, and read as it was meant."""
    body = stream(*(delta(f" {i}") for i in range(50)), USAGE, DONE)
    data = gzip.compress(body.data)
    headers = [("content-encoding", "gzip")] if declared else []
    watched = WATCH.reply(slices(data, 100), headers=headers)
    excerpt = read_excerpt(watched.notes)

    assert watched.body == data
    assert b"".join(unit.data for unit in excerpt.units) == data
    assert body.facts_in(excerpt) == body.facts([body.data])


def test_a_large_encoded_reply() -> None:
    """Of one that is too large, the beginning is there, and what is missing is told."""
    data = gzip.compress(random.Random(2).randbytes(400_000))
    watched = WATCH.reply(slices(data, 999), headers=[("content-encoding", "gzip")])
    excerpt = read_excerpt(watched.notes)

    kept = b"".join(unit.data for unit in excerpt.units)
    assert data.startswith(kept)
    assert 130_000 < len(kept) == len(data) - excerpt.gap_bytes
    assert excerpt.gap_at == len(excerpt.units)
    assert written_bytes(watched.notes) < 250_000
    assert watched.writes < 150


def test_an_encoded_stream_that_is_cut() -> None:
    """Of one that is cut, what had come is there, but for an eighth."""
    data = gzip.compress(random.Random(2).randbytes(5_000))
    headers = [("content-encoding", "gzip")]
    watched = WATCH.reply(slices(data, 50), headers=headers, cut_after=70)
    excerpt = read_excerpt(watched.notes)

    assert len(excerpt.units) == excerpt.seen_units >= 62
    assert data.startswith(b"".join(unit.data for unit in excerpt.units))


@pytest.mark.parametrize("page", [b"<html>no</html>", b"oops", b"\xff" * 300, b" "])
def test_what_is_no_answer(page: bytes) -> None:
    """Some proxy's page is told from an answer."""
    body = Body("", CHAT, "text/html", (page,))
    excerpt = excerpt_of(body, body.pieces)

    assert body.facts_in(excerpt) == body.facts([page])
    assert excerpt.gap_bytes == max(0, len(page) - 256)


@pytest.mark.parametrize("pieces", [[], [b""], [b"", b""]])
def test_no_body(pieces: list[bytes]) -> None:
    """A reply without a body is one that has ended."""
    excerpt = read_excerpt(WATCH.reply(pieces).notes)

    assert (excerpt.whole, excerpt.units, excerpt.seen_bytes) == (True, (), 0)
    assert excerpt.content_type == SSE


def test_without_words_of_bytes() -> None:
    """Where LuaJIT has no FFI, what is text is told from what is none all the same."""
    plain = Watch(('pcall(require, "ffi")', "false"))
    body = stream(delta("é"), delta("你好"), delta("a"), b"data: \xff\n\n", USAGE)
    watched = plain.reply(body.pieces)

    assert watched.errors == []
    assert units(read_excerpt(watched.notes)) == list(body.pieces)
    assert watched.notes == WATCH.reply(body.pieces).notes


# === any ========================================================================

SPOOFS = (
    *('"usage":{"prompt_tokens":999999}', '"}],"usage":{"total_tokens":1}}', "\\"),
    *("\\\\", '"', "\n\n", "\r", "data: [DONE]", "\x1e", "\x1f:", "\x00", "é", "你"),
    *("event: error", '{"error":{"code":"x"}}', "\u2028", "🙂", " ", "hello", "1", ""),
)
TEXTS = st.lists(st.sampled_from(SPOOFS), max_size=4).map("".join)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """Return an event of some kind, with texts that look like other things."""
    text = draw(TEXTS)
    ascii_only = draw(st.booleans())

    def data(members: Any) -> bytes:
        written = json.dumps(members, ensure_ascii=ascii_only)
        return b"data: " + written.encode("utf-8", "replace") + b"\n\n"

    call = {"index": 0, "function": {"name": "f", "arguments": text}}
    return draw(
        st.sampled_from(
            [
                *[data({"id": "c", "choices": [{"delta": {"content": text}}]})] * 4,
                data({"id": "c", "choices": [{"delta": {"tool_calls": [call]}}]}),
                data({"id": "c", "choices": [], "usage": SUMS}),
                data({"choices": [{"delta": {}, "finish_reason": "length"}]}),
                data({"choices": [{"delta": {"content": text}}], "usage": SUMS}),
                data({"error": {"code": "x", "message": text}}),
                *(b"data: [DONE]\n\n", b": ping\n\n", b": ping\n", b"\n"),
                b"data: {\ndata: " + data({"usage": SUMS})[7:],
                b"event: x\nid: 7\ndata: \xff\xfe\n\n",
                data({"choices": [{"delta": {"content": text * 3_000}}]}),
            ]
        )
    )


@st.composite
def streams(draw: st.DrawFn, marks: tuple[bytes, ...] = (b"",)) -> list[bytes]:
    """Return a stream of any events with any line ends, cut anywhere."""
    body = b"".join(draw(st.lists(events(), max_size=30)))
    end = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]))
    body = draw(st.sampled_from(marks)) + body.replace(b"\n", end)
    if draw(st.booleans()):
        body = body.removesuffix(end)
    most = max(1, len(body) - 1)
    places = draw(st.sets(st.integers(1, most), max_size=30))
    return [body[a:b] for a, b in pairwise([0, *sorted(places), len(body)])]


@given(streams(marks=(b"", b"", b"\xef\xbb\xbf")))
def test_any_stream(pieces: list[bytes]) -> None:
    """Whatever comes, and however it is cut, the same is known by what is kept."""
    body = stream(*pieces)
    expected = body.facts([body.data])
    excerpt = excerpt_of(body, pieces)

    elided = sum(unit.elided_bytes for unit in excerpt.units)
    known = body.facts_in(excerpt)
    assert known == expected if not elided else told(known) == told(expected)
    decisive = body.facts(unit.data for unit in excerpt.decisive())
    assert told(decisive) == told(expected)


@given(streams())
def test_any_stream_is_stripped(pieces: list[bytes]) -> None:
    """What is taken out does not hang on what is written down, nor the other way."""
    body = stream(*pieces)
    watched = WATCH.reply(pieces, told=STRIPPED)

    assert watched.errors == []
    assert watched.body == stripped(body.data)
    assert watched.notes == WATCH.reply(pieces).notes


JSON_TEXTS = st.text(max_size=6) | st.just("x" * 3_000) | st.just("\\" * 2_000)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | JSON_TEXTS
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(lambda row: row * 400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JSON_TEXTS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(
    value=VALUES, size=st.sampled_from((777, 3_000, 16_384)), ascii_only=st.booleans()
)
def test_any_json_gets_short(value: Any, size: int, *, ascii_only: bool) -> None:
    """Long JSON that was made short is valid, and has the same shape."""
    members = {"long": "y" * 140_000, "value": value, "usage": SUMS}
    text = json.dumps(members, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    watched = WATCH.reply(slices(data, size), content_type=JSON)

    [unit] = read_excerpt(watched.notes).units
    assert watched.body == data
    assert shape(json.loads(unit.data)) == shape(members)


def shape(value: Any) -> Any:
    """Return *value* with long texts and rows of numbers as short as they may be."""
    if isinstance(value, str):
        return value[:120]
    if isinstance(value, dict):
        return {name[:120]: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        is_row = len(value) > 30 and all(isinstance(each, float) for each in value)
        return "row" if is_row else [shape(each) for each in value]
    return value
