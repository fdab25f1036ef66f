"""OpenAI's older completions, which vLLM and others still serve."""

from __future__ import annotations

import msgspec

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ModelRequest
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.openai_inputs import inputs_in, read_inputs
from tokenweir.core.json_edit import set_inner_member, set_member
from tokenweir.core.json_text import parse_object

# OpenAI's limit of `n`, and more than its limit of `best_of`.
MAX_CHOICES = 128

_CAP = "max_tokens"
# Members that are read here, or that the model does not read. (A suffix it does.)
_OF_BODY = frozenset(
    {
        *("model", "prompt", "best_of", "n", "echo", "max_tokens"),
        *("frequency_penalty", "logit_bias", "logprobs", "presence_penalty", "seed"),
        *("stop", "stream", "stream_options", "temperature", "top_p", "user"),
        *(
            "service_tier",
            "min_p",
            "min_tokens",
            "repetition_penalty",
            "top_k",
            "ignore_eos",
        ),
    }
)


class OpenAICompletions(OpenAIApi):
    """`POST /v1/completions`."""

    route = "completions"

    def read_request(self, members: Members, model: str) -> ModelRequest:
        """See `OpenAIApi`."""
        options = fields.mapping(members, "stream_options")
        choices = fields.integer(members, "n", high=MAX_CHOICES) or 1
        tried = fields.integer(members, "best_of", low=0, high=MAX_CHOICES) or 1
        return ModelRequest(
            model=model,
            stream=fields.flag(members, "stream"),
            # 0, to have the prompt alone scored, generates nothing.
            output_cap=None
            if fields.is_unlimited(members, _CAP)
            else fields.integer(members, _CAP, low=0),
            # All that are tried are generated, the best of them are sent.
            choices=max(choices, tried) * inputs_in(members, "prompt"),
            user=fields.user_id(members, "user"),
            wants_usage=fields.flag(options, "include_usage", "stream_options"),
            prompt=read_inputs(members, "prompt", _OF_BODY),
            service_tier=fields.tier(members),
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*; a body that was read before never raises."""
        if edits.model is not None:
            body = set_member(body, "model", msgspec.json.encode(edits.model))
        if edits.include_usage:
            body = set_inner_member(body, "stream_options", "include_usage", b"true")
        if edits.output_cap is not None:
            body = _capped(body, edits.output_cap)
        return body


def _capped(body: bytes, cap: int) -> bytes:
    given = parse_object(body).get(_CAP)
    if given in (None, fields.UNLIMITED) or given > cap:
        body = set_member(body, _CAP, str(cap).encode())
    return body
