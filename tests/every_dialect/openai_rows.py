"""OpenAI's APIs of text."""

from __future__ import annotations

from dataclasses import replace

from tests.cases.apis import OPENAI as CHAT
from tests.cases.apis import TOLD, WORDS, Api, encoded, story
from tests.cases.openai_apis import COMPLETIONS, EMBEDDINGS, RESPONSES
from tests.every_dialect.row import EVENTS, Row
from tests.every_dialect.speaker import OPENAI

SIDES = (TOLD.input, TOLD.output)
# So many words have come where a stream breaks off.
HALF = 5


def told(api: Api, name: str) -> Row:
    """Return an answer of *api* that is not streamed."""
    body = api.reply("".join(WORDS))
    return Row(name, OPENAI, api.path, api.request(stream=False), (body,), SIDES)


def streamed(api: Api, name: str, *, asked: bool = True) -> Row:
    """Return a stream of *api* to an app that has *asked* for its usage, or not."""
    return Row(
        name,
        OPENAI,
        api.path,
        api.request(asked=asked),
        tuple(filter(None, story(api))),
        SIDES,
        streamed=True,
        passed=len(api.opening()) + HALF,
        texts=WORDS[:HALF],
        answered=EVENTS,
        extra=b"" if asked else api.report(),
    )


CHAT_TOLD = told(CHAT, "chat")
CHAT_STREAMED = streamed(CHAT, "chat stream")
CHAT_UNASKED = streamed(CHAT, "chat stream unasked", asked=False)
COMPLETIONS_TOLD = told(COMPLETIONS, "completions")
COMPLETIONS_STREAMED = streamed(COMPLETIONS, "completions stream")
RESPONSES_TOLD = told(RESPONSES, "responses")
RESPONSES_STREAMED = streamed(RESPONSES, "responses stream")
EMBEDDINGS_TOLD = replace(
    told(EMBEDDINGS, "embeddings"), usage=(TOLD.input, 0), generates=False
)
MODERATIONS_TOLD = Row(
    "moderations",
    OPENAI,
    "/v1/moderations",
    encoded({"input": "A weir."}),
    (encoded({"model": "omni-moderation-latest", "results": [{"flagged": False}]}),),
    (0, 0),
    costs_tokens=False,
)
COUNTED = Row(
    "responses input_tokens",
    OPENAI,
    "/v1/responses/input_tokens",
    RESPONSES.request(stream=False),
    (encoded({"object": "response.input_tokens", "input_tokens": 11}),),
    (0, 0),
    costs_tokens=False,
)
OPENAI_ROWS = (
    CHAT_TOLD,
    CHAT_STREAMED,
    CHAT_UNASKED,
    COMPLETIONS_TOLD,
    COMPLETIONS_STREAMED,
    streamed(COMPLETIONS, "completions stream unasked", asked=False),
    RESPONSES_TOLD,
    RESPONSES_STREAMED,
    EMBEDDINGS_TOLD,
    MODERATIONS_TOLD,
    COUNTED,
)
