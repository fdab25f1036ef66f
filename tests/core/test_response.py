"""Whatever a provider reports is known, however its body is cut or encoded."""

from __future__ import annotations

import copy
import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import frames
from tests.core.codings.encoders import ENCODERS, zstandard
from tests.recorded import NEEDS_RECORDINGS, Recording, recordings
from tests.wire import USAGE_EVENT, delta
from tokenweir.core.content_coding import MAX_DECODED_BYTES
from tokenweir.core.dialects import by_route, dialect_of
from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.dialects.bedrock import Bedrock
from tokenweir.core.response import ResponseReader
from tokenweir.core.usage import TokenUsage

CHAT = by_route("chat_completions")
MESSAGES = by_route("messages")
GEMINI = by_route("generate_content")
SSE, JSON = "text/event-stream", "application/json"

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
KNOWN = TokenUsage(input_tokens=11, output_tokens=7)
REPLY = json.dumps(
    {
        "model": "gpt-4o",
        "choices": [{"message": {"content": "你好 ✅ é"}, "finish_reason": "stop"}],
        "usage": USAGE,
    },
    ensure_ascii=False,
).encode()
ARRAY = json.dumps(
    [
        {"candidates": [{"content": {"parts": [{"text": "你好 ✅ é"}]}}]},
        {
            "candidates": [{"finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7},
        },
    ],
    ensure_ascii=False,
).encode()
ANTHROPIC_STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"model":"claude-x",'
    b'"usage":{"input_tokens":9,"cache_read_input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta",'
    b'"delta":{"type":"text_delta","text":"hi"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta",'
    b'"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":16}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def stream(*events: dict[str, Any] | bytes, end: bytes = b"\n") -> bytes:
    """Return a stream of *events*; bytes are put in as they are."""
    lines = [
        event
        if isinstance(event, bytes)
        else b"data: " + json.dumps(event, ensure_ascii=False).encode() + end + end
        for event in events
    ]
    return b"".join(lines)


def text(content: str) -> dict[str, Any]:
    """Return an event that carries *content*."""
    return {"choices": [{"index": 0, "delta": {"content": content}}]}


PLAIN_STREAM = stream(
    b": keep-alive\n\n",
    text("你好 ✅ é"),
    text("\u2028\x85!"),
    b"retry: 3000\n\nid: 7\n\nevent: ping\n\ndata:\n\n",
    b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USAGE},
    b"data: [DONE]\n\n",
)


def facts_of(
    *chunks: bytes,
    dialect: Dialect = CHAT,
    content_type: str = SSE,
    content_encoding: str = "",
    status: int = 200,
) -> ResponseFacts:
    """Return what is known after a body that came as *chunks*."""
    reader = ResponseReader(
        dialect,
        status=status,
        content_type=content_type,
        content_encoding=content_encoding,
    )
    for chunk in chunks:
        reader.feed(chunk)
    reader.end()
    return reader.facts


def in_pieces(body: bytes, size_bytes: int) -> Iterable[bytes]:
    """Return *body* in pieces of one size."""
    return (body[at : at + size_bytes] for at in range(0, len(body), size_bytes))


def raw_deflate(body: bytes) -> bytes:
    """Return *body* as a bare deflate stream."""
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(body) + encoder.flush()


BODIES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "lf": (PLAIN_STREAM, {}),
    "crlf": (PLAIN_STREAM.replace(b"\n", b"\r\n"), {}),
    "cr": (PLAIN_STREAM.replace(b"\n", b"\r"), {}),
    "mixed": (PLAIN_STREAM.replace(b"\n\n", b"\n\r\n"), {}),
    "unspaced": (PLAIN_STREAM.replace(b"data: ", b"data:"), {}),
    "two spaces": (PLAIN_STREAM.replace(b"data: ", b"data:  "), {}),
    "byte-order mark": (b"\xef\xbb\xbf" + PLAIN_STREAM, {}),
    "gzip": (gzip.compress(PLAIN_STREAM), {"content_encoding": "gzip"}),
    "gzip unlabelled": (gzip.compress(PLAIN_STREAM), {}),
    "two members": (
        gzip.compress(PLAIN_STREAM[:99]) + gzip.compress(PLAIN_STREAM[99:]),
        {"content_encoding": "gzip"},
    ),
    "zlib": (zlib.compress(PLAIN_STREAM), {"content_encoding": "deflate"}),
    "raw": (raw_deflate(PLAIN_STREAM), {"content_encoding": "deflate"}),
    "crlf in br": (
        brotli.compress(PLAIN_STREAM.replace(b"\n", b"\r\n")),
        {"content_encoding": "br"},
    ),
    "cr in zstd": (
        zstandard(PLAIN_STREAM.replace(b"\n", b"\r")),
        {"content_encoding": "zstd"},
    ),
    "gzip in br": (
        brotli.compress(gzip.compress(PLAIN_STREAM)),
        {"content_encoding": "gzip, br"},
    ),
    "json zstd": (
        zstandard(REPLY),
        {"content_type": JSON, "content_encoding": "zstd"},
    ),
    "messages": (ANTHROPIC_STREAM, {"dialect": MESSAGES}),
    "json": (REPLY, {"content_type": JSON}),
    "array": (ARRAY, {"content_type": JSON, "dialect": GEMINI}),
    "json gzip": (
        gzip.compress(REPLY),
        {"content_type": JSON, "content_encoding": "gzip"},
    ),
}
REPORTED = {
    "messages": TokenUsage(input_tokens=9, cached_input_tokens=1, output_tokens=16)
}


@pytest.mark.parametrize("name", BODIES)
def test_every_cut(name: str) -> None:
    """However a body is cut, what is known of it is the same, and it's what it says."""
    body, head = BODIES[name]
    whole = facts_of(body, **head)
    assert whole.usage == REPORTED.get(name, KNOWN)
    assert whole.usage_final
    assert whole.finished
    assert not whole.unreadable

    assert facts_of(*in_pieces(body, 1), **head) == whole
    for place in range(1, len(body)):
        assert facts_of(body[:place], body[place:], **head) == whole


@given(st.sampled_from([*BODIES]), st.sets(st.integers(0, 2_000), max_size=20))
def test_any_cut(name: str, places: set[int]) -> None:
    """Many cuts change as little as one."""
    body, head = BODIES[name]
    edges = sorted({0, len(body), *(place % len(body) for place in places)})

    cut = facts_of(*(body[a:b] for a, b in pairwise(edges)), **head)
    assert cut == facts_of(body, **head)


def test_text_of_a_cut_stream() -> None:
    """Text that was cut in its characters is whole, and bytes that are broken show."""
    facts = facts_of(*in_pieces(PLAIN_STREAM, 1))

    assert facts.texts == ["你好 ✅ é", "\u2028\x85!", "\ufffd"]
    assert facts.text_bytes == sum(len(piece.encode()) for piece in facts.texts)
    assert facts.deltas == 3


READABLE = [
    pytest.param(recording, id=recording.name)
    for recording in recordings()
    if dialect_of(recording.path)
]


def reported(recording: Recording) -> dict[str, int]:
    """Return the last figures in a recorded body, found without any parser of ours."""
    figures: dict[str, int] = {}
    for line in recording.response.decode().replace("data:", "\n").split("\n\n"):
        for candidate in (line, recording.response.decode()):
            try:
                data = json.loads(candidate)
            except ValueError:
                continue
            for holder in (data, *map(data.get, ("message", "response"))):
                figures |= {
                    name: value
                    for name, value in ((holder or {}).get("usage") or {}).items()
                    if isinstance(value, int)
                }
    return figures


@NEEDS_RECORDINGS
@pytest.mark.parametrize("recording", READABLE)
def test_recorded_usage(recording: Recording) -> None:
    """What a real provider reported is what is known."""
    dialect = dialect_of(recording.path)
    assert dialect is not None
    facts = facts_of(
        recording.response,
        dialect=dialect,
        content_type=recording.content_type,
        status=recording.status,
    )
    figures = reported(recording)
    usage = facts.usage or TokenUsage()

    if dialect.name != "anthropic":
        into = figures.get("prompt_tokens", figures.get("input_tokens", 0))
        out_of = figures.get("completion_tokens", figures.get("output_tokens", 0))
        assert usage.total_input_tokens == into
        assert usage.total_output_tokens == out_of
    else:
        assert usage.input_tokens == figures["input_tokens"]
        assert usage.cached_input_tokens == figures.get("cache_read_input_tokens", 0)
        assert usage.cache_write_tokens == figures.get("cache_creation_input_tokens", 0)
        assert usage.total_output_tokens == figures["output_tokens"]
    # Older models of sound report seconds, which are no tokens.
    assert facts.usage_final == bool(figures.keys() - {"seconds"})
    assert facts.finished == (recording.status == 200)
    assert (facts.error is None) == (recording.status == 200)
    assert not facts.unreadable


@NEEDS_RECORDINGS
@pytest.mark.parametrize("recording", READABLE)
def test_recorded_bodies_at_every_cut(recording: Recording) -> None:
    """However a recorded body is cut, what is known of it is the same."""
    dialect = dialect_of(recording.path)
    assert dialect is not None
    body = recording.response
    head: dict[str, Any] = {"dialect": dialect, "content_type": recording.content_type}
    whole = facts_of(body, **head)

    assert facts_of(*in_pieces(body, 1), **head) == whole
    for place in range(1, len(body)):
        assert facts_of(body[:place], body[place:], **head) == whole


@NEEDS_RECORDINGS
@pytest.mark.parametrize("recording", READABLE)
def test_recorded_bodies_under_codings(recording: Recording) -> None:
    """What is known of a body does not depend on its coding, nor on where it is cut."""
    dialect = dialect_of(recording.path)
    assert dialect is not None
    plain, places = recording.response, random.Random(len(recording.response))
    head: dict[str, Any] = {"dialect": dialect, "content_type": recording.content_type}
    expected = facts_of(plain, **head)

    for header, encode in ENCODERS.values():
        body = encode(plain)
        edges = sorted({0, len(body), *(places.randrange(len(body)) for _ in range(9))})
        pieces = [body[a:b] for a, b in pairwise(edges)]
        assert facts_of(*pieces, content_encoding=header, **head) == expected


@NEEDS_RECORDINGS
def test_there_are_recordings() -> None:
    """The recordings are found, those of both dialects, streams and JSON."""
    assert len(READABLE) >= 25


@pytest.mark.parametrize("content_encoding", ["snappy", "gzip, x", "br", "zstd"])
def test_unknown_coding(content_encoding: str) -> None:
    """What can't be decoded is unreadable, not an answer without tokens (T20)."""
    facts = facts_of(PLAIN_STREAM, content_encoding=content_encoding)

    assert facts == ResponseFacts(unreadable=True)


def test_broken_coding() -> None:
    """What was read before a coding broke is known, and said to be doubtful."""
    encoder = zlib.compressobj(wbits=31)
    body = encoder.compress(PLAIN_STREAM) + encoder.flush(zlib.Z_SYNC_FLUSH)
    facts = facts_of(body, b"\xff" * 100, content_encoding="gzip")

    assert facts.usage == KNOWN
    assert facts.unreadable


@pytest.mark.parametrize(
    ("content_type", "body", "readable"),
    [
        ("text/event-stream; charset=utf-8", PLAIN_STREAM, True),
        ("TEXT/Event-Stream", PLAIN_STREAM, True),
        ("text/event-stream", REPLY, True),
        ("text/event-stream", b"\n\n" + PLAIN_STREAM, True),
        ("text/event-stream", b"comment-ish\n\n" + PLAIN_STREAM, True),
        ("text/event-stream", b"data:{}\n", True),
        ("application/json; charset=utf-8", REPLY, True),
        ("application/json", b" \r\n\t" + REPLY, True),
        ("application/json", b"\xef\xbb\xbf " + REPLY, True),
        ("application/json", PLAIN_STREAM, True),
        ("application/problem+json", b'{"error":{}}', True),
        ("application/problem+json", b'{"a":1}', False),
        ("", REPLY, True),
        ("", PLAIN_STREAM, True),
        ("text/plain", b"\n\n" + REPLY, True),
        ("application/octet-stream", b": hello\n\n" + PLAIN_STREAM, True),
        ("text/plain", b"event: x\n\n" + PLAIN_STREAM, True),
        ("application/json", b"[1,2]", False),
        ("application/json", b"x", False),
        ("text/json", b"Bad Gateway", False),
        ("text/html", b"<html>" + REPLY, False),
        ("", b"Bad Gateway, sorry", False),
        ("audio/mpeg", b"ID3\x04\x00" * 10, False),
        ("text/plain", b"\xef\xbb\xbf" + b"\n" * 1_000, False),
    ],
)
def test_what_a_body_is(content_type: str, body: bytes, readable: bool) -> None:
    """What a body begins with tells what it is, and its label only otherwise."""
    for chunks in ([body], in_pieces(body, 1), in_pieces(body, 3)):
        facts = facts_of(*chunks, content_type=content_type)

        assert facts.unreadable is not readable
        assert (facts.usage == KNOWN) is (b"usage" in body and readable)
        assert ("你好 ✅ é" in facts.texts) is (facts.usage is not None)


FRAMED = (
    frames.event("contentBlockDelta", {"delta": {"text": "Hello."}})
    + frames.event("messageStop", {"stopReason": "end_turn"})
    + frames.event("metadata", {"usage": {"inputTokens": 11, "outputTokens": 7}})
)
CHARGED = TokenUsage(input_tokens=11, output_tokens=7)


@pytest.mark.parametrize(
    "content_type", ["application/vnd.amazon.eventstream", "text/event-stream", ""]
)
@pytest.mark.parametrize("size", [1, 5, 12, 13, len(FRAMED)])
def test_frames(content_type: str, size: int) -> None:
    """Frames are told by their first length, whatever they are called."""
    chunks = in_pieces(FRAMED, size)
    facts = facts_of(*chunks, dialect=Bedrock(), content_type=content_type)

    assert (facts.usage, facts.texts) == (CHARGED, ["Hello."])
    assert not facts.unreadable


@pytest.mark.parametrize("body", [b"\0\0\0", b"\0" * 40, b"no frame"])
def test_frames_that_are_none(body: bytes) -> None:
    """What is called a stream of frames and is none can't be read, or says nothing."""
    label = "application/vnd.amazon.eventstream"
    facts = facts_of(body, dialect=Bedrock(), content_type=label)

    assert facts.usage is None
    assert facts.unreadable is (len(body) >= 12)
    assert facts_of(body + FRAMED, dialect=Bedrock(), content_type="").unreadable


def test_an_error_in_place_of_frames() -> None:
    """An error is JSON, though a stream was asked for."""
    label = "application/vnd.amazon.eventstream"
    body = b'{"message": "Too many requests"}'
    facts = facts_of(body, dialect=Bedrock(), content_type=label, status=429)

    assert facts.error == "error"


def test_blanks_without_end() -> None:
    """Blanks are no body, and are not kept to be searched again."""
    reader = ResponseReader(CHAT, status=200, content_type=JSON, content_encoding="")
    for _ in range(1_000):
        reader.feed(b"\n" * 1_000)
    reader.end()

    assert reader._head == b""
    assert reader.facts == ResponseFacts()


def test_blanks_behind_a_byte_order_mark() -> None:
    """Blanks behind a byte-order mark are not kept for ever, either."""
    reader = ResponseReader(CHAT, status=200, content_type=JSON, content_encoding="")
    reader.feed(b"\xef\xbb\xbf" + b"\n" * 100)

    assert reader._head == b""


def test_empty_body() -> None:
    """A body without a byte says nothing."""
    assert facts_of() == ResponseFacts()
    assert facts_of(b"", b"") == ResponseFacts()
    assert facts_of(b"", content_encoding="br") == ResponseFacts()
    assert facts_of(content_encoding="x") == ResponseFacts()


@pytest.mark.parametrize(("header", "encode"), ENCODERS.values(), ids=ENCODERS)
def test_an_end_before_anything_is_decoded(
    header: str, encode: Callable[[bytes], bytes]
) -> None:
    """What was cut off before any of it could be read is no empty body."""
    assert facts_of(encode(REPLY)[:3], content_encoding=header).unreadable


@pytest.mark.parametrize("content_encoding", ["", "zstd", "x"])
def test_what_is_above_the_limit(content_encoding: str) -> None:
    """It is told apart from what is only broken."""
    body = zstandard(b" " * (MAX_DECODED_BYTES + 1))
    reader = ResponseReader(
        CHAT, status=200, content_type=JSON, content_encoding=content_encoding
    )
    reader.feed(body)
    reader.end()

    assert reader.exceeded is (content_encoding == "zstd")
    assert reader.facts.unreadable


def test_end_counts_once() -> None:
    """To say twice that a body is over changes nothing."""
    reader = ResponseReader(CHAT, status=200, content_type=JSON, content_encoding="")
    reader.feed(REPLY)
    reader.end()
    once = copy.deepcopy(reader.facts)
    reader.end()

    assert reader.facts == once
    assert once.texts == ["你好 ✅ é"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"type":"server_error","code":"overloaded"}}', "overloaded"),
        (b'{"detail":"not found"}', "error"),
        (b"<html>Bad Gateway</html>", "error"),
        (b"", "error"),
    ],
)
def test_error_status(body: bytes, error: str) -> None:
    """An error status is an error, of the type that the body tells if it does."""
    assert facts_of(body, content_type=JSON, status=502).error == error


@pytest.mark.parametrize(
    ("events", "texts", "usage"),
    [
        ([{"error": {"type": "server_error"}}], [], None),
        ([text("a"), {"error": {"type": "server_error"}}], ["a"], None),
        (
            [text("a"), {"usage": USAGE}, {"error": {"type": "server_error"}}],
            ["a"],
            KNOWN,
        ),
    ],
)
def test_error_in_a_stream(
    events: list[dict[str, Any] | bytes], texts: list[str], usage: TokenUsage | None
) -> None:
    """An error in a stream leaves known what came before it (T27)."""
    facts = facts_of(stream(*events, b"data: [DONE]\n\n"))

    assert (facts.error, facts.texts, facts.usage) == ("server_error", texts, usage)
    assert not facts.finished


@pytest.mark.parametrize(
    "ending",
    [
        b"",
        b"data: [DONE]\n\n" * 2,
        b'data: [DONE]\n\ndata: {"choices":[]}\n\n',
        b"data:[DONE]\n\n",
        b"data: [DONE]",
        b"\n\n\n",
    ],
)
def test_endings(ending: bytes) -> None:
    """The end of the stream is the end, whatever stands there (T26)."""
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE}
    facts = facts_of(stream(text("a"), last) + ending)

    assert (facts.usage, facts.usage_final, facts.finished) == (KNOWN, True, True)


def test_usage_after_the_end() -> None:
    """Usage that comes after [DONE] counts (T26)."""
    assert (
        facts_of(stream(text("a"), b"data: [DONE]\n\n", {"usage": USAGE})).usage
        == KNOWN
    )


def test_running_totals() -> None:
    """Totals that come with every event are right wherever the stream is cut (T14)."""
    events = [
        text("a") | {"usage": {"prompt_tokens": 6_179, "completion_tokens": k}}
        for k in range(1, 223)
    ]
    reader = ResponseReader(CHAT, status=200, content_type=SSE, content_encoding="")
    for k, event in enumerate(events, start=1):
        reader.feed(stream(event))

        assert reader.facts.usage == TokenUsage(input_tokens=6_179, output_tokens=k)
        assert reader.facts.usage_final


def test_flood_of_text_is_bounded() -> None:
    """Of a long answer the beginning is kept, and all of it is measured."""
    event = stream(text("word " * 1_000))
    facts = facts_of(*[event] * 200)

    assert facts.text_bytes == 1_000_000
    assert sum(map(len, facts.texts)) == 256 * 1024
    assert facts.deltas == 200


JUNK = st.binary(max_size=40) | st.sampled_from(
    [
        b"data: ",
        b"\n\n",
        b'{"choices":[{"delta":',
        b"null",
        b"}]}",
        b'{"usage":{',
        b"\x1f\x8b",
    ]
)


@given(
    st.lists(JUNK, max_size=8),
    st.sampled_from([SSE, JSON, "", "text/html"]),
    st.sampled_from(["", "gzip", "deflate", "br", "zstd", "gzip, br"]),
    st.sampled_from([CHAT, MESSAGES]),
)
def test_nothing_raises(
    chunks: list[bytes], content_type: str, content_encoding: str, dialect: Dialect
) -> None:
    """No bytes whatever make reading a response raise."""
    facts_of(
        *chunks,
        content_type=content_type,
        content_encoding=content_encoding,
        dialect=dialect,
    )


@given(st.integers(0, len(PLAIN_STREAM) - 1), st.binary(min_size=1, max_size=3))
def test_mutated_stream(place: int, junk: bytes) -> None:
    """A few wrong bytes raise nothing, and never make figures up."""
    body = PLAIN_STREAM[:place] + junk + PLAIN_STREAM[place + len(junk) :]
    usage = facts_of(body).usage

    assert usage is None or min(usage.by_class().values(), default=0) >= 0


def test_much_is_read_in_steps() -> None:
    """A chunk that holds much is read step by step, by empty chunks."""
    reader = ResponseReader(CHAT, status=200, content_type=SSE, content_encoding="gzip")
    reader.feed(gzip.compress(stream(text("a")) * 5_000))
    first = reader.facts.deltas
    steps = 1
    while reader.behind:
        reader.feed(b"")
        steps += 1

    assert 0 < first < 1_000
    assert steps > 5
    assert reader.facts.deltas == 5_000


@pytest.mark.parametrize("chunk", [b"", stream(text("a")), stream(text("a")) * 40])
def test_little_is_read_at_once(chunk: bytes) -> None:
    """What a provider sends at a time is one step."""
    reader = ResponseReader(CHAT, status=200, content_type=SSE, content_encoding="")
    reader.feed(chunk)

    assert not reader.behind
    assert reader.facts.deltas == chunk.count(b"delta")


@pytest.mark.parametrize("last", [stream(text("b")), b""])
def test_whoever_does_not_ask_has_it_read_all_the_same(last: bytes) -> None:
    """What is left is read with the next chunk, or at the end: nothing is lost."""
    reader = ResponseReader(CHAT, status=200, content_type=SSE, content_encoding="")
    reader.feed(stream(text("a")) * 5_000)
    behind = reader.behind
    if last:
        reader.feed(last)
    reader.end()

    assert behind
    assert not reader.behind
    assert reader.facts.deltas == 5_000 + bool(last)


def test_a_step_that_breaks_ends_its_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bug of ours the rest of its chunk is not waited for."""
    reader = ResponseReader(CHAT, status=200, content_type=SSE, content_encoding="")
    with monkeypatch.context() as patch:
        patch.setattr(type(CHAT), "read_event", None)
        with pytest.raises(TypeError):
            reader.feed(stream(text("a")) * 5_000)
    reader.feed(b"")

    assert not reader.behind


def test_what_can_not_be_fed() -> None:
    """It had as much text as before, and whatever was reported is out of date."""
    reader = ResponseReader(
        by_route("chat_completions"),
        status=200,
        content_type="text/event-stream",
        content_encoding="",
    )
    reader.feed(delta("Hello"))
    reader.feed(USAGE_EVENT)
    fed = len(delta("Hello")) + len(USAGE_EVENT)
    reader.skip(fed)

    assert reader.facts.text_bytes == 10
    assert not reader.facts.usage_final
    assert not reader.facts.unreadable


def test_nothing_can_be_fed() -> None:
    """Then nothing of it can be read."""
    reader = ResponseReader(
        by_route("chat_completions"),
        status=200,
        content_type="text/event-stream",
        content_encoding="",
    )
    reader.skip(9)
    reader.end()

    assert reader.facts.unreadable


def test_nothing_of_an_encoded_body_can_be_fed() -> None:
    """It is as unreadable as any other."""
    reader = ResponseReader(
        by_route("chat_completions"),
        status=200,
        content_type="text/event-stream",
        content_encoding="br",
    )
    reader.skip(9)
    reader.end()

    assert reader.facts.unreadable
