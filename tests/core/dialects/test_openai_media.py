"""OpenAI's APIs of pictures and sound: requests, edits, replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.forms import CONTENT_TYPE, form
from tokenweir.core.dialects.base import (
    FAITHFUL,
    Edits,
    Media,
    MediaKind,
    ModelRequest,
    ResponseFacts,
)
from tokenweir.core.dialects.openai_media import OpenAIMedia
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

IMAGES = OpenAIMedia("images", "dall-e-2")
HEARD = OpenAIMedia("transcriptions").sent_with((CONTENT_TYPE,))
SPEECH = OpenAIMedia("speech")
DRAWN = IMAGES.sent_with((CONTENT_TYPE,))
TYPED_AS_FORM = SPEECH.sent_with(
    (("content-type", "application/x-www-form-urlencoded"),)
)
SENT_TWICE = HEARD.sent_with((CONTENT_TYPE, CONTENT_TYPE))


def drawn(**members: Any) -> ModelRequest:
    """Return what a request for pictures is read as."""
    return IMAGES.parse_request(json.dumps({"prompt": "A weir."} | members).encode())


def facts_of(api: OpenAIMedia, *replies: dict[str, Any]) -> ResponseFacts:
    """Return what is known after *replies*: one, or the events of a stream."""
    facts = ResponseFacts()
    for reply in replies:
        api.read_event(ServerSentEvent("message", json.dumps(reply).encode()), facts)
    return facts


# === requests =====================================================================


def test_pictures() -> None:
    """Who names no model gets OpenAI's default; each picture has its most tokens."""
    read = drawn()

    assert (read.model, read.choices, read.output_cap) == ("dall-e-2", 1, 6_240)
    assert read.prompt.messages[0].texts == ("A weir.",)
    assert not read.can_be_capped
    assert read.wants_usage
    low = drawn(model="gpt-image-1", n=3, quality="low", user="u", stream=True)
    assert (low.choices, low.output_cap, low.user, low.stream) == (3, 408, "u", True)


def test_what_is_read_beside_the_prompt() -> None:
    """Pictures count as such, by URL or inside; what nobody knows counts as text."""
    read = drawn(
        images=[{"image_url": "https://a/b.png"}, {"file_id": "f"}],
        mask="data:image/png;base64,AAAA",
        caption="new",
    )

    [message] = read.prompt.messages
    assert message.texts == ("A weir.", "new")
    assert [media.kind for media in message.media] == [MediaKind.IMAGE] * 3


def test_pictures_that_are_kept_to_cost_more() -> None:
    """If that is asked for; otherwise nothing is said of them."""
    usual = drawn(image="https://a/b.png").prompt.messages[0].media
    kept_to = drawn(image="https://a/b.png", input_fidelity="high").prompt.messages[0]

    assert [media.detail for media in usual] == [None]
    assert [media.detail for media in kept_to.media] == [FAITHFUL]


def test_speech() -> None:
    """Speech is as long as its text; what it is told to sound like is read too."""
    body = {"model": "gpt-4o-mini-tts", "input": "x" * 100, "instructions": "Low."}
    read = SPEECH.parse_request(json.dumps(body).encode())

    assert read.output_cap == 364
    assert read.prompt.messages[0].texts == ("x" * 100, "Low.")


def test_a_form() -> None:
    """Fields of a form are those of JSON; files are media, by their place."""
    body = form(
        ("model", "whisper-1"),
        ("file", b"RIFF"),
        ("prompt", "Names."),
        ("stream", "true"),
        ("image[]", b"P"),
        ("other", b"??"),
    )
    read = HEARD.parse_request(body)

    assert (read.model, read.output_cap, read.stream) == ("whisper-1", None, True)
    [message] = read.prompt.messages
    assert message.texts == ("Names.",)
    assert message.media == (
        Media(MediaKind.AUDIO, b"RIFF", 4),
        Media(MediaKind.IMAGE, b"P", 1),
        Media(MediaKind.FILE, b"??", 2),
    )
    assert read.hears
    drawn_of_it = DRAWN.parse_request(form(("prompt", "x"), ("n", "4")))
    assert (drawn_of_it.choices, drawn_of_it.model) == (4, "dall-e-2")


@pytest.mark.parametrize(
    ("api", "body", "param"),
    [
        (IMAGES, b'{"n": 11}', "n"),
        (IMAGES, b'{"prompt": 1}', "prompt"),
        (DRAWN, form(("n", "x")), "n"),
        (DRAWN, form(("n", "11")), "n"),
        (DRAWN, b"{}", None),
        (IMAGES, form(("prompt", "x")), None),
        (SENT_TWICE, form(("model", "a")), None),
        (TYPED_AS_FORM, b'{"model": "a", "input": "&model=b&"}', None),
        (HEARD, form(("file", b"x")), "model"),
        (HEARD, form(("model", "a"), ("model", "b")), "model"),
        (HEARD, form(("Model", "a")), "model"),
        (HEARD, form(("model[]", "a")), "model"),
        (HEARD, form(("model", "a"), ("Model[0]", "b")), "model"),
        (HEARD, form(("model", b"a")), "model"),
        (HEARD, form(("model", "a"), ("stream", "x"), ("stream", "true")), "stream"),
        (HEARD, form(("model", "a"), ("include[]", b"x")), "include"),
        (SPEECH, b'{"input": "x"}', "model"),
        (SPEECH, b"--x", None),
    ],
)
def test_malformed(api: OpenAIMedia, body: bytes, param: str | None) -> None:
    """What can't be metered is refused, by name."""
    with pytest.raises(MalformedRequestError) as caught:
        api.parse_request(body)

    assert caught.value.param == param


def test_several_of_a_form() -> None:
    """What is a list in JSON may come more than once, or in brackets."""
    several = ("timestamp_granularities[]", "word"), ("include[]", "logprobs")
    more = ("timestamp_granularities[]", "segment"), ("chunking_strategy[type]", "x")

    assert HEARD.parse_request(form(("model", "a"), *several, *more)).model == "a"


def test_rewrite() -> None:
    """The model is rewritten in both kinds of bodies, and no other byte."""
    body, sent = b'{"prompt":"x", "model":"a"}', form(("model", "a"), ("file", b"\0"))

    assert IMAGES.rewrite(body, Edits(output_cap=9)) == body
    assert IMAGES.rewrite(body, Edits(model="b")) == b'{"prompt":"x", "model":"b"}'
    assert HEARD.rewrite(sent, Edits(model="b")) == form(
        ("model", "b"), ("file", b"\0")
    )


# === replies ======================================================================


def test_reported_pictures() -> None:
    """Pictures that report are settled so: what went in by kind, what came out."""
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
        "output_tokens": 1_056,
        "total_tokens": 1_106,
    }
    facts = facts_of(
        IMAGES, {"created": 1, "data": [{"b64_json": "AA"}], "usage": usage}
    )

    assert facts.usage == TokenUsage(
        input_tokens=10, image_input_tokens=40, output_tokens=1_056
    )
    assert facts.usage_final
    assert facts.finished
    assert facts.texts == []


def test_reported_transcription() -> None:
    """Newer models tell tokens, those of sound apart."""
    usage = {
        "type": "tokens",
        "input_tokens": 14,
        "input_token_details": {"text_tokens": 2, "audio_tokens": 12},
        "output_tokens": 45,
        "total_tokens": 59,
    }
    facts = facts_of(HEARD, {"text": "Imagine.", "usage": usage})

    assert facts.usage == TokenUsage(
        input_tokens=2, audio_input_tokens=12, output_tokens=45
    )
    assert facts.usage_final
    assert facts.finished


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        (
            {"text": "The sun.", "usage": {"type": "duration", "seconds": 7}},
            ["The sun."],
        ),
        ({"text": "The sun."}, ["The sun."]),
        ({"created": 1, "data": [{"url": "https://a"}]}, []),
    ],
)
def test_not_reported(reply: dict[str, Any], texts: list[str]) -> None:
    """Seconds are no tokens: without these the text is there to be counted."""
    facts = facts_of(HEARD, reply)

    assert facts.usage is None
    assert facts.finished
    assert facts.texts == texts


def test_streams() -> None:
    """A stream's text is in its deltas, once; its last event reports."""
    usage = {"input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
    begun = facts_of(HEARD, {"type": "transcript.text.delta", "delta": "The"})
    whole = facts_of(
        HEARD,
        {"type": "transcript.text.delta", "delta": "The"},
        {"type": "transcript.text.delta", "delta": " sun."},
        {"type": "transcript.text.done", "text": "The sun.", "usage": usage},
    )
    picture = facts_of(
        IMAGES,
        {"type": "image_generation.partial_image", "b64_json": "AA"},
        {"type": "image_generation.completed", "b64_json": "AA"},
    )

    assert (begun.texts, begun.finished) == (["The"], False)
    assert whole.texts == ["The", " sun."]
    assert whole.usage == TokenUsage(input_tokens=14, output_tokens=45)
    assert whole.finished
    assert (picture.usage, picture.finished) == (None, True)


@pytest.mark.parametrize(
    ("error", "name"),
    [({"code": "moderation_blocked"}, "moderation_blocked"), ("x", "error")],
)
def test_errors(error: object, name: str) -> None:
    """An error is no answer, whatever stands beside it."""
    facts = facts_of(IMAGES, {"error": error, "data": []})

    assert facts.error == name
    assert not facts.finished
