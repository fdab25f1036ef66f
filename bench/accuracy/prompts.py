"""Prompts with tools beside the counts that gpt-tokenizer's tests have for them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from bench.accuracy.environment import folder
from bench.accuracy.recorded import counter_of
from tokenweir.core.dialects import by_route
from tokenweir.core.estimate import estimate_input
from tokenweir.core.model_family import family_for

MODEL = "gpt-4o"
_CASES = "package/cjs/fixtures/functionCallingTestCases.js"


@dataclass(frozen=True, slots=True)
class Prompts:
    """
    How many were counted alike.

    Attributes:
        all: Prompts, most of them with tools.
        exact: Those whose count is the same.
        most: The largest difference, in tokens.
    """

    all: int
    exact: int
    most: int


def counted() -> Prompts:
    """Count them."""
    module = json.dumps(str(folder("gpt-tokenizer") / _CASES))
    script = f"console.log(JSON.stringify(require({module}).functionCallingTestCases))"
    found = subprocess.run(
        ["node", "-e", script], stdout=subprocess.PIPE, text=True, check=True
    )
    off = [abs(_estimate(case) - case["tokens"]) for case in json.loads(found.stdout)]
    return Prompts(len(off), off.count(0), max(off))


def _estimate(case: dict[str, object]) -> int:
    body = {**case, "model": MODEL}
    del body["tokens"]
    request = by_route("chat_completions").parse_request(json.dumps(body).encode())
    family = family_for(MODEL)
    return estimate_input(request.prompt, family, counter_of(family))
