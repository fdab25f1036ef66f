"""
Servers of the OpenAI API that are not OpenAI's: whatever they send is understood.

First by the reader alone, at any cut; then through a real Envoy, by the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.apis import OPENAI, data, encoded
from tests.cases.app import Leave, request
from tests.cases.conftest import stage
from tests.cases.stage import STREAM_HEAD, Stage
from tests.compatible_chunks import STORY, Server, sums, whole
from tests.compatible_servers import SERVERS
from tests.pod import until
from tests.scripted_upstream import End, chunk, cut, event_stream, reply
from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.response import ResponseReader
from tokenweir.core.usage import TokenUsage

__all__ = ["stage"]

e2e = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
every_server = pytest.mark.parametrize("server", SERVERS, ids=lambda each: each.name)
# Those that differ most from each other.
FEW = [
    server
    for server in SERVERS
    if server.name in ("vLLM", "llama.cpp", "Perplexity", "Mistral")
]
a_few_servers = pytest.mark.parametrize("server", FEW, ids=lambda each: each.name)


def read(
    pieces: Iterable[bytes],
    media_type: str = "text/event-stream",
    route: str = "chat_completions",
) -> ResponseFacts:
    """Return what a reader makes of a body that comes in *pieces*."""
    reader = ResponseReader(
        by_route(route),
        status=200,
        content_type=media_type,
        content_encoding="",
    )
    for piece in pieces:
        reader.feed(piece)
        while reader.behind:
            reader.feed(b"")
    reader.end()
    return reader.facts


@every_server
def test_a_reply(server: Server) -> None:
    """Usage is found wherever it stands, and its classes do not overlap."""
    facts = read([encoded(server.reply)], "application/json")

    assert (facts.usage, facts.usage_final) == (server.usage, True)
    assert facts.finished
    assert "".join(facts.texts) == "".join(server.texts)


@every_server
@settings(max_examples=20)
@given(at=st.sets(st.integers(1, 4_000)))
def test_a_stream_at_any_cut(server: Server, at: set[int]) -> None:
    """However it is cut: totals replace each other, and each text is there once."""
    facts = read(cut(b"".join(server.stream), *at))

    assert (facts.usage, facts.usage_final) == (server.usage, True)
    assert facts.texts == list(server.texts)
    assert facts.error is None


@every_server
def test_a_stream_that_breaks_off(server: Server) -> None:
    """Wherever: what came of text and reasoning is known, so it can be counted."""
    pieces = server.without_usage()
    for position in range(len(pieces)):
        facts = read(pieces[:position])

        texts = "".join(facts.texts)
        assert "".join(server.texts).startswith(texts)
        assert facts.usage is None
        assert facts.text_bytes == len(texts)
    assert "".join(read(pieces).texts) == "".join(server.texts)


def test_completions_of_vllm() -> None:
    """Running totals beside text and token ids: right wherever the stream is cut."""
    words = ("Once", " upon", " a time.")
    pieces = [
        data(
            {
                "object": "text_completion",
                "choices": [
                    {"index": 0, "text": word, "token_ids": [at], "logprobs": None}
                ],
                "usage": sums(3, at),
            }
        )
        for at, word in enumerate(words, start=1)
    ]
    for position in range(1, len(pieces) + 1):
        facts = read(pieces[:position], route="completions")

        assert facts.texts == list(words[:position])
        assert facts.usage == TokenUsage(input_tokens=3, output_tokens=position)
        assert facts.usage_final


def test_requests_of_vllm() -> None:
    """Token ids count one each; what is text for the model counts beside them."""
    plain = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 5, "min_tokens": 2}
    extra = {"guided_regex": "a+b", "return_token_ids": True, "prompt_logprobs": 1}
    parse = by_route("completions").parse_request

    assert parse(encoded(plain)).prompt.token_ids == 3
    asked = parse(encoded(plain | extra))
    assert (asked.prompt.token_ids, asked.output_cap) == (3, 5)
    assert "a+b" in str(asked.prompt)


def last_report(pieces: Sequence[bytes]) -> bytes:
    """Return the last event if it is there for its usage only, else nothing."""
    for piece in reversed(pieces):
        if piece.startswith(b"data: {"):
            event = json.loads(piece.removeprefix(b"data: "))
            return b"" if event["choices"] else piece
    return b""


class TestThroughEnvoy:
    """
    The same by the ledger, and the app gets every byte.

    What is not reported comes first: of reports estimates learn.
    """

    pytestmark = e2e

    @a_few_servers
    async def test_no_report(self, stage: Stage, server: Server) -> None:
        """Without a report all that passed is counted, reasoning too."""
        _, settled = await stage.stream(OPENAI, server.without_usage())

        assert settled.sides == await stage.owed(OPENAI, server.texts)
        assert (settled.source, settled.outcome) == ("counted", "completed")

    @a_few_servers
    async def test_an_app_that_leaves(self, stage: Stage, server: Server) -> None:
        """What passed before is counted, and never nothing."""
        pieces = server.without_usage()[:4]
        stage.upstream.play(STREAM_HEAD, *map(chunk, pieces), End.STALL)
        call = await stage.begin(OPENAI, OPENAI.request())
        await call.until_length(sum(map(len, pieces)))
        call.leave(Leave.CLOSE)
        settled = await stage.settled(call.request_id)

        assert settled.sides == await stage.owed(OPENAI, read(pieces).texts)
        assert settled.usage.total_output_tokens > 0
        assert settled.outcome == "cut"

    @every_server
    async def test_a_stream(self, stage: Stage, server: Server) -> None:
        """
        What is settled is what was reported.

        An app that did not ask loses the event without choices, and no other.
        """
        pieces = server.stream
        settled = await stage.stream_unasked(OPENAI, pieces, last_report(pieces))

        assert settled.usage == server.usage
        assert (settled.source, settled.outcome) == ("reported", "completed")

    @a_few_servers
    async def test_a_stream_whose_usage_was_asked_for(
        self, stage: Stage, server: Server
    ) -> None:
        """It passes byte by byte."""
        _, settled = await stage.stream(OPENAI, server.stream)

        assert settled.usage == server.usage

    @a_few_servers
    async def test_a_reply(self, stage: Stage, server: Server) -> None:
        """A whole reply is settled as reported."""
        body = encoded(server.reply)
        answer, settled = await stage.ask(
            OPENAI, [reply(body)], OPENAI.request(stream=False)
        )

        assert answer.body == body
        assert (settled.usage, settled.source) == (server.usage, "reported")


# What servers offer beside the API: none of it is metered by tokens here.
NATIVE_PATHS = [
    *("/tokenize", "/v1/rerank", "/v1/score", "/pooling", "/classify", "/invocations"),
    *(
        "/inference/v1/generate",
        "/generate",
        "/completion",
        "/api/chat",
        "/api/generate",
    ),
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


class TestRequests:
    """What only some servers understand."""

    pytestmark = e2e

    async def test_parameters_of_vllm(self, stage: Stage) -> None:
        """They pass byte by byte; what is text for the model is a part of the estimate."""
        plain = OPENAI.request(stream=False, max_completion_tokens=50)
        asked = OPENAI.request(
            stream=False,
            max_completion_tokens=50,
            guided_json=SCHEMA,
            min_tokens=3,
            top_k=40,
            ignore_eos=False,
        )
        stage.upstream.reset()

        without, _ = await stage.reserves(OPENAI, plain)
        reserved = await stage.reserves(OPENAI, asked)

        assert stage.upstream.requests[-1].body == asked
        assert reserved[0] > without
        assert reserved[1] == 50

    @pytest.mark.parametrize("path", NATIVE_PATHS)
    async def test_native_paths(self, stage: Stage, path: str) -> None:
        """A path that is no metered one is refused, unless the policy lets it pass."""
        stage.upstream.reset()
        answer = await stage.send(request(path, OPENAI.request()))

        assert answer.status == 403
        assert json.loads(answer.body)["error"]["code"] == "path_not_metered"
        assert stage.upstream.requests == []

    async def test_output_from_no_input(self, stage: Stage) -> None:
        """A report without input, as of a cached prompt, does not make it free."""
        body = encoded(whole({"content": STORY}, sums(0, 7)))
        _, settled = await stage.ask(
            OPENAI, [reply(body)], OPENAI.request(stream=False)
        )

        assert settled.usage.total_input_tokens > 0
        assert settled.usage.total_output_tokens == 7
        assert settled.source != "reported"

    async def test_a_server_that_refuses_to_be_asked(self, stage: Stage) -> None:
        """It isn't asked for usage, and what it reports by itself is settled."""
        content = yaml.safe_load(stage.pod.policy_path.read_text())
        content["providers"]["openai"]["ask_for_usage"] = False
        [processor] = stage.pod.processors
        before = processor.count("policy_loaded")
        stage.pod.policy_path.write_text(yaml.safe_dump(content))
        await until(lambda: processor.count("policy_loaded") > before)
        [mistral] = (each for each in SERVERS if each.name == "Mistral")
        body = OPENAI.request(asked=False)
        stage.upstream.reset()

        answer, settled = await stage.ask(OPENAI, event_stream(mistral.stream), body)

        assert stage.upstream.requests[0].body == body
        assert answer.body == b"".join(mistral.stream)
        assert (settled.usage, settled.source) == (mistral.usage, "reported")
