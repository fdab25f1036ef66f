"""OpenAI's moderations: requests, edits, replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenweir.core.dialects.base import Edits, ModelRequest, Prompt, ResponseFacts
from tokenweir.core.dialects.openai_moderations import OpenAIModerations
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.usage import TokenUsage

MODERATIONS = OpenAIModerations()


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return MODERATIONS.parse_request(json.dumps({"input": "a"} | members).encode())


def facts_of(reply: Any) -> ResponseFacts:
    """Return what is known after a *reply*."""
    facts = ResponseFacts()
    MODERATIONS.read_body(json.dumps(reply).encode(), facts)
    return facts


@pytest.mark.parametrize("members", [{}, {"model": None}])
def test_request_without_a_model(members: dict[str, Any]) -> None:
    """A request that names no model is for OpenAI's usual one; nothing is counted."""
    assert MODERATIONS.route == "moderations"
    assert request(**members) == ModelRequest(
        model="omni-moderation-latest",
        stream=False,
        output_cap=0,
        choices=1,
        user="",
        wants_usage=True,
        prompt=Prompt(),
        can_be_capped=False,
    )
    assert request(model="m", input=[{"type": "image_url"}]).model == "m"


@pytest.mark.parametrize("members", [{"model": 5}, {"Model": "m"}])
def test_malformed(members: dict[str, Any]) -> None:
    """A model that servers could read in two ways is none."""
    with pytest.raises(MalformedRequestError):
        request(**members)


def test_edits() -> None:
    """The provider's name for the model is written, also where there was none."""
    assert MODERATIONS.rewrite(b'{"input": 1}', Edits()) == b'{"input": 1}'
    body = MODERATIONS.rewrite(b'{"input": "a"}', Edits(model="m"))
    assert json.loads(body) == {"input": "a", "model": "m"}


def test_replies() -> None:
    """What is reported is known; most report nothing, and an error is no result."""
    silent = facts_of({"model": "omni-x", "results": [{"flagged": True}]})
    assert (silent.usage, silent.usage_final, silent.finished) == (None, False, True)
    assert silent.model == "omni-x"
    told = facts_of({"results": [], "usage": {"prompt_tokens": 9, "total_tokens": 9}})
    assert (told.usage, told.usage_final) == (TokenUsage(input_tokens=9), True)
    failed = facts_of({"error": {"code": "overloaded"}, "results": []})
    assert (failed.error, failed.finished) == ("overloaded", False)
    assert facts_of([]).unreadable
