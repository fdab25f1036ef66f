"""What a newcomer is told once the stack runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenweir.core.policy import Policy
from tokenweir.stack.blueprint import Blueprint
from tokenweir.stack.demo import ANTHROPIC_MODEL, DEMO_KEY, OPENAI_MODEL
from tokenweir.stack.settings import HOST

UNKNOWN_KEY = "<a key of your policy>"
UNKNOWN_MODEL = "<a model of your policy>"
JSON = "-H 'content-type: application/json'"
PROMPT = '"messages": [{"role": "user", "content": "Say hello"}]'
# Four of these fit into the demo's limit, with their prompts and with whatever was
# called before; the fifth does not, unless it comes seconds later.
STREAM_MAX_TOKENS = 13_000
STREAMS = 5
# What SDKs and curl go by. They honour it for loopback too, unless told otherwise.
PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
NO_PROXY_VARIABLES = ("no_proxy", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class Welcome:
    """
    Attributes:
        blueprint: What runs.
        policy: What is enforced.
        command: How to call `tokenweir` in another terminal.
    """

    blueprint: Blueprint
    policy: Policy
    command: str

    def text(self) -> str:
        """Return the text, without a line end."""
        sections = [*self._calls(), self._places()]
        if self._proxied(self.blueprint.env):
            sections.append(
                "A proxy is set in your environment. So that calls to this machine do "
                f"not go there:\n\n  export no_proxy={HOST},localhost"
            )
        return "\n\n".join(sections)

    # === how to call it ========================================================

    def _calls(self) -> Iterator[str]:
        mock = self.blueprint.mock_port is not None
        port = self.blueprint.settings.port
        answers = " A mock provider answers: nothing leaves this machine."
        yield (
            f"Tokenweir is running on http://{HOST}:{port}.{answers if mock else ''}\n"
            "In another terminal:"
        )
        if mock:
            yield f"  # All of it shown and explained, in half a minute.\n  {self.command} tour"
        if openai := self._model("openai", OPENAI_MODEL):
            yield self._openai(openai)
        if anthropic := self._model("anthropic", ANTHROPIC_MODEL):
            yield self._anthropic(anthropic)
        if mock:
            yield self._limit()

    def _openai(self, model: str) -> str:
        url = f"http://{HOST}:{self.blueprint.settings.port}/v1"
        return f"""\
  # A chat completion, then a streamed one.
  export OPENAI_BASE_URL={url} OPENAI_API_KEY='{self._key}'
  curl {_chat(model)}
  curl -N {_chat(model, '"stream": true, ')}

  # The same in Python, after `pip install openai`: an SDK needs only the variables.
  import openai
  print(openai.OpenAI().chat.completions.create(
      model="{model}", messages=[{{"role": "user", "content": "Say hello"}}]))"""

    def _anthropic(self, model: str) -> str:
        url = f"http://{HOST}:{self.blueprint.settings.port}"
        return f"""\
  # Anthropic's API.
  export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY='{self._key}'
  curl $ANTHROPIC_BASE_URL/v1/messages -H "x-api-key: $ANTHROPIC_API_KEY" \\
    -H 'anthropic-version: 2023-06-01' {JSON} \\
    -d '{{"model": "{model}", "max_tokens": 200, {PROMPT}}}'"""

    def _limit(self) -> str:
        """Return how a limit is reached. The refused call shows what apps are told."""
        cap = f'"stream": true, "max_tokens": {STREAM_MAX_TOKENS}, '
        numbers = " ".join(map(str, range(1, STREAMS + 1)))
        return f"""\
  # Five streams at once that may take {STREAM_MAX_TOKENS:,} tokens each, and their prompts: a
  # limit of 60,000 holds four. So 200 four times, and 429 once.
  for i in {numbers}; do
    curl -s -o /dev/null -w '%{{http_code}}\\n' {_chat(OPENAI_MODEL, cap)} &
  done; wait

  # A call that no wait can help, and what the app is told.
  curl -i {_chat(OPENAI_MODEL, '"n": 4, "max_tokens": 16000, ')}"""

    # === where to look =========================================================

    def _places(self) -> str:
        blueprint = self.blueprint
        admin = ", ".join(
            f"http://{HOST}:{port}/metrics" for port in blueprint.settings.admin_ports
        )
        editable = "  (change a limit and save: it applies at once)"
        own_ledger = blueprint.settings.ledger_url is None
        ledger = blueprint.ledger_url if own_ledger else "<the ledger's URL>"
        return "\n".join(
            [
                f"  usage    {self.command} usage --ledger {ledger}",
                f"  metrics  {admin}",
                f"  policy   {blueprint.policy}{editable}",
                f"  logs     {blueprint.folder.logs}",
            ]
        )

    # === details ===============================================================

    @property
    def _key(self) -> str:
        if self.blueprint.mock_port is not None:
            return DEMO_KEY
        return "any" if self.policy.single_tenant else UNKNOWN_KEY

    def _model(self, dialect: str, preferred: str) -> str | None:
        """Return a model to call by *dialect*, or None: the policy has none."""
        providers = self.policy.providers
        models = (*self.policy.models.values(), *self.policy.model_families)
        names = [m.name for m in models if providers[m.provider].dialect == dialect]
        if not names:
            return None
        if preferred in names:
            return preferred
        return names[0] if not names[0].endswith("*") else UNKNOWN_MODEL

    @staticmethod
    def _proxied(env: Mapping[str, str]) -> bool:
        exempt = ",".join(env.get(name, "") for name in NO_PROXY_VARIABLES)
        proxied = any(env.get(name) for name in PROXY_VARIABLES)
        return proxied and HOST not in exempt and "*" not in exempt


def _chat(model: str, more: str = "") -> str:
    """Return curl's arguments for a chat completion."""
    return f"""\
$OPENAI_BASE_URL/chat/completions {JSON} \\
    -H "authorization: Bearer $OPENAI_API_KEY" \\
    -d '{{"model": "{model}", {more}{PROMPT}}}'"""
