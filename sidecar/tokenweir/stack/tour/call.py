"""What the tour asks a model, and how a reader can ask the same."""

from __future__ import annotations

import json
from dataclasses import dataclass

PATH = "/v1/chat/completions"
# For a shell, after the two variables of `exports`.
_CURL = """\
curl {flags} $OPENAI_BASE_URL/chat/completions \\
    -H "authorization: Bearer $OPENAI_API_KEY" \\
    -H 'content-type: application/json' \\
    -d '{body}'"""


@dataclass(frozen=True, slots=True)
class Call:
    """
    A chat completion.

    Attributes:
        model: Who is asked.
        prompt: What; without quotes, so that shells take it as it is.
        max_tokens: How long the answer may be.
        stream: Whether it comes in parts.
    """

    model: str
    prompt: str
    max_tokens: int
    stream: bool = False

    @property
    def body(self) -> str:
        """The request's body, JSON."""
        members = {"model": self.model, "max_tokens": self.max_tokens}
        streamed = {"stream": True} if self.stream else {}
        messages = [{"role": "user", "content": self.prompt}]
        return json.dumps({**members, **streamed, "messages": messages})

    @property
    def curl(self) -> str:
        """The request as a command that a reader can copy."""
        return _CURL.format(flags="-iN" if self.stream else "-i", body=self.body)


def exports(url: str, key: str) -> str:
    """Return what a shell must know for `Call.curl`, in one line."""
    return f"export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}"
