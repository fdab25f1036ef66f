"""
lua/watch.lua: what the governor told Envoy to do with a reply, under Envoy's LuaJIT and in
Envoy. What it writes down is tested in tests/envoyconf/test_excerpt_lua.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.envoyconf.client import request
from tests.envoyconf.gateway import Gateway, Setup, gateway
from tests.envoyconf.processor import Answer, Call, forward, let_pass
from tests.envoyconf.watched import NATIVE, STRIPPED, Watch, Watched
from tests.scripted_upstream import End, Hold, Pause, event_stream, head, reply
from tokenweir.core.events import Headers
from tokenweir.core.excerpt import Excerpt, read_excerpt
from tokenweir.core.headers import UPSTREAM_PREFIX, upstream_renames

WATCH = Watch()
POST = request(body=b'{"stream": true}')
SSE = ("content-type", "text/event-stream")
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"total_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
TELLS = "x-ratelimit-remaining-tokens"


def delta(text: str) -> bytes:
    """Return an event with *text*."""
    return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode()


STREAM = [delta(" a"), delta(" b"), delta(" c"), USAGE, DONE]


def units(excerpt: Excerpt) -> list[bytes]:
    """Return the bytes of what was kept."""
    return [unit.data for unit in excerpt.units]


# === under LuaJIT ===============================================================


@pytest.mark.parametrize(
    "told",
    [
        {"path": "inspect"},
        {"path": "observe"},
        {"path": "inspect", "strip_usage": True},
        {"path": "native", "unread": True},
        {"tenant": "t"},
        {},
    ],
)
def test_other_paths(told: dict[str, object]) -> None:
    """Where a processor reads the reply, or nobody, nothing is written down."""
    watched = WATCH.reply(STREAM, told=told)

    assert (watched.notes, watched.writes) == ({}, 0)


@pytest.mark.parametrize("status", [400, 429, 503])
def test_errors(status: int) -> None:
    """Of an error's body nothing is written down."""
    assert WATCH.reply([b"{}"], status=status).notes == {}


def test_the_head() -> None:
    """What tells how the body is to be read is there, as the provider sent it."""
    headers = [("content-length", str(len(b"".join(STREAM))))]
    watched = WATCH.reply(STREAM, told=STRIPPED, headers=headers)
    excerpt = read_excerpt(watched.notes)

    assert excerpt.content_length == headers[0][1]
    assert excerpt.content_encoding == ""
    assert excerpt.content_type == SSE[1]
    assert "content-length" not in dict(watched.headers)


@pytest.mark.parametrize("trailers", [True, False])
def test_what_is_taken_out_is_written_down(*, trailers: bool) -> None:
    """The app does not get the report, and whoever charges does."""
    watched = WATCH.reply(STREAM, told=STRIPPED, trailers=trailers)

    assert watched.body == b"".join(STREAM).replace(USAGE, b"")
    assert units(read_excerpt(watched.notes)) == STREAM


@pytest.mark.parametrize(
    "place",
    [
        "local function take(text)\n",
        "local function add(unit, lost)\n",
        "local function write_down(over)\n",
        "local function learn(old, new)\n",
        "local function excerpt_of(head, clock, write)\n",
        "local function close()\n",
        "local function raw_record(unit)\n",
    ],
)
@pytest.mark.parametrize("told", [NATIVE, STRIPPED])
def test_a_fault_costs_no_byte(place: str, told: Mapping[str, object]) -> None:
    """Whatever breaks, the app gets its answer, and what is known is said to be less."""
    broken = Watch((place, f"{place} do error('of a test') end\n"))
    pieces = [b"".join(STREAM)[at : at + 30] for at in range(0, 400, 30)]
    watched = broken.reply(pieces, told=told)

    stripped = b"".join(STREAM).replace(USAGE, b"")
    assert watched.body == (stripped if told is STRIPPED else b"".join(STREAM))
    assert read_excerpt(watched.notes).fault
    assert len(watched.errors) == 1
    assert "of a test" in watched.errors[0]


@pytest.mark.parametrize("size", [1, 7, 30, 500])
def test_a_fault_while_an_event_is_held(size: int) -> None:
    """What was held goes on, then all the rest as it is."""
    place = "  local function scan(data)\n"
    count = "local faulty = 0\nlocal function usage_only"
    broken = Watch(
        ("local function usage_only", count),
        (place, f"{place} faulty = faulty + 1 if faulty > 5 then error('x') end\n"),
    )
    pieces = [b"".join(STREAM)[at : at + size] for at in range(0, 400, size)]
    watched = broken.reply(pieces, told=STRIPPED)

    assert watched.body in (b"".join(STREAM), b"".join(STREAM).replace(USAGE, b""))
    assert units(read_excerpt(watched.notes)) == STREAM


def test_a_clock_that_breaks() -> None:
    """Nor does it cost the app anything if Envoy's own functions break."""
    broken = Watch(("tonumber(handle:timestampString(", "tonumber(handle:noSuchThing("))
    watched = broken.reply(STREAM, told=STRIPPED)

    assert watched.body == b"".join(STREAM).replace(USAGE, b"")
    assert read_excerpt(watched.notes).fault


# === headers ====================================================================


def replied(headers: Sequence[tuple[str, str]], **set_headers: str) -> Watched:
    """Return what comes of a reply with *headers*, where ours are to be set."""
    told = {"path": "native", "reply": {"set": set_headers}}
    return WATCH.reply([b"{}"], told=told, headers=headers, content_type="")


LIMITS: Headers = (
    ("x-ratelimit-limit-tokens", "100"),
    ("ratelimit", "a;r=1"),
    ("ratelimit", "b;r=2"),
    ("anthropic-ratelimit-tokens-limit", "7"),
    ("ratelimit-policy", ""),
    ("x-tokenweir-model", "spoof"),
    ("x-ratelimit-odd", " caf\xe9 \t "),
    ("x-ratelimit-long", "v" * 400),
    ("retry-after", "7"),
    ("x-request-id", "r"),
)


def test_a_providers_limits_move() -> None:
    """They are under another name, as on the other paths, and ours take their place."""
    watched = replied(LIMITS, **{TELLS: "5", "x-ratelimit-limit-tokens": "50"})

    changes = upstream_renames(LIMITS)
    kept = [pair for pair in LIMITS if pair[0] not in changes.remove_headers]
    ours = [(TELLS, "5"), ("x-ratelimit-limit-tokens", "50")]
    expected = [*kept, *changes.set_headers, *ours]
    assert sorted(watched.headers[1:]) == sorted(expected)
    assert watched.errors == []


NAMES = st.sampled_from(
    ["x-ratelimit-a", "ratelimit-a", "anthropic-ratelimit-a", "x-a"]
)
VALUES = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=9)


@given(st.lists(st.tuples(NAMES, VALUES | st.just("w" * 300)), max_size=12))
def test_any_limits_move(headers: list[tuple[str, str]]) -> None:
    """What moves, and where to, is the same as on the other paths."""
    changes = upstream_renames(tuple(headers))
    kept = [pair for pair in headers if pair[0] not in changes.remove_headers]

    moved = replied(headers).headers[1:]
    assert sorted(moved) == sorted([*kept, *changes.set_headers])


def test_many_limits() -> None:
    """Not more of them move than Envoy would take from a processor."""
    headers = [(f"x-ratelimit-{i}", "1") for i in range(90)]
    moved = dict(replied(headers).headers)

    assert dict(upstream_renames(tuple(headers)).set_headers).items() <= moved.items()
    assert len(moved) == 33


def test_headers_stay_where_none_are_told() -> None:
    """Where a processor sets headers itself, this filter does not."""
    watched = WATCH.reply([b"{}"], told=NATIVE, headers=[(TELLS, "9")])

    assert (TELLS, "9") in watched.headers


# === in Envoy ===================================================================


def tell(bootstrap: Any) -> None:
    """Have the access log say what is written down."""
    if isinstance(bootstrap, dict):
        if "json_format" in bootstrap:
            bootstrap["json_format"]["out"] = "%DYNAMIC_METADATA(tokenweir.out)%"
        for value in bootstrap.values():
            tell(value)
    if isinstance(bootstrap, list):
        for value in bootstrap:
            tell(value)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def telling_gateway() -> AsyncIterator[Gateway]:
    """Run a gateway whose log says what is written down."""
    async with gateway(Setup(adapt=tell)) as running:
        yield running


@pytest.fixture
def native(telling_gateway: Gateway) -> Gateway:
    """Return it, with a processor that has Envoy read replies."""
    telling_gateway.reset()
    return admitting(telling_gateway)


def admitting(
    gate: Gateway, provider: str = "up", path: str = "native", *, strip: bool = True
) -> Gateway:
    """Have its processor send everything to *provider*, with the reply on *path*."""
    told = {"path": path, "strip_usage": strip, "reply": {"set": {TELLS: "5"}}}

    async def admit(call: Call) -> Answer:
        way = {"x-tokenweir-path": path}
        return forward(call, provider, headers=way, metadata=told)

    gate.processor.admit = admit
    return gate


async def logged(gate: Gateway, count: int) -> tuple[dict[str, Any], Excerpt]:
    """Return the line of the request number *count*, and what was written down."""
    found = await asyncio.to_thread(gate.envoy.access_log, count)
    line = found[count - 1]
    return line, read_excerpt(line.get("out") or {})


def lines(gate: Gateway) -> int:
    """Return how many requests were logged so far."""
    return gate.envoy.output().count("\n")


async def test_a_clean_end(native: Gateway) -> None:
    """All of a stream is in the entry, and the report is not in the app's answer."""
    before = lines(native)
    native.upstream.play(*event_stream(STREAM, 0.002))
    answer = await native.ask(POST)
    line, excerpt = await logged(native, before + 1)

    assert (answer.body, answer.whole) == (b"".join(STREAM).replace(USAGE, b""), True)
    assert answer.header(TELLS) == "5"
    assert native.processor.of("response") == []
    assert (units(excerpt), excerpt.whole, excerpt.fault) == (STREAM, True, False)
    assert line["details"] == "via_upstream"


async def test_an_app_that_hangs_up(native: Gateway) -> None:
    """What had passed by then is in the entry, the report with it."""
    before = lines(native)
    native.upstream.play(*event_stream(STREAM)[:-1], End.STALL)
    async with await native.connect() as app:
        app.send(POST)
        await app.reader.readuntil(DONE)
    line, excerpt = await logged(native, before + 1)

    assert (units(excerpt), excerpt.whole) == (STREAM, False)
    assert line["flags"] == "DC"


async def test_a_provider_that_breaks_off(native: Gateway) -> None:
    """So it is if the provider resets its stream."""
    before = lines(native)
    native.upstream.play(*event_stream(STREAM[:2])[:-1], Pause(0.05), End.RESET)
    answer = await native.ask(POST)
    _, excerpt = await logged(native, before + 1)

    assert not answer.whole
    assert (units(excerpt), excerpt.whole) == (STREAM[:2], False)


async def test_headers_of_a_provider(native: Gateway) -> None:
    """Its limits move out of the way of ours, and it can't pass for this gateway."""
    before = lines(native)
    native.upstream.play(
        reply(b"{}", headers=[(TELLS, "9"), ("x-tokenweir-refusal", "spoof")])
    )
    answer = await native.ask(POST)
    await logged(native, before + 1)

    assert answer.header(TELLS) == "5"
    assert answer.header(UPSTREAM_PREFIX + "ratelimit-remaining-tokens") == "9"
    assert answer.header("x-tokenweir-refusal") is None
    assert answer.header(UPSTREAM_PREFIX + "tokenweir-refusal") == "spoof"


async def test_replies_of_envoys_own(native: Gateway) -> None:
    """They run through this filter, too, and keep what says why they were made."""
    before = lines(native)
    answer = await admitting(native, "dead").ask(POST)
    line, excerpt = await logged(native, before + 1)

    assert answer.status == 503
    assert answer.header("x-tokenweir-refusal") == "upstream_unavailable"
    assert answer.header(TELLS) == "5"
    assert (line["status"], excerpt) == (503, Excerpt())


async def test_a_refusal_after_a_spoof(native: Gateway) -> None:
    """A reply of Envoy's own is told from a provider's that was repeated before it."""
    before = lines(native)
    native.upstream.play(
        head(
            "503 No",
            headers=[("x-tokenweir-refusal", "spoof"), ("content-length", "0")],
        ),
        End.RESET,
    )
    answer = await native.ask(POST)
    await logged(native, before + 1)

    assert answer.header("x-tokenweir-refusal") != "spoof"


async def test_more_than_a_megabyte(native: Gateway) -> None:
    """A large reply keeps its length, flows at once, and its report is known."""
    usage = b'"usage":{"prompt_tokens":5,"total_tokens":5}}'
    data = b'{"data":[{"embedding":"' + b"A" * 3_000_000 + b'"}],' + usage
    before, rest = lines(native), asyncio.Event()
    native.upstream.play(
        head(headers=[("content-length", str(len(data)))]),
        data[:2_000_000],
        Hold(rest),
        data[2_000_000:],
    )
    async with await native.connect() as app:
        app.send(POST)
        begun = await app.reader.readuntil(b"A" * 1_000_000)
        rest.set()
        ended = await app.reader.readuntil(usage)
    line, excerpt = await logged(native, before + 1)

    assert (begun + ended).endswith(data)
    assert f"content-length: {len(data)}".encode() in begun
    assert line["status"] == 200
    [unit] = excerpt.units
    assert json.loads(unit.data)["usage"]["prompt_tokens"] == 5
    assert len(unit.data) < 10_000


async def test_a_filter_that_holds_headers(gate: Gateway) -> None:
    """
    Where a processor answers the head late, the app gets all of a stripped stream.

    The filter before the app is this one: what it writes into held headers is not sent.
    """

    async def late(call: Call, message: Any) -> Answer:
        if call.kinds()[-1] == "response_headers":
            await asyncio.sleep(0.1)
        return let_pass(message)

    gate.processor.watch = late
    admitting(gate, path="inspect")
    gate.upstream.play(reply(b"".join(STREAM), headers=[SSE]))
    answer = await gate.ask(POST)

    assert (answer.body, answer.whole) == (b"".join(STREAM).replace(USAGE, b""), True)
