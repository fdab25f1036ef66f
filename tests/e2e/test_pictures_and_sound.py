"""OpenAI's SDK with pictures and sound, against a provider that plays exact bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.cases.apis import encoded
from tests.cases.scene import Scene
from tests.pod import KEY, OTHER_KEY, until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MP3 = ("content-type", "audio/mpeg")
SOUND = bytes(range(256)) * 400


def with_media(content: dict[str, Any]) -> None:
    """Have models of pictures and sound; globex has money, and little of it."""
    for name in ("gpt-image-1", "gpt-4o-mini-tts", "gpt-4o-transcribe", "whisper-1"):
        content["models"][name] = {"provider": "openai", "max_output_tokens": 16384}
    content["models"]["heard"] = {
        "provider": "openai",
        "upstream_model": "gpt-4o-transcribe",
    }
    content["providers"]["openai"]["priced_as"] = "openai"
    content["tenants"]["globex"]["quotas"] = [{"budget_usd": "0.10", "per": "month"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(adapt=with_media) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    return await opened.clear()


def client(scene: Scene, key: str = KEY) -> AsyncOpenAI:
    """Return the SDK as an app makes it."""
    return AsyncOpenAI(base_url=scene.pod.url, api_key=key, max_retries=0)


async def the_record(scene: Scene, tenant: str = "acme") -> dict[str, str]:
    """Return the only record, once nothing is held."""

    async def is_recorded() -> bool:
        return bool(await scene.pod.ledger.records(tenant))

    await until(is_recorded)
    await until(lambda: scene.pod.ledger.nothing_held(tenant))
    [record] = await scene.pod.ledger.records(tenant)
    return dict(record)


async def test_pictures_that_report(scene: Scene) -> None:
    """A picture is settled, and priced, as it reports: what went in apart by kind."""
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
        "output_tokens": 272,
        "total_tokens": 322,
    }
    body = encoded({"created": 1, "data": [{"b64_json": "AA=="}], "usage": usage})
    scene.upstream.play(reply(body))
    async with client(scene, OTHER_KEY) as app:
        answer = await app.images.edit(
            model="gpt-image-1", image=b"PNG", prompt="A weir.", quality="low"
        )

    assert answer.data is not None
    record = await the_record(scene, "globex")
    assert record["route"] == "images"
    assert record["cost_nanousd"] == str(10 * 5_000 + 40 * 10_000 + 272 * 40_000)
    assert await scene.charges("globex") == [(50, 272)]


async def test_transcription_under_another_name(scene: Scene) -> None:
    """A form keeps every byte but its model's name; its usage is what is settled."""
    usage = {
        "type": "tokens",
        "input_tokens": 14,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 14},
        "output_tokens": 5,
        "total_tokens": 19,
    }
    scene.upstream.play(reply(encoded({"text": "A weir.", "usage": usage})))
    async with client(scene) as app:
        answer = await app.audio.transcriptions.create(
            model="heard", file=("a.wav", SOUND)
        )

    assert answer.text == "A weir."
    [received] = scene.upstream.requests
    assert SOUND in received.body
    assert b"gpt-4o-transcribe" in received.body
    assert b"heard" not in received.body
    assert await the_record(scene)
    assert await scene.charges() == [(14, 5)]


async def test_seconds_are_not_free(scene: Scene) -> None:
    """What is sold by the minute is counted, and said to be without a price."""
    usage = {"type": "duration", "seconds": 7}
    body = encoded({"text": "The sun rises in the east.", "usage": usage})
    scene.upstream.play(reply(body))
    async with client(scene) as app:
        await app.audio.transcriptions.create(model="whisper-1", file=("a.wav", SOUND))

    record = await the_record(scene)
    assert record["source"] != "reported"
    assert "unpriced" in record["flags"]


async def test_speech_passes_untouched(scene: Scene) -> None:
    """Sound reaches the app byte by byte; it is charged what its text suggests."""
    scene.upstream.play(reply(SOUND, headers=[MP3]))
    async with client(scene) as app:
        answer = await app.audio.speech.create(
            model="gpt-4o-mini-tts", voice="alloy", input="x" * 100
        )

    assert answer.content == SOUND
    record = await the_record(scene)
    assert (record["route"], record["source"]) == ("speech", "estimated")
    [(_, out_of)] = await scene.charges()
    assert out_of == 364


async def test_refusals(scene: Scene) -> None:
    """Where money is limited, what can't be priced is refused, and what is too dear."""
    async with client(scene, OTHER_KEY) as app:
        with pytest.raises(openai.PermissionDeniedError) as unpriced:
            await app.audio.transcriptions.create(
                model="whisper-1", file=("a.wav", SOUND)
            )
        with pytest.raises(openai.BadRequestError) as dear:
            await app.images.generate(model="gpt-image-1", prompt="x", n=10)
        with pytest.raises(openai.BadRequestError) as nameless:
            await app.audio.transcriptions.create(model="", file=("a.wav", SOUND))

    assert unpriced.value.code == "model_unpriced"
    assert isinstance(dear.value.body, dict)
    assert dear.value.body["tokenweir"]["limit"] == "budget_usd"
    assert nameless.value.param == "model"
    assert scene.upstream.requests == []
