"""docs/refusals.md says what is really sent."""

import json
import re
from pathlib import Path

import pytest

from tests.extproc.rejections import (
    ANTHROPIC,
    ANTHROPIC_TYPES,
    OPENAI,
    REJECTIONS,
    TPM,
    openai_error,
)
from tokenweir.core.policy import Axis
from tokenweir.core.reason import Reason, reason_of
from tokenweir.core.rejection import LedgerUnavailable, QuotaExhausted, Unsatisfiable
from tokenweir.extproc.respond import respond

# Envoy's generated classes use what pydantic has deprecated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using `@model_validator`:DeprecationWarning"
)
REFUSALS = Path(__file__).parents[2] / "docs" / "refusals.md"


# Statuses, whether retrying helps, OpenAI's types and code, Anthropic's type.
Row = tuple[set[int], bool, set[str], set[str], set[str]]


def documented() -> dict[str, Row]:
    """Return the document's refusals, by name."""
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d, ]+) \| (yes|no) \| (.+?) / `(\w+)` \| `(\w+)` \|",
        REFUSALS.read_text(),
        re.MULTILINE,
    )
    return {
        name: (
            set(map(int, statuses.split(", "))),
            retryable == "yes",
            set(re.findall(r"`(\w+)`", types)),
            {code},
            {kind},
        )
        for name, statuses, retryable, types, code, kind in rows
    }


def sent() -> dict[str, Row]:
    """Return all that clients can be told, by the processor and by Envoy."""
    from tokenweir.envoyconf.local_reply import REPLIES  # noqa: PLC0415 - warns

    rows: dict[str, Row] = {}

    def add(name: str, row: Row) -> None:
        known = rows.setdefault(name, row)
        assert known[1] is row[1], name
        for mine, other in zip(known, row, strict=True):
            if isinstance(mine, set) and isinstance(other, set):
                mine.update(other)

    for rejection, status, kind, code in REJECTIONS:
        detail = openai_error(respond(rejection, OPENAI))["tokenweir"]
        types = ({kind}, {code}, {ANTHROPIC_TYPES[status]})
        add(reason_of(rejection), ({status}, detail["retryable"], *types))
    for reply in REPLIES:
        types = ({reply.openai_type}, {str(reply.refusal)}, {reply.anthropic_type})
        add(reply.refusal, ({reply.status, *reply.others}, reply.retryable, *types))
    return rows


def test_every_refusal_is_documented() -> None:
    """
    The document lists every refusal of ours and of Envoy's, with each status that it
    comes with, and says of each if retrying helps.
    """
    assert documented() == sent()
    assert set(documented()) == set(Reason)


def test_examples_in_the_document() -> None:
    """The document's examples are what is really sent."""
    blocks = re.findall(
        r"^```http\n(.+?)\n```", REFUSALS.read_text(), re.DOTALL | re.MULTILINE
    )
    shown = [example(block) for block in blocks]

    over = QuotaExhausted("acme", (TPM,))
    never = Unsatisfiable(
        "acme.tokens_per_minute", Axis.TOKENS, "tenant=acme", 60_000, 130_000, 60_000
    )
    expected = [
        respond(over, OPENAI),
        respond(over, ANTHROPIC),
        respond(never, OPENAI),
        respond(LedgerUnavailable(1_000), ANTHROPIC),
    ]
    assert shown == [
        (reply.status, reply.headers, json.loads(reply.body)) for reply in expected
    ]


def example(block: str) -> tuple[int, tuple[tuple[str, str], ...], object]:
    """Return status, headers and body of an HTTP message in a document."""
    head, _, body = block.partition("\n\n")
    first, *lines = head.split("\n")
    headers = tuple(tuple(line.split(": ", 1)) for line in lines)
    return int(first.split()[1]), headers, json.loads(body)  # type: ignore[return-value]


def test_envoys_own_replies_look_alike() -> None:
    """Envoy's own refusals have the members that ours have."""
    from tokenweir.envoyconf import local_reply  # noqa: PLC0415 - warns

    for reply in local_reply.REPLIES:
        first = json.loads(local_reply.openai_body(reply))["error"]
        second = json.loads(local_reply.anthropic_body(reply))["error"]

        assert set(first) == {"message", "type", "code", "param", "tokenweir"}
        assert set(second) == {"message", "type", "tokenweir"}
        assert first["tokenweir"]["refusal"] == reply.refusal
        assert first["tokenweir"] == second["tokenweir"]
