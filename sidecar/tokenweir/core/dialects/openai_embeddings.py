"""OpenAI's embeddings: tokens go in, none come out."""

from __future__ import annotations

from typing import Any

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ModelRequest, ResponseFacts
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.openai_inputs import read_inputs
from tokenweir.core.dialects.openai_reply import read_reply
from tokenweir.core.dialects.openai_usage import read_usage
from tokenweir.core.json_edit import set_member

# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {"model", "input", "dimensions", "encoding_format", "user", "service_tier"}
)


class OpenAIEmbeddings(OpenAIApi):
    """`POST /v1/embeddings`."""

    route = "embeddings"

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        return ModelRequest(
            model=model,
            stream=False,
            output_cap=0,
            choices=1,
            user=fields.user_id(members, "user"),
            wants_usage=True,
            prompt=read_inputs(members, "input", _OF_BODY),
            service_tier=fields.tier(members),
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*: nothing is generated, so only the model counts."""
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        return body

    def read_reply(self, reply: dict[str, Any], facts: ResponseFacts) -> None:
        """Take a whole reply: what its usage says of the input is all there is."""
        read_reply(reply, facts)
        usage = reply.get("usage")
        if facts.usage is None and isinstance(usage, dict):
            # Voyage and others give the total alone, which is the input's.
            read_usage({"prompt_tokens": usage.get("total_tokens")}, facts)
        facts.usage_final = facts.usage is not None
        # Of a long one, all that is seen may be its end: the usage.
        told = "data" in reply or facts.usage_final
        facts.finished = told and facts.error is None
