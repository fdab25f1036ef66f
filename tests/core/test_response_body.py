"""Each kind of body is read when it can be, and kept within its cap till then."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tokenweir.core import response_body
from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.response_body import (
    MAX_JSON_BYTES,
    TAIL_BYTES,
    Body,
    EventBody,
    JsonBody,
    UnknownBody,
)
from tokenweir.core.usage import TokenUsage

CHAT = by_route("chat_completions")
USAGE = b'"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}'
KNOWN = TokenUsage(input_tokens=11, output_tokens=7)


def read(body: Body, piece: bytes) -> int:
    """Have *body* read *piece*; return the number of its steps."""
    return 1 + sum(1 for _ in body.feed(piece))


def json_facts(*pieces: bytes) -> ResponseFacts:
    """Return what is known after a JSON body."""
    facts = ResponseFacts()
    body = JsonBody(CHAT, facts)
    for piece in pieces:
        body.feed(piece)
    body.end()
    return facts


def event_facts(*pieces: bytes, route: str = "chat_completions") -> ResponseFacts:
    """Return what is known after an event stream."""
    facts = ResponseFacts()
    body = EventBody(by_route(route), facts)
    for piece in pieces:
        read(body, piece)
    body.end()
    return facts


def large(rest: bytes, size_bytes: int = MAX_JSON_BYTES + 1) -> list[bytes]:
    """Return a reply above the cap that ends in *rest*, in pieces of 16 KiB."""
    start = b'{"choices":[{"message":{"content":"'
    filling = b"x" * (size_bytes - len(start) - len(rest))
    reply = start + filling + rest
    return [reply[at : at + 16_384] for at in range(0, len(reply), 16_384)]


def test_events_are_read_as_they_come() -> None:
    """What an event says is known before the next one comes."""
    facts = ResponseFacts()
    body = EventBody(CHAT, facts)
    read(body, b'data: {"choices":[{"delta":{"content":"a"}}]}\n')
    before = facts.texts.copy()
    read(body, b"\ndata: {")

    assert before == []
    assert facts.texts == ["a"]


def test_last_event_without_an_empty_line() -> None:
    """A stream may end with its usage and no empty line (T26)."""
    facts = event_facts(b"data: {" + USAGE + b"}")

    assert facts.usage == KNOWN
    assert facts.usage_final


def test_half_an_event_says_nothing() -> None:
    """The event that a stream was cut in makes nothing doubtful."""
    facts = event_facts(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"cho')

    assert facts.texts == ["a"]
    assert not facts.unreadable


def test_broken_event_stays_doubtful() -> None:
    """An event that was whole and could not be read is not forgotten at the end."""
    assert event_facts(b"data: {broken\n\n").unreadable


TITAN = b'data: {"outputText":"hello"}\n\n'
LLAMA = b'data: {"generation":"hello","stop_reason":null}\n\n'
DONE = b"data: [DONE]\n\n"
ROUTES = (
    "chat_completions",
    "completions",
    "responses",
    "messages",
    "generate_content",
)


@pytest.mark.parametrize("route", [*ROUTES, "transcriptions"])
@pytest.mark.parametrize("end", [b"", DONE])
@pytest.mark.parametrize("event", [TITAN, LLAMA, b"data: hello\n\n"])
def test_events_of_another_kind(route: str, end: bytes, event: bytes) -> None:
    """A stream of which nothing is understood is no empty answer, ended or not."""
    facts = event_facts(*[event] * 50, end, route=route)

    assert facts.unreadable
    assert (facts.usage, facts.text_bytes) == (None, 0)


@pytest.mark.parametrize(
    ("route", "event"),
    [
        ("chat_completions", '{"choices":[{"delta":{"words":"hello"}}]}'),
        ("chat_completions", '{"choices":[{"delta":{"content":{"is":"hello"}}}]}'),
        ("chat_completions", '{"choices":[{"delta":{},"words":["hello"]}]}'),
        ("responses", '{"type":"response.output_text.delta","delta":{"is":"hello"}}'),
        ("responses", '{"type":"text","words":"hello"}'),
        ("messages", '{"type":"text","words":"hello"}'),
        ("generate_content", '{"candidates":[{"content":{"parts":[{"is":"hello"}]}}]}'),
        ("generate_content", '{"candidates":[{"words":"hello"}]}'),
    ],
)
def test_members_of_another_kind(route: str, event: str) -> None:
    """Nor is one whose events are known, and where the text is in them is not."""
    assert event_facts(b"data: " + event.encode() + b"\n\n", route=route).unreadable


@pytest.mark.parametrize("known", [b'"choices":[{"delta":{"content":"a"}}]', USAGE])
def test_events_of_another_kind_between(known: bytes) -> None:
    """What is understood tells enough: gateways have events of their own beside it."""
    facts = event_facts(TITAN, b"data: {" + known + b"}\n\n", TITAN)

    assert not facts.unreadable


@pytest.mark.parametrize(
    ("route", "event"),
    [
        ("chat_completions", ""),
        ("chat_completions", "{}"),
        ("chat_completions", "[DONE]"),
        ("chat_completions", "[DO"),
        ("chat_completions", '{"type":"ping","at":"noon"}'),
        ("chat_completions", '{"id":"a","choices":[{"delta":{"role":"assistant"}}]}'),
        ("chat_completions", '{"choices":[{"delta":{},"finish_reason":"stop"}]}'),
        ("chat_completions", '{"choices":[],"prompt_filter_results":[{"index":0}]}'),
        ("completions", '{"choices":[{"text":"","logprobs":null,"index":0}]}'),
        ("responses", '{"type":"response.created","response":{"id":"a","output":[]}}'),
        ("responses", '{"type":"response.in_progress","response":{"id":"a"}}'),
        ("responses", '{"type":"keepalive","sequence_number":3}'),
        ("responses", '{"type":"response.content_part.added","part":{"text":""}}'),
        ("messages", '{"type":"ping"}'),
        ("messages", '{"type":"content_block_stop","index":0}'),
        ("messages", '{"type":"message_start","message":{"id":"a","content":[]}}'),
        ("generate_content", '{"candidates":[{"content":{"role":"model"}}]}'),
        ("generate_content", '{"responseId":"a","modelVersion":"m"}'),
        ("generate_content", '{"candidates":[{"content":{"parts":[{"text":""}]}}]}'),
        ("transcriptions", '{"type":"speech.audio.delta","audio":"aaaa"}'),
    ],
)
def test_events_that_say_nothing(route: str, event: str) -> None:
    """What begins or ends, or keeps a connection alive, is understood: it is nothing."""
    stream = b": alive\n\ndata: " + event.encode() + b"\n\n"

    assert not event_facts(*[stream] * 3, route=route).unreadable


def test_event_above_the_cap() -> None:
    """An event that is too long is lost, which is said; the rest is read (S09)."""
    pieces = [b"x" * 65_536] * 20
    facts = event_facts(b"data: ", *pieces, b"\n\ndata: {" + USAGE + b"}\n\n")

    assert facts.unreadable
    assert facts.usage == KNOWN


DELTA = b'data: {"choices":[{"delta":{"content":"abcd"}}]}\n\n'


@pytest.mark.parametrize(
    ("piece", "least", "most"),
    [
        (DELTA, 1, 1),
        (DELTA * 60, 1, 1),
        (b"data: " + b"x" * 500_000, 1, 1),
        (b"\n" * 65_536, 1, 4),
        (b"data: x\n\n" * 10_000, 40, 160),
        (b": x\n" * 10_000, 20, 80),
        ((b"data: " + b"x" * 4_000 + b"\n\n") * 100, 20, 40),
    ],
    ids=["one", "some", "a long line", "empty", "tiny", "comments", "large"],
)
def test_events_are_read_in_steps(piece: bytes, least: int, most: int) -> None:
    """What holds much work is read in steps; what a provider sends at once is one."""
    assert least <= read(EventBody(CHAT, ResponseFacts()), piece) <= most


def endless(*pieces: bytes, max_lines: int = 100) -> ResponseFacts:
    """Return what is known after a stream that is longer than *max_lines*."""
    facts = ResponseFacts()
    body = EventBody(CHAT, facts, max_lines=max_lines)
    for piece in pieces:
        read(body, piece)
    body.end()
    return facts


REPORT = b"data: {" + USAGE + b"}\n\n"


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n", b"data: {"])
@pytest.mark.parametrize("step", [50, 1_000, 1_000_000])
def test_usage_behind_a_long_stream(end: bytes, step: int) -> None:
    """Of a stream that is too long the end is read, however it was cut."""
    stream = DELTA * 20_000 + REPORT + end
    facts = endless(*(stream[at : at + step] for at in range(0, len(stream), step)))

    assert facts.usage == KNOWN
    assert facts.usage_final
    assert not facts.unreadable
    assert facts.deltas < 1_500


@pytest.mark.parametrize("rest", [b"", b"data: {", b"\n", b"data: " + b"x" * 100_000])
def test_long_stream_without_usage(rest: bytes) -> None:
    """The text that was skipped is taken to be as dense as what was read."""
    facts = endless(*[DELTA * 1_000] * 20, rest)
    generated_bytes = 4 * 20_000

    assert facts.unreadable
    assert not facts.usage_final
    assert 0.95 * generated_bytes < facts.text_bytes < 4 * generated_bytes
    assert sum(map(len, facts.texts)) < 10_000


def test_report_before_much_that_was_skipped() -> None:
    """A report covers no text that was skipped after it, nor is that an end."""
    facts = endless(DELTA, REPORT, b"data: [DONE]\n\n", *[DELTA * 1_000] * 20)

    assert facts.usage == KNOWN
    assert not facts.usage_final
    assert not facts.finished
    assert facts.unreadable


def test_stream_that_is_just_too_long() -> None:
    """If no byte was skipped, nothing is doubtful, also within an event."""
    stream = DELTA * 100 + REPORT
    facts = endless(*(stream[at : at + 7] for at in range(0, len(stream), 7)))

    assert facts.usage == KNOWN
    assert facts.usage_final
    assert facts.text_bytes == 400
    assert not facts.unreadable


def test_long_stream_of_few_lines() -> None:
    """Bytes are work, too: after so many of them the rest is skipped."""
    event = b"data: " + b"x" * 1_000 + b"\n\n"
    facts = endless(*[event] * 100, DELTA * 10_000)

    assert facts.deltas < 500
    assert facts.unreadable


def test_memory_of_an_endless_stream() -> None:
    """Of a stream that never ends no more is kept than its end."""
    body = EventBody(CHAT, ResponseFacts(), max_lines=10)
    piece = b"data: x\n\n" * 1_000
    tracemalloc.start()
    for _ in range(1_000):
        read(body, piece)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 200_000


@pytest.mark.parametrize("size_bytes", [1, 7, 1_000_000])
def test_json_is_read_at_its_end(size_bytes: int) -> None:
    """A JSON reply counts once it is whole, however it was cut (T05)."""
    reply = (
        b'{"data":[' + b'{"embedding":[0.125,-0.5]},' * 3_000 + b"{}]," + USAGE + b"}"
    )
    facts = json_facts(
        *(reply[at : at + size_bytes] for at in range(0, len(reply), size_bytes))
    )

    assert facts.usage == KNOWN
    assert not facts.unreadable


def test_nothing_before_the_end() -> None:
    """Half a JSON reply says nothing."""
    facts = ResponseFacts()
    JsonBody(CHAT, facts).feed(b"{" + USAGE)

    assert facts == ResponseFacts()


@pytest.mark.parametrize(
    "rest",
    [
        b'"}}],' + USAGE + b"}",
        b'"}}],' + USAGE + b"}\n\n",
        b'"}}], ' + USAGE.replace(b":{", b" :\n{") + b"}",
        b'"}}],' + USAGE + b',"service_tier":"default","x":{"usage":{"prompt_tokens":1}}}',
        b'","usage":{"prompt_tokens":1,"completion_tokens":1}}}],' + USAGE + b"}",
        rb'\"usage\":{\"prompt_tokens\":1}"}}],' + USAGE + b"}",
        b'","logprob":-Infinity}}],' + USAGE + b',"p":NaN}',
    ],
)  # fmt: skip
def test_usage_of_a_large_reply(rest: bytes) -> None:
    """Of a reply above the cap the usage of the outermost object is read."""
    facts = json_facts(*large(rest))

    assert facts.usage == KNOWN
    assert facts.usage_final
    assert facts.texts == []
    assert not facts.unreadable


@pytest.mark.parametrize(
    "rest",
    [
        b'"}}]}',
        b'"}}],"usage":null}',
        b'"}}],"usage":{}}',
        b'"}}],"usage":{"prompt_tokens":11}}',
        b'"}}],"usage":{"prompt_tokens":11,',
        b'","usage":{"prompt_tokens":1,"completion_tokens":1}}}]}',
        rb'"}}],"a\"usage":{"prompt_tokens":1,"completion_tokens":1}}',
        b'"}}],' + USAGE + b',"x":"' + b"x" * TAIL_BYTES + b'"}',
        b'"}}],"x":[' + b'{"usage":{}},' * 100 + b"{}]}",
    ],
)  # fmt: skip
def test_large_reply_without_usage(rest: bytes) -> None:
    """If there is no usage at the end of a large reply, it is unreadable."""
    facts = json_facts(*large(rest))

    assert facts.unreadable
    assert not facts.usage_final


def test_tries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the word occurs, so many places are tried and no more."""
    tries = []

    def count(text: bytes) -> None:
        tries.append(text)

    monkeypatch.setattr(response_body, "read_value", count)
    json_facts(*large(b'"}}],"x":[' + b'{"usage":{}},' * 5_000))

    assert len(tries) == 16


@pytest.mark.parametrize("over", [0, 1])
def test_size_of_a_whole_reply(over: int) -> None:
    """A reply of just the cap is read as a whole."""
    facts = json_facts(*large(b'"}}],' + USAGE + b"}", MAX_JSON_BYTES + over))

    assert facts.usage == KNOWN
    assert facts.deltas == 1 - over


@pytest.mark.parametrize(
    "deep", [b"[" * 5_000 + b"]" * 5_000, b"[" + b"{}," * 600_000 + b"{}]"]
)
def test_reply_that_is_too_much(deep: bytes) -> None:
    """Of a reply that is too deep, or holds too many values, usage is read (S04)."""
    facts = json_facts(b'{"x":' + deep + b"," + USAGE + b"}")

    assert facts.usage == KNOWN
    assert not facts.unreadable


@pytest.mark.parametrize("reply", [b"", b"[]", b'{"choices":', b"<html>"])
def test_unreadable_reply(reply: bytes) -> None:
    """What is no JSON object, or half of one, is unreadable."""
    assert json_facts(reply) == ResponseFacts(unreadable=True)


@pytest.mark.parametrize(
    "reply",
    [b"{}", b'{"result":"Once upon a time"}', b'{"choices":[[]],"usage":[7]}'],
)
def test_reply_of_another_kind(reply: bytes) -> None:
    """JSON that says nothing that a reply says is unreadable, not free."""
    facts = json_facts(reply)

    assert replace(facts, strange=False) == ResponseFacts(unreadable=True)


@pytest.mark.parametrize(
    "reply",
    [
        b'{"choices":[{"finish_reason":"stop"}]}',
        b'{"choices":[{"message":{"content":"a"}}]}',
        b'{"error":{"code":"overloaded"}}',
        b"{" + USAGE + b"}",
    ],
    ids=["end", "text", "error", "usage"],
)
def test_reply_that_says_something(reply: bytes) -> None:
    """An end, a text, an error or a report is enough for a reply."""
    assert not json_facts(reply).unreadable


def test_doubt_stays() -> None:
    """What was doubtful before is so afterwards: the end can't heal it."""
    facts = ResponseFacts(unreadable=True)
    body = JsonBody(CHAT, facts)
    body.feed(b'{"choices":[{"message":{"content":"a"}}],' + USAGE + b"}")
    body.end()

    assert facts.usage == KNOWN
    assert facts.texts == ["a"]
    assert facts.unreadable


def test_memory_of_an_endless_reply() -> None:
    """Of a reply that never ends no more is kept than the cap."""
    body = JsonBody(CHAT, ResponseFacts())
    piece = b"x" * 65_536
    tracemalloc.start()
    for _ in range(1_000):
        body.feed(piece)
    kept_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 2.5 * MAX_JSON_BYTES
    assert kept_bytes < MAX_JSON_BYTES


def test_unknown_body() -> None:
    """What is neither events nor JSON is unreadable, once there is some of it."""
    facts = ResponseFacts()
    body = UnknownBody(facts)
    body.end()
    before = facts.unreadable
    read(body, b"<html>")

    assert not before
    assert facts == ResponseFacts(unreadable=True)
