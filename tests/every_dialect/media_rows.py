"""OpenAI's APIs of pictures and sound."""

from __future__ import annotations

from tests.cases.apis import data, encoded
from tests.every_dialect.row import EVENTS, Row
from tests.every_dialect.speaker import OPENAI
from tests.forms import CONTENT_TYPE, form

SOUND = bytes(range(256)) * 8
TEXT = ("content-type", "text/plain; charset=utf-8")
MP3 = ("content-type", "audio/mpeg")
DRAWN = {"input_tokens": 11, "output_tokens": 272, "total_tokens": 283}
HEARD = {"type": "tokens", "input_tokens": 14, "output_tokens": 5, "total_tokens": 19}
SPOKEN = {"input_tokens": 9, "output_tokens": 40, "total_tokens": 49}

DRAW = {"model": "gpt-image-1", "prompt": "A weir.", "quality": "low"}
SPEAK = {"model": "gpt-4o-mini-tts", "input": "A weir.", "voice": "alloy"}
HEAR = form(("model", "gpt-4o-transcribe"), ("file", SOUND))
HEAR_STREAMED = form(
    ("model", "gpt-4o-transcribe"), ("stream", "true"), ("file", SOUND)
)
FIRST, SECOND = "The sun rises", " in the east."

IMAGES = Row(
    "images",
    OPENAI,
    "/v1/images/generations",
    encoded(DRAW),
    (encoded({"created": 1, "data": [{"b64_json": "AA=="}], "usage": DRAWN}),),
    (11, 272),
)
TRANSCRIPTIONS = Row(
    "transcriptions",
    OPENAI,
    "/v1/audio/transcriptions",
    HEAR,
    (encoded({"text": FIRST + SECOND, "usage": HEARD}),),
    (14, 5),
    sent=CONTENT_TYPE,
)
SPEECH = Row(
    "speech",
    OPENAI,
    "/v1/audio/speech",
    encoded(SPEAK),
    (SOUND,),
    None,
    answered=MP3,
)
MEDIA_ROWS = (
    IMAGES,
    Row(
        "images stream",
        OPENAI,
        "/v1/images/generations",
        encoded(DRAW | {"stream": True, "partial_images": 1}),
        (
            data({"type": "image_generation.partial_image", "b64_json": "AA=="}),
            data(
                {
                    "type": "image_generation.completed",
                    "b64_json": "AA==",
                    "usage": DRAWN,
                }
            ),
        ),
        (11, 272),
        streamed=True,
        passed=1,
        answered=EVENTS,
    ),
    Row(
        "images edits",
        OPENAI,
        "/v1/images/edits",
        form(("model", "gpt-image-1"), ("prompt", "A weir."), ("image", SOUND)),
        IMAGES.pieces,
        (11, 272),
        sent=CONTENT_TYPE,
    ),
    TRANSCRIPTIONS,
    Row(
        "transcriptions stream",
        OPENAI,
        "/v1/audio/transcriptions",
        HEAR_STREAMED,
        (
            data({"type": "transcript.text.delta", "delta": FIRST}),
            data({"type": "transcript.text.delta", "delta": SECOND}),
            data(
                {
                    "type": "transcript.text.done",
                    "text": FIRST + SECOND,
                    "usage": HEARD,
                }
            ),
        ),
        (14, 5),
        streamed=True,
        passed=1,
        texts=(FIRST,),
        sent=CONTENT_TYPE,
        answered=EVENTS,
    ),
    Row(
        "transcriptions as text",
        OPENAI,
        "/v1/audio/transcriptions",
        form(("model", "whisper-1"), ("response_format", "text"), ("file", SOUND)),
        ((FIRST + SECOND).encode(),),
        None,
        sent=CONTENT_TYPE,
        answered=TEXT,
    ),
    TRANSCRIPTIONS.at(OPENAI, "/v1/audio/translations", "translations"),
    SPEECH,
    Row(
        "speech stream",
        OPENAI,
        "/v1/audio/speech",
        encoded(SPEAK | {"stream_format": "sse"}),
        (
            data({"type": "speech.audio.delta", "audio": "AA=="}),
            data({"type": "speech.audio.done", "usage": SPOKEN}),
        ),
        (9, 40),
        streamed=True,
        passed=1,
        answered=EVENTS,
    ),
)
