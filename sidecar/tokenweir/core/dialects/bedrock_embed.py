"""
Embeddings by Bedrock's InvokeModel: tokens go in, none come out.

A body alone does not tell: Titan's models that write take the same text, and others
leave members out that they don't know. So the model's name has to say so, too.

Two makers' bodies are known:

    Titan     inputText, inputImage     the reply counts the tokens of the text
    Cohere    input_type beside texts, images or inputs     the reply counts nothing
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.dialects.base import MediaKind, ModelRequest, Prompt, ResponseFacts
from tokenweir.core.dialects.content import Content
from tokenweir.core.dialects.facts import add_texts, figure
from tokenweir.core.dialects.fields import Members, string
from tokenweir.core.usage import TokenUsage

_TEXT, _IMAGE = "inputText", "inputImage"
_COUNT = "inputTextTokenCount"
_KIND = "input_type"
# With it Titan writes text: that is no embedding.
_GENERATES = "textGenerationConfig"
# In the name of each model on Bedrock that makes vectors, and of no other.
_IN_NAME = "embed"
# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *(_TEXT, _IMAGE, "dimensions", "normalize", "embeddingTypes"),
        *("embeddingConfig", _KIND, "truncate", "embedding_types"),
        *("output_dimension", "max_tokens"),
    }
)
_OF_REPLY = frozenset({"embedding", "embeddings", "embeddingsByType", _COUNT})


def is_embedding(body: Members, model: str) -> bool:
    """Tell if *body* asks *model* for vectors, as far as both tell."""
    if _GENERATES in body or _IN_NAME not in model.lower():
        return False
    return not body.keys().isdisjoint((_TEXT, _IMAGE, _KIND))


def read_request(body: Members, model: str) -> ModelRequest:
    """Return the facts of a *body* for *model*. Raises: MalformedRequestError."""
    content = Content()
    content.add_text(string(body, _TEXT))
    picture = string(body, _IMAGE)
    if picture:
        content.add_encoded(picture, MediaKind.IMAGE)
    content.add_rest(body, _OF_BODY)
    content.is_guessed |= body.get("truncate") is not None
    return ModelRequest(
        model=model,
        stream=False,
        output_cap=0,
        choices=1,
        user="",
        wants_usage=True,
        prompt=Prompt((content.message(""),)),
        can_be_capped=False,
    )


def is_reply(reply: object) -> bool:
    """Tell if *reply* is one with vectors."""
    return isinstance(reply, dict) and not reply.keys().isdisjoint(_OF_REPLY)


def read_reply(reply: dict[str, Any], facts: ResponseFacts) -> None:
    """
    Take a whole *reply*: what it counts of the input, if it does.

    A model of Titan's that writes takes the same text: then there are results, too.
    """
    results = reply.get("results")
    written = [
        each
        for each in (results if isinstance(results, list) else [])
        if isinstance(each, dict)
    ]
    add_texts(facts, (each.get("outputText") for each in written))
    tokens = figure(reply.get(_COUNT))
    if tokens:
        out = sum(figure(each.get("tokenCount")) or 0 for each in written)
        facts.usage = TokenUsage(input_tokens=tokens, output_tokens=out)
        facts.usage_final = bool(out) or not facts.text_bytes
    facts.finished = facts.error is None
