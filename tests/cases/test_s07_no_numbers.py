"""S07: what is no number breaks no reply, and is no usage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Connection, request
from tests.cases.refusals import expect
from tests.cases.stage import Settled, Stage
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

INPUT, OUTPUT = "input", "output"
SIDES = {
    OPENAI.name: {INPUT: "prompt_tokens", OUTPUT: "completion_tokens"},
    ANTHROPIC.name: {INPUT: "input_tokens", OUTPUT: "output_tokens"},
}
# As they stand in the text; those that are JSON, and those that only some write.
NO_NUMBERS = (
    "NaN", "Infinity", "-Infinity", "-3", "-1e400", "1e400", "1e18", "12.5", "12.0", "1e2",
    '"12"', '""', "null", "true", "false", "{}", "[]", "[7]", '{"value":7}',
    "1000000001", "18446744073709551616", "99999999999999999999", "9" * 5_000,
)  # fmt: skip
NO_JSON = ("007", "+7", "0x10", "7_0", ".5", "7.", "inf", "nan", "undefined", "7n", "")
AT_MOST = 5_000  # tokens: more than what was reserved can't be owed


def damaged(api: Api, data: bytes, wrong: str, sides: Sequence[str]) -> bytes:
    """Return *data* with *wrong* in place of the usage's *sides*."""
    for side in sides:
        figure = TOLD.input if side == INPUT else TOLD.output
        name = SIDES[api.name][side]
        data = data.replace(
            f'"{name}": {figure}'.encode(), f'"{name}": {wrong}'.encode()
        )
    return data


async def both_ways(
    stage: Stage, api: Api, wrong: str, *sides: str
) -> tuple[Settled, Settled]:
    """Return what was charged for a reply and a stream; both came as they were."""
    body = damaged(api, api.reply("Once upon a time"), wrong, sides)
    assert not sides or wrong.encode() in body
    asked = api.request(stream=False)
    answer, plain = await stage.ask(api, [reply(body)], asked)
    assert (answer.status, answer.body) == (200, body)

    pieces = [damaged(api, piece, wrong, sides) for piece in story(api)]
    _, streamed = await stage.stream(api, pieces)
    return plain, streamed


def check(stage: Stage, *settled: Settled) -> None:
    """Demand that both sides were charged, within what can be owed."""
    for each in settled:
        figures = [int(each.record[name]) for name in each.usage.by_class()]

        assert all(figure >= 0 for figure in figures)
        assert 0 < each.usage.total_input_tokens < AT_MOST
        assert 0 < each.usage.total_output_tokens < AT_MOST
        if each.source == "reported":  # the total said it all
            assert each.usage == TOLD.usage
    assert stage.pod.processors[0].count("fault") == 0


@both_apis
@pytest.mark.parametrize("wrong", [*NO_NUMBERS, *NO_JSON], ids=lambda text: text[:24])
async def test_s07_no_usage(stage: Stage, api: Api, wrong: str) -> None:
    """
    Figures that are no counts of tokens are not known: they are counted or estimated,
    never negative, never nothing, and never astronomic. The reply passes as it is.

    sgl-project/sglang#5984, NVIDIA-NeMo/RL#2962
    """
    check(stage, *await both_ways(stage, api, wrong, INPUT, OUTPUT))


@both_apis
@pytest.mark.parametrize("side", [INPUT, OUTPUT])
@pytest.mark.parametrize("wrong", ["NaN", "-3", "1e400", '"12"', "null", "true"])
async def test_s07_half_a_usage(stage: Stage, api: Api, wrong: str, side: str) -> None:
    """
    If one of the two figures is no number, the other one still counts.

    NVIDIA-NeMo/RL#2962
    """
    plain, streamed = await both_ways(stage, api, wrong, side)

    check(stage, plain, streamed)
    if side == OUTPUT:
        assert plain.usage.total_input_tokens == TOLD.input
        assert streamed.usage.total_input_tokens == TOLD.input
    else:
        assert plain.usage.total_output_tokens >= TOLD.output
        assert streamed.usage.total_output_tokens >= TOLD.output


@both_apis
@pytest.mark.parametrize("wrong", ["NaN", "-Infinity", "Infinity", "1e400", "-0"])
async def test_s07_log_probabilities(stage: Stage, api: Api, wrong: str) -> None:
    """
    A reply that has such numbers elsewhere is read all the same, and passes.

    vllm#10234: log probabilities of -inf made strict writers fail.
    """
    extra = (
        f'"logprobs":{{"content":[{{"logprob":{wrong},"top":[{wrong}]}}]}},'.encode()
    )
    body = api.reply("Once upon a time").replace(b"{", b"{" + extra, 1)
    asked = api.request(stream=False)
    answer, settled = await stage.ask(api, [reply(body)], asked)
    assert answer.body == body
    assert settled.usage == TOLD.usage
    assert settled.source == "reported"

    pieces = [piece.replace(b"{", b"{" + extra, 1) for piece in story(api)]
    _, settled = await stage.stream(api, pieces)
    assert settled.usage == TOLD.usage
    assert settled.source == "reported"


@both_apis
@pytest.mark.parametrize("wrong", ["NaN", "-3", "null", '"12"', "true"])
async def test_s07_details(stage: Stage, api: Api, wrong: str) -> None:
    """
    A detail that is no number is not known; the sums are. NVIDIA-NeMo/RL#2962
    """
    details = {
        OPENAI.name: '"prompt_tokens_details":{"cached_tokens":@},'
        '"completion_tokens_details":{"reasoning_tokens":@,"audio_tokens":@},',
        ANTHROPIC.name: '"cache_read_input_tokens":@,"cache_creation_input_tokens":@,'
        '"cache_creation":{"ephemeral_5m_input_tokens":@},',
    }[api.name].replace("@", wrong)
    first = f'"{SIDES[api.name][INPUT]}"'
    body = api.reply("Hi.").replace(first.encode(), (details + first).encode())
    assert wrong.encode() in body

    answer, settled = await stage.ask(api, [reply(body)], api.request(stream=False))

    assert answer.body == body
    assert settled.usage == TOLD.usage


@both_apis
@pytest.mark.parametrize("wrong", ["NaN", "-Infinity", "Infinity"])
async def test_s07_requests_have_numbers(stage: Stage, api: Api, wrong: str) -> None:
    """
    A request with such a number is refused: providers read it in different ways.

    sgl-project/sglang#5984
    """
    body = api.request(stream=False, temperature=float(wrong))
    assert wrong.encode() in body
    stage.upstream.reset()
    async with Connection.open(stage.pod.port) as app:
        await app.send(request(body, path=api.path))
        answer = await app.answer()

    expect(answer, api, 400, "malformed_request")
    assert not stage.upstream.requests
