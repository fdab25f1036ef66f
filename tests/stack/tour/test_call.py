"""What the tour asks."""

from __future__ import annotations

import json
import shlex

import pytest

from tokenweir.stack.tour.call import Call, exports
from tokenweir.stack.tour.stops import LONG_QUESTION, QUESTION


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", [QUESTION, LONG_QUESTION])
def test_a_shell_sends_what_the_tour_sends(prompt: str, stream: bool) -> None:
    """The command that can be copied has the body, and the key only by a variable."""
    call = Call("gpt-4o-mini", prompt, 60, stream)
    words = shlex.split(call.curl)

    assert words[0] == "curl"
    assert words[words.index("-d") + 1] == call.body
    assert "authorization: Bearer $OPENAI_API_KEY" in words
    assert ("-iN" in words) is stream


def test_a_body_is_a_chat_completion() -> None:
    """It has a cap, and says that it streams only if it does."""
    whole = json.loads(Call("m", "Hello", 60).body)
    streamed = json.loads(Call("m", "Hello", 60, stream=True).body)

    assert whole == {
        "model": "m",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    assert streamed == {**whole, "stream": True}


def test_exports_are_what_sdks_read() -> None:
    """The base URL has the API's version, as OpenAI's SDK wants it."""
    assert (
        exports("http://127.0.0.1:4000", "sk")
        == "export OPENAI_BASE_URL=http://127.0.0.1:4000/v1 OPENAI_API_KEY=sk"
    )
