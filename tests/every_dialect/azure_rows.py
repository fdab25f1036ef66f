"""OpenAI's APIs as Azure serves them: each of its paths."""

from __future__ import annotations

from tests.every_dialect import media_rows as media
from tests.every_dialect import openai_rows as openai
from tests.every_dialect.row import Row
from tests.every_dialect.speaker import AZURE

VERSION = "api-version=2024-10-21"
_DEPLOYED = {
    "chat/completions": (
        openai.CHAT_TOLD,
        openai.CHAT_STREAMED,
        openai.CHAT_UNASKED,
    ),
    "completions": (openai.COMPLETIONS_TOLD, openai.COMPLETIONS_STREAMED),
    "embeddings": (openai.EMBEDDINGS_TOLD,),
    "images/generations": (media.IMAGES,),
    "audio/transcriptions": (media.TRANSCRIPTIONS,),
    "audio/translations": (media.TRANSCRIPTIONS,),
    "audio/speech": (media.SPEECH,),
}
# There the body names the model: the app's deployment.
_NAMED = {
    "/openai/v1/chat/completions": (openai.CHAT_TOLD, openai.CHAT_UNASKED),
    "/openai/v1/responses": (openai.RESPONSES_TOLD, openai.RESPONSES_STREAMED),
    "/openai/responses": (openai.RESPONSES_TOLD,),
    "/openai/v1/completions": (openai.COMPLETIONS_STREAMED,),
    "/openai/v1/embeddings": (openai.EMBEDDINGS_TOLD,),
    "/openai/v1/images/generations": (media.IMAGES,),
}


def _named(row: Row, path: str) -> Row:
    body = row.request.replace(b'"gpt-4o"', b'"deployed"')
    body = body.replace(b'"gpt-image-1"', b'"deployed"')
    made = row.at(AZURE, f"{path}?{VERSION}", f"azure {path[8:]} {row.name}")
    return Row(**{**vars(made), "request": body})


AZURE_ROWS = (
    *(
        row.at(
            AZURE,
            f"/openai/deployments/deployed/{end}?{VERSION}",
            f"azure deployment {end} {row.name}",
        )
        for end, rows in _DEPLOYED.items()
        for row in rows
    ),
    *(_named(row, path) for path, rows in _NAMED.items() for row in rows),
)
