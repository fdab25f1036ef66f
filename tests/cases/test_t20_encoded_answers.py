"""T20: an answer that is encoded, though none was asked for, is no free answer."""

from __future__ import annotations

import asyncio
import gzip
import sys
import zlib
from collections.abc import Callable, Sequence

import brotli
import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, WORDS, Api, both_apis, story
from tests.cases.app import Reply
from tests.cases.stage import Settled, Stage
from tests.core.codings.encoders import zstandard
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Hold,
    Pause,
    Step,
    chunk,
    cut,
    head,
    reply,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

GZIP, ZLIB, RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
Coding = Callable[[Sequence[bytes]], list[bytes]]


def deflated(window: int) -> Coding:
    """Return a coding that flushes after each piece, as servers of streams do."""

    def encode(pieces: Sequence[bytes]) -> list[bytes]:
        stream = zlib.compressobj(wbits=window)
        flushed = [
            stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH) for piece in pieces
        ]
        return [*flushed[:-1], flushed[-1] + stream.flush()]

    return encode


def members(pieces: Sequence[bytes]) -> list[bytes]:
    """Return a gzip member for each piece."""
    return [gzip.compress(piece) for piece in pieces]


def in_brotli(pieces: Sequence[bytes]) -> list[bytes]:
    """Return *pieces* in Brotli, flushed one by one."""
    stream = brotli.Compressor(quality=4)
    flushed = [stream.process(piece) + stream.flush() for piece in pieces]
    return [*flushed[:-1], flushed[-1] + stream.finish()]


def in_zstandard(pieces: Sequence[bytes]) -> list[bytes]:
    """Return *pieces* in one frame of Zstandard, flushed one by one."""
    stream = zstd.ZstdCompressor()
    flushed = [
        stream.compress(piece, stream.FLUSH_BLOCK if at else stream.CONTINUE)
        for at, piece in enumerate([b"", *pieces])
    ]
    return [*flushed[1:-1], flushed[-1] + stream.flush(stream.FLUSH_FRAME)]


def in_frames(pieces: Sequence[bytes]) -> list[bytes]:
    """Return a frame of Zstandard for each piece."""
    return [zstandard(piece) for piece in pieces]


def stacked(*codings: Coding) -> Coding:
    """Return a coding that applies *codings*, the first one first."""

    def encode(pieces: Sequence[bytes]) -> list[bytes]:
        encoded = list(pieces)
        for coding in codings:
            encoded = coding(encoded)
        return encoded

    return encode


def as_it_is(pieces: Sequence[bytes]) -> list[bytes]:
    """Return *pieces*."""
    return list(pieces)


# By header: one that can be read, and one that can't.
READ: dict[str, tuple[str, Coding]] = {
    "gzip": ("gzip", deflated(GZIP)),
    "x-gzip": ("x-gzip", deflated(GZIP)),
    "GZIP": ("GZIP", deflated(GZIP)),
    "identity, gzip": ("identity, gzip", deflated(GZIP)),
    "gzip in members": ("gzip", members),
    "deflate": ("deflate", deflated(ZLIB)),
    "bare deflate": ("deflate", deflated(RAW)),
    "gzip without its header": ("", deflated(GZIP)),
    "gzip called identity": ("identity", deflated(GZIP)),
    "identity": ("identity", as_it_is),
    "br": ("br", in_brotli),
    "zstd": ("zstd", in_zstandard),
    "zstd in frames": ("ZSTD", in_frames),
    "gzip, gzip": ("gzip, gzip", stacked(deflated(GZIP), deflated(GZIP))),
    "gzip, br": ("gzip, br", stacked(deflated(GZIP), in_brotli)),
    "br, zstd": ("br,zstd", stacked(in_brotli, in_zstandard)),
}
UNREAD: dict[str, tuple[str, Coding]] = {
    "unknown": ("snappy", as_it_is),
    "unknown over gzip": ("gzip, snappy", deflated(GZIP)),
    "called br": ("br", as_it_is),
    "called zstd": ("zstd", as_it_is),
    "called gzip, br": ("gzip, br", deflated(GZIP)),
    "called gzip": ("gzip", as_it_is),
    "called deflate": ("deflate", as_it_is),
}
read = pytest.mark.parametrize("coding", READ)
unread = pytest.mark.parametrize("coding", UNREAD)
ASKS = "accept-encoding: gzip, br, zstd"


async def encoded_reply(
    stage: Stage, api: Api, header: str, encoded: Sequence[bytes]
) -> tuple[Reply, Settled]:
    """Answer with JSON under the content-encoding *header*; check the app's bytes."""
    headers = [("content-type", "application/json")]
    headers += [("content-encoding", header)] if header else []
    body = b"".join(encoded)
    answer, settled = await stage.ask(
        api, [reply(body, headers=headers)], api.request(stream=False), ASKS
    )
    assert answer.body == body
    assert answer.headers.get("content-encoding", "") == header
    assert stage.upstream.requests[-1].header("accept-encoding") == "identity"
    return answer, settled


async def encoded_stream(
    stage: Stage, api: Api, header: str, encoded: Sequence[bytes], *, asked: bool = True
) -> Settled:
    """Answer with a stream under the content-encoding *header*; check its bytes."""
    headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
    headers += [("content-encoding", header)] if header else []
    steps: list[Step] = [head(headers=headers)]
    for piece in encoded:
        steps += [chunk(piece), Pause(0.002)]
    answer, settled = await stage.ask(
        api, [*steps, LAST_CHUNK], api.request(asked=asked), ASKS
    )
    assert answer.whole
    assert answer.body == b"".join(encoded)
    assert answer.headers.get("content-encoding", "") == header
    return settled


@both_apis
@read
async def test_t20_replies_that_can_be_read(
    stage: Stage, api: Api, coding: str
) -> None:
    """
    A copy is decoded, and settled as reported; the app gets what was sent.

    envoyproxy/ai-gateway#1189
    """
    header, encode = READ[coding]
    body = api.reply("".join(WORDS))
    pieces = encode(cut(body, len(body) // 2))

    _, settled = await encoded_reply(stage, api, header, pieces)

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@read
async def test_t20_streams_that_can_be_read(
    stage: Stage, api: Api, coding: str
) -> None:
    """
    A stream is decoded event by event. rossoctl/cortex#864, Kong/kong#14893
    """
    header, encode = READ[coding]

    settled = await encoded_stream(stage, api, header, encode(story(api)))

    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@pytest.mark.parametrize(
    "coding", ["gzip", "gzip without its header", "deflate", "br", "zstd", "gzip, br"]
)
async def test_t20_an_app_that_did_not_ask_gets_every_byte(
    stage: Stage, coding: str
) -> None:
    """
    Nothing is taken out of a body that is encoded. Kong/kong#14893
    """
    header, encode = READ[coding]

    settled = await encoded_stream(
        stage, OPENAI, header, encode(story(OPENAI)), asked=False
    )

    assert settled.usage == TOLD.usage


@both_apis
@unread
async def test_t20_replies_that_can_not_be_read(
    stage: Stage, api: Api, coding: str
) -> None:
    """
    An unknown or wrong coding means an estimate, never zero. envoyproxy/ai-gateway#1189
    """
    header, encode = UNREAD[coding]
    body = api.reply("".join(WORDS))

    _, settled = await encoded_reply(stage, api, header, encode([body]))

    owed_input, _ = await stage.owed(api, [])
    assert settled.source == "estimated"
    assert settled.usage.total_input_tokens == owed_input
    assert settled.usage.total_output_tokens >= len(WORDS)


@both_apis
@unread
async def test_t20_streams_that_can_not_be_read(
    stage: Stage, api: Api, coding: str
) -> None:
    """
    The same of streams: the app gets every byte, and pays by size. Kong/kong#14893
    """
    header, encode = UNREAD[coding]

    settled = await encoded_stream(stage, api, header, encode(story(api)))

    assert settled.source == "estimated"
    assert settled.usage.total_input_tokens > 0
    assert settled.usage.total_output_tokens >= len(WORDS)


@both_apis
@pytest.mark.parametrize(
    "coding", ["gzip", "gzip in members", "bare deflate", "br", "zstd", "gzip, br"]
)
async def test_t20_long_replies(stage: Stage, api: Api, coding: str) -> None:
    """
    What decodes to a hundred times its size is read to its end.

    envoyproxy/ai-gateway#1189
    """
    header, encode = READ[coding]
    body = api.reply("Once upon a time there was a weir. " * 30_000)  # 1 MB

    _, settled = await encoded_reply(stage, api, header, encode([body]))

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
async def test_t20_cut_anywhere(stage: Stage, api: Api) -> None:
    """
    An encoded stream may be cut like any other, byte by byte. rossoctl/cortex#864
    """
    for coding, step_bytes in (("gzip", 1), ("br", 5), ("zstd", 5)):
        header, encode = READ[coding]
        body = b"".join(encode(story(api, WORDS[:1])))
        pieces = cut(body, *range(1, len(body), step_bytes))
        settled = await encoded_stream(stage, api, header, pieces)

        assert settled.usage == TOLD.usage


@both_apis
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "gzip, br"])
async def test_t20_an_encoded_stream_that_breaks_off(
    stage: Stage, api: Api, coding: str
) -> None:
    """
    What came of an encoded stream is counted. Kong/kong#14893
    """
    deltas = list(map(api.delta, WORDS))
    headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
    header, encode = READ[coding]
    headers.append(("content-encoding", header))
    pieces, gate = encode([*deltas, b" "])[:-1], asyncio.Event()
    stage.upstream.play(
        head(headers=headers), *map(chunk, pieces), Hold(gate), End.RESET
    )

    call = await stage.begin(api, api.request())
    await call.until_length(len(b"".join(pieces)))
    gate.set()
    answer = await call.reply()
    settled = await stage.settled(call.request_id)

    assert not answer.whole
    assert settled.sides == await stage.owed(api, WORDS)


@both_apis
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("rest", [b"", b"\0" * 100, b"garbage"], ids=repr)
async def test_t20_what_stands_behind(
    stage: Stage, api: Api, coding: str, rest: bytes
) -> None:
    """
    Padding behind an encoded reply takes nothing from its figures. Kong/kong#14893
    """
    header, encode = READ[coding]
    body = b"".join(encode([api.reply("".join(WORDS))]))

    _, settled = await encoded_reply(stage, api, header, [body, rest])

    assert settled.usage == TOLD.usage


@both_apis
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
async def test_t20_an_end_that_never_comes(stage: Stage, api: Api, coding: str) -> None:
    """
    A reply cut short under its coding, though its framing is whole, is no free one.

    envoyproxy/ai-gateway#1189
    """
    header, encode = READ[coding]
    body = b"".join(encode([api.reply("".join(WORDS))]))

    for size_bytes in (5, len(body) // 2):
        _, settled = await encoded_reply(stage, api, header, [body[:size_bytes]])

        assert settled.source in ("estimated", "counted")
        assert settled.usage.total_output_tokens > 0


@pytest.mark.parametrize("header", ["gzip", "zstd, br"])
async def test_t20_a_bomb(stage: Stage, header: str) -> None:
    """
    A small body that decodes to more than is read is estimated, not kept.

    envoyproxy/ai-gateway#1189
    """
    bomb = OPENAI.reply("a" * 70 * 1024 * 1024)
    for coding in header.split(", "):
        bomb = {
            "gzip": lambda body: gzip.compress(body, 1),
            "br": lambda body: brotli.compress(body, quality=1),
            "zstd": zstandard,
        }[coding](bomb)

    _, settled = await encoded_reply(stage, OPENAI, header, [bomb])

    assert settled.source == "estimated"
    assert settled.usage.total_output_tokens >= 4_096


ABSURD_BYTES = 4 * 1024 * 1024


@both_apis
@pytest.mark.parametrize("header", ["br", "zstd", "gzip, br", "snappy"])
async def test_t20_an_absurd_size(stage: Stage, api: Api, header: str) -> None:
    """
    What can't be read is charged no more than was reserved, however long it is, or
    says that it is; the app gets it as it was sent.

    envoyproxy/ai-gateway#1189
    """
    body = b"\xce\xb2" * (ABSURD_BYTES // 2)
    reserved = 1_000 if api is ANTHROPIC else 4_096

    _, settled = await encoded_reply(stage, api, header, [body])

    assert settled.source == "estimated"
    assert settled.usage.total_output_tokens == reserved


@pytest.mark.parametrize("header", ["br", "zstd"])
async def test_t20_an_absurd_size_that_does_not_come(stage: Stage, header: str) -> None:
    """
    An announced size that never comes is bounded so, too. envoyproxy/ai-gateway#1189
    """
    headers = [("content-type", "application/json"), ("content-encoding", header)]
    headers.append(("content-length", "999999999999999"))
    steps: list[Step] = [head(headers=headers), b"\xce\xb2" * 100]

    answer, settled = await stage.ask(
        OPENAI, [*steps, Pause(0.1), End.RESET], OPENAI.request(stream=False)
    )

    assert not answer.whole
    assert settled.usage.total_output_tokens == 4_096
