"""T05: a reply that is not streamed comes in many pieces, and is settled once."""

from __future__ import annotations

import json

import pytest

from tests.cases.apis import OPENAI, TOLD, Api, Told, both_apis, encoded
from tests.cases.openai_apis import EMBEDDINGS, RESPONSES
from tests.cases.stage import Stage
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Pause,
    Step,
    chunk,
    cut,
    head,
    reply,
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

JSON = ("content-type", "application/json")
LONG = "a line of text that is part of a long answer 你好 ✅\n" * 10_500  # 600 KB
APART_SECONDS = 0.01


def chunked(body: bytes, *cuts: int) -> list[Step]:
    """Return *body* in chunks that end at *cuts*, each arriving by itself."""
    steps: list[Step] = [head(headers=[JSON, ("transfer-encoding", "chunked")])]
    for piece in cut(body, *cuts):
        steps += [chunk(piece), Pause(APART_SECONDS)]
    return [*steps, LAST_CHUNK]


def in_pieces(body: bytes, *cuts: int) -> list[Step]:
    """Return *body* under a content-length, in pieces that end at *cuts*."""
    steps: list[Step] = [head(headers=[JSON, ("content-length", str(len(body)))])]
    for piece in cut(body, *cuts):
        steps += [piece, Pause(APART_SECONDS)]
    return steps


def until_closed(body: bytes, *cuts: int) -> list[Step]:
    """Return *body* as one that ends with its connection."""
    steps: list[Step] = [head(headers=[JSON])]
    for piece in cut(body, *cuts):
        steps += [piece, Pause(APART_SECONDS)]
    return [*steps, End.CLOSE]


FRAMINGS = {
    "chunked": chunked,
    "content-length": in_pieces,
    "end-of-connection": until_closed,
}
framings = pytest.mark.parametrize("framing", FRAMINGS)


def positions(body: bytes) -> list[int]:
    """Return a cut at 16 KiB, in the middle of a character, and inside of `usage`."""
    inside = body.index("你".encode()) + 1
    return [inside, 16 * 1024, body.rindex(b'"usage"') + 4]


@both_apis
@framings
async def test_t05_a_long_reply_in_pieces(stage: Stage, api: Api, framing: str) -> None:
    """
    A 600 KB reply with its usage last is settled as reported. higress-group/higress#2918
    """
    body = api.reply(LONG)
    steps = FRAMINGS[framing](body, *positions(body))

    reply, settled = await stage.ask(api, steps, api.request(stream=False))

    assert reply.body == body
    assert settled.usage == TOLD.usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


@both_apis
@framings
async def test_t05_pretty_printed_with_usage_first(
    stage: Stage, api: Api, framing: str
) -> None:
    """
    Where usage stands, and how the JSON is indented, changes nothing.

    higress-group/higress#2918
    """
    members = json.loads(api.reply(LONG))
    usage = members.pop("usage")
    body = json.dumps({"usage": usage} | members, indent=4).encode()
    cuts = [body.index(b'"usage"') + 4, 16 * 1024, len(body) - 2]

    reply, settled = await stage.ask(
        api, FRAMINGS[framing](body, *cuts), api.request(stream=False)
    )

    assert reply.body == body
    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@pytest.mark.parametrize("framing", ["chunked", "content-length"])
async def test_t05_a_short_reply_at_sampled_cuts(
    stage: Stage, api: Api, framing: str
) -> None:
    """
    The figures are the same wherever a reply is cut. higress-group/higress#2918
    """
    body = api.reply("Once upon a time.")
    usage = body.index(b'"usage"')
    for at in [1, 2, *range(usage, len(body), 5), len(body) - 1]:
        reply, settled = await stage.ask(
            api, FRAMINGS[framing](body, at), api.request(stream=False)
        )

        assert reply.body == body
        assert settled.usage == TOLD.usage, at


@both_apis
async def test_t05_above_what_is_kept(stage: Stage, api: Api) -> None:
    """
    Of a reply that is too large to be kept, the usage at its end is read all the same.

    higress-group/higress#2918
    """
    body = api.reply("x" * 9_000_000)

    reply, settled = await stage.ask(api, in_pieces(body), api.request(stream=False))

    assert reply.body == body
    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
async def test_t05_above_what_is_kept_with_usage_first(stage: Stage, api: Api) -> None:
    """
    Where usage is out of reach, the reply is estimated by its size, and not as zero.

    higress-group/higress#2918
    """
    members = json.loads(api.reply("x" * 9_000_000))
    body = encoded({"usage": members.pop("usage")} | members)

    reply, settled = await stage.ask(api, in_pieces(body), api.request(stream=False))

    assert reply.body == body
    assert settled.source == "estimated"
    assert settled.usage.total_input_tokens > 0
    assert settled.usage.total_output_tokens >= 1_000  # all that was reserved


@both_apis
async def test_t05_a_reply_in_words_of_its_own(stage: Stage, api: Api) -> None:
    """
    A text that looks like a usage object is none. higress-group/higress#2918
    """
    fake = json.dumps({"usage": {"prompt_tokens": 1, "input_tokens": 1}}) * 40
    body = api.reply(fake)

    reply, settled = await stage.ask(
        api, in_pieces(body, len(body) - 40), api.request(stream=False)
    )

    assert reply.body == body
    assert settled.usage == TOLD.usage


@both_apis
@pytest.mark.parametrize("missing", [1, 200], ids=["brace", "usage"])
async def test_t05_a_reply_that_breaks_off(
    stage: Stage, api: Api, missing: int
) -> None:
    """
    A reply whose end never comes is charged for what passed, and not as zero.

    higress-group/higress#2918
    """
    text = "Once upon a time there was a weir. " * 40
    body = api.reply(text)
    steps = [*in_pieces(body)[:1], body[:-missing], Pause(0.05), End.RESET]

    reply, settled = await stage.ask(api, steps, api.request(stream=False))

    assert not reply.whole
    assert settled.usage.total_input_tokens > 0
    assert settled.usage.total_output_tokens >= len(text) // 8
    assert settled.source == "estimated"


@framings
async def test_t05_no_answer_at_all(stage: Stage, framing: str) -> None:
    """
    An empty reply of 200 owes its input: the provider may have worked on it.

    higress-group/higress#2918
    """
    reply, settled = await stage.ask(
        OPENAI, FRAMINGS[framing](b""), OPENAI.request(stream=False)
    )

    assert reply.body == b""
    assert settled.sides == (await stage.owed(OPENAI, [""]))


@pytest.mark.parametrize("label", ["text/plain", "text/event-stream", ""])
async def test_t05_a_reply_under_another_label(stage: Stage, label: str) -> None:
    """
    A JSON reply is read as JSON, however it is labelled. higress-group/higress#2918
    """
    body = encoded(json.loads(OPENAI.reply(LONG[:5_000])))
    headers = [("content-type", label)] if label else []

    answer, settled = await stage.ask(
        OPENAI, [reply(body, headers=headers)], OPENAI.request(stream=False)
    )

    assert answer.body == body
    assert settled.usage == TOLD.usage


@framings
async def test_t05_embeddings_in_pieces(stage: Stage, framing: str) -> None:
    """
    600 KB of vectors with their usage last are settled as reported.

    higress-group/higress#2918
    """
    body = EMBEDDINGS.reply("A" * 600_000, Told(8, 0))
    cuts = [16 * 1024, body.rindex(b'"usage"') + 4]

    reply, settled = await stage.ask(
        EMBEDDINGS, FRAMINGS[framing](body, *cuts), EMBEDDINGS.request()
    )

    assert reply.body == body
    assert settled.usage == Told(8, 0).usage
    assert (settled.source, settled.outcome) == ("reported", "completed")


async def test_t05_embeddings_above_what_is_kept(stage: Stage) -> None:
    """
    Of vectors too large to be kept, the usage at their end is read all the same.

    higress-group/higress#2918
    """
    body = EMBEDDINGS.reply("A" * 9_000_000, Told(8, 0))

    reply, settled = await stage.ask(EMBEDDINGS, in_pieces(body), EMBEDDINGS.request())

    assert reply.body == body
    assert settled.sides == (8, 0)
    assert settled.source == "reported"


@framings
async def test_t05_a_response_in_pieces(stage: Stage, framing: str) -> None:
    """
    A response of 600 KB is settled as reported. higress-group/higress#2918
    """
    body = RESPONSES.reply(LONG)
    steps = FRAMINGS[framing](body, *positions(body))

    reply, settled = await stage.ask(RESPONSES, steps, RESPONSES.request(stream=False))

    assert reply.body == body
    assert settled.usage == TOLD.usage
