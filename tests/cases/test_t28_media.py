"""T28: media are estimated by what they show, never by the length of their base64."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Api, both_apis
from tests.cases.openai_apis import RESPONSES
from tests.cases.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

TOKENS_PER_MINUTE = 50_000
# What the largest picture costs, by each provider's rule, and some words.
MOST = {"openai": 3_000, "anthropic": 5_000}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Give the module a stage with the entry's limit."""
    async with Stage.open(capacity=TOKENS_PER_MINUTE) as opened:
        yield opened


def png(width: int, height: int, size_bytes: int = 1_500_000) -> str:
    """Return a picture of a size, as far as anybody looks at it, in base64."""
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    header += width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(header.ljust(size_bytes, b"\x5a")).decode()


NO_PICTURE = "A" * 2_000_000
PICTURE = png(1024, 1024)
WAV = base64.b64encode(
    b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0"
    b"data\0\0\0\0".ljust(1_500_000, b"\0")
).decode()
PDF = base64.b64encode(b"%PDF-1.7\n".ljust(1_500_000, b"\xb5")).decode()


def image_url(url: str, **members: str) -> dict[str, Any]:
    """Return OpenAI's part for a picture."""
    return {"type": "image_url", "image_url": {"url": url, **members}}


def source(kind: str, data: str, media_type: str) -> dict[str, Any]:
    """Return Anthropic's block for what is encoded."""
    held = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": kind, "source": held}


# Of 2 MB in base64 each.
OPENAI_PARTS: dict[str, dict[str, Any]] = {
    "no picture": image_url("data:image/png;base64," + NO_PICTURE),
    "picture": image_url("data:image/png;base64," + PICTURE),
    "low detail": image_url("data:image/png;base64," + PICTURE, detail="low"),
    "large picture": image_url("data:image/png;base64," + png(9_000, 9_000)),
    "small capitals": image_url("DATA:image/PNG;BASE64," + PICTURE),
    "parameters": image_url("data:image/png;name=a.png;base64," + PICTURE),
    "no media type": image_url("data:;base64," + NO_PICTURE),
    "url of a string": {"type": "image_url", "image_url": f"data:;base64,{PICTURE}"},
    "input_image": {"type": "input_image", "image_url": f"data:;base64,{PICTURE}"},
    "sound": {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
    "compressed sound": {
        "type": "input_audio",
        "input_audio": {"data": NO_PICTURE, "format": "mp3"},
    },
    "file": {
        "type": "file",
        "file": {
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64," + PDF,
        },
    },
    "bare file": {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    "video": {"type": "video_url", "video_url": {"url": f"data:;base64,{NO_PICTURE}"}},
    "unknown part": {"type": "hologram", "hologram": f"data:x/y;base64,{NO_PICTURE}"},
    "unknown data": {"type": "hologram", "source": {"data": NO_PICTURE}},
}
ANTHROPIC_PARTS: dict[str, dict[str, Any]] = {
    "no picture": source("image", NO_PICTURE, "image/png"),
    "picture": source("image", PICTURE, "image/png"),
    "large picture": source("image", png(9_000, 9_000), "image/png"),
    "document": source("document", PDF, "application/pdf"),
    "in a tool's result": {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [source("image", PICTURE, "image/png")],
    },
    "in a document": {
        "type": "document",
        "source": {"type": "content", "content": [source("image", PICTURE, "x/y")]},
    },
    "unknown block": source("hologram", NO_PICTURE, "x/y"),
    "redacted thinking": {"type": "redacted_thinking", "data": NO_PICTURE},
}


async def asks(stage: Stage, api: Api, part: dict[str, Any]) -> int:
    """Return the input tokens that are reserved for a question with *part*."""
    text = {"type": "text", "text": "What is it?"}
    messages = [{"role": "user", "content": [text, part]}]
    body = api.request(stream=False, messages=messages)
    return (await stage.reserves(api, body))[0]


@pytest.mark.parametrize("name", OPENAI_PARTS)
async def test_t28_media_in_chat_completions(stage: Stage, name: str) -> None:
    """
    2 MB of base64 are estimated by what they show, and fit into 50,000 tokens.

    BerriAI/litellm#32865
    """
    assert 85 <= await asks(stage, OPENAI, OPENAI_PARTS[name]) <= MOST["openai"]


@pytest.mark.parametrize("name", ANTHROPIC_PARTS)
async def test_t28_media_in_messages(stage: Stage, name: str) -> None:
    """
    The same of messages, in whichever block. BerriAI/litellm#32865
    """
    assert (
        85 <= await asks(stage, ANTHROPIC, ANTHROPIC_PARTS[name]) <= MOST["anthropic"]
    )


async def test_t28_pictures_cost_what_their_size_says(stage: Stage) -> None:
    """
    A picture is estimated by the provider's rule. BerriAI/litellm#32865
    """
    plain = await asks(stage, OPENAI, {"type": "text", "text": ""})
    costs = {
        "picture": 85 + 4 * 170,  # 1024 x 1024, shrunk to 768 x 768: four tiles
        "low detail": 85,
        "large picture": 85 + 4 * 170,
        "no picture": 85 + 8 * 170,  # the most that it can be
    }
    for name, tokens in costs.items():
        assert await asks(stage, OPENAI, OPENAI_PARTS[name]) == plain + tokens


@both_apis
async def test_t28_pictures_behind_a_url(stage: Stage, api: Api) -> None:
    """
    What is behind a URL is neither fetched nor free. BerriAI/litellm#32865
    """
    url = f"http://127.0.0.1:{stage.upstream.port}/picture.png"
    parts: dict[str, dict[str, Any]] = {
        "openai": image_url(url),
        "anthropic": {"type": "image", "source": {"type": "url", "url": url}},
    }
    stage.upstream.reset()

    assert 85 <= await asks(stage, api, parts[api.name]) <= MOST[api.name]
    assert [asked.method for asked in stage.upstream.requests] == ["POST"]


async def test_t28_each_picture_counts(stage: Stage) -> None:
    """
    Ten pictures cost ten times what one costs. BerriAI/litellm#32865
    """
    small = image_url("data:image/png;base64," + png(1024, 1024, 50_000))
    text = {"type": "text", "text": "What is it?"}
    body = [
        OPENAI.request(
            stream=False,
            messages=[{"role": "user", "content": [text, *[small] * count]}],
        )
        for count in (1, 10)
    ]
    one, ten = [(await stage.reserves(OPENAI, each))[0] for each in body]

    assert ten - one == 9 * 765


@both_apis
async def test_t28_text_that_looks_like_media(stage: Stage, api: Api) -> None:
    """
    A text that begins like a data URL is text all the same. BerriAI/litellm#32865
    """
    prose = "data: that is what we want to talk about, " + "a word or two. " * 1_000
    with_data_url = "data:text/plain;base64," + "QUJD" * 4_000

    assert await asks(stage, api, {"type": "text", "text": prose}) > len(prose) // 8
    assert await asks(stage, api, {"type": "text", "text": with_data_url}) > 2_000


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "data:image/png;base64," + PICTURE},
        {"type": "input_image", "image_url": "data:image/png;base64," + NO_PICTURE},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "hologram", "image_url": "data:x/y;base64," + NO_PICTURE},
    ],
    ids=["picture", "no picture", "kept picture", "file", "sound", "unknown part"],
)
async def test_t28_media_in_responses(stage: Stage, part: dict[str, Any]) -> None:
    """
    The same of an input's parts. BerriAI/litellm#32865
    """
    text = {"type": "input_text", "text": "what is it"}
    message = {"role": "user", "content": [text, part]}
    body = RESPONSES.request(stream=False, input=[message])

    assert 85 <= (await stage.reserves(RESPONSES, body))[0] <= MOST["openai"]
