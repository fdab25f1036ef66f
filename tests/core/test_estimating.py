"""What is asked about a request."""

from __future__ import annotations

from dataclasses import replace

from tests.examples import SUBJECT, policy
from tokenweir.core.admission import Target
from tokenweir.core.calibration import Place
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects.base import Message, Prompt
from tokenweir.core.estimating import count_prompt
from tokenweir.core.tokenize_server import TokenizeServer

PROMPT = Prompt((Message("user", ("hello",)),))


def test_all_that_the_policy_says() -> None:
    """The provider's name of the model, who counts, and where it is learned."""
    known = policy()
    name, model = next(iter(known.models.items()))
    provider = known.providers[model.provider]
    server = TokenizeServer("http://127.0.0.1:1/tokenize")
    told = replace(model, tokenizer="qwen", message_tokens=5, tokenize_server=server)
    target = Target(provider, told, "upstream")

    asked = count_prompt(target, SUBJECT, PROMPT)

    place = Place(SUBJECT.tenant, SUBJECT.provider, "upstream", SUBJECT.route)
    assert name
    assert (asked.prompt, asked.model, asked.tokenizer) == (PROMPT, "upstream", "qwen")
    assert asked.hints == Hints(place, 5, server)
    assert asked.hints != NO_HINTS
    off = Target(provider, replace(told, calibrated=False), "upstream")
    assert not count_prompt(off, SUBJECT, PROMPT).hints.is_corrected
    assert "127.0.0.1" not in repr(asked)
