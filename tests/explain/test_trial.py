"""A request is decided on as in a pod, and nothing is sent or taken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.asking import NOW_MS, Raising, Source, ask, body, policy, used_up
from tests.forms import form
from tokenweir.core.calibration import Learned, Place, Side
from tokenweir.core.commands import Forward, Reject
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted
from tokenweir.core.rejection import (
    Malformed,
    ModelNotAllowed,
    PathNotMetered,
    QuotaExhausted,
    UnknownKey,
    Unsatisfiable,
)
from tokenweir.core.usage import Source as UsageSource
from tokenweir.explain.explanation import Explanation
from tokenweir.explain.question import question_of
from tokenweir.explain.trial import edits_of, explain, explain_each


async def told(folder: Path, data: bytes, **more: Any) -> Explanation:
    """Return what is decided about *data* when nothing was used yet."""
    return await explain(ask(policy(folder), data, **more), Source())


async def test_admitted(tmp_path: Path) -> None:
    """Who, what for, how much, and by which quotas; the body goes as it is."""
    found = await told(tmp_path, body())

    assert isinstance(found.answer, Forward)
    assert found.reply is None
    assert (found.subject.tenant, found.subject.key_id) == ("acme", "ci")
    assert (found.subject.model, found.subject.provider) == ("gpt-4o", "openai")
    [count] = found.counts
    assert (count.model, count.source) == ("gpt-4o", UsageSource.COUNTED)
    [reserving] = found.reservings
    assert isinstance(reserving.outcome, Granted)
    assert reserving.hold.amounts.input_tokens == count.tokens
    assert reserving.hold.amounts.output_tokens == 1_000
    assert reserving.hold.amounts.cost_nanousd >= 20_000_000
    assert {each.quota.id: bool(each.why_not) for each in found.quotas} == {
        "acme.requests_per_minute": False,
        "acme.tokens_per_minute": False,
        "acme.concurrency": True,
        "acme.input_tokens_per_minute": False,
        "acme.messages": True,
        "acme.budget_usd_per_day": False,
    }
    assert (found.edits, found.faults, found.now_ms) == ({}, (), NOW_MS)


async def test_what_was_learned_is_used(tmp_path: Path) -> None:
    """The caller's estimates are corrected as a processor would, and others' are not."""
    usual = await told(tmp_path, body())
    for tenant, factor in (("acme", 2.0), ("globex", 1.0)):
        place = Place(tenant, "openai", "gpt-4o", "chat_completions")
        source = Source()
        source.known[place, Side.INPUT] = Learned(20, 4_000, 693_147, 100, 0)
        found = await explain(ask(policy(tmp_path), body()), source)

        [count] = found.counts
        assert count.factor == pytest.approx(factor, rel=1e-3)
        assert count.tokens == pytest.approx(factor * usual.counts[0].tokens, rel=0.01)


async def test_downgraded(tmp_path: Path) -> None:
    """A budget without room makes another model answer, and the body says so."""
    found = await told(tmp_path, body(max_tokens=3_000, stream=True))

    assert isinstance(found.answer, Forward)
    assert found.subject.downgraded_from == "gpt-4o"
    assert [type(each.outcome) for each in found.reservings] == [Denied, Granted]
    assert [each.model for each in found.counts] == ["gpt-4o", "gpt-4o-mini"]
    assert found.edits["model"] == ('"gpt-4o"', '"gpt-4o-mini"')
    assert found.edits["stream_options"] == ("", '{"include_usage": true}')


async def test_refused(tmp_path: Path) -> None:
    """What is used up refuses, as the client would read it."""
    found = await explain(ask(policy(tmp_path), body()), used_up())

    assert isinstance(found.answer, Reject)
    assert isinstance(found.answer.why, QuotaExhausted)
    assert found.reply is not None
    assert found.reply.status == 429
    assert ("retry-after", "30") in found.reply.headers
    detail = json.loads(found.reply.body)["error"]["tokenweir"]
    assert detail["quota"] == "acme.requests_per_minute"
    assert detail["retry_after_ms"] == 30_000


@pytest.mark.parametrize(
    ("data", "more", "why", "status"),
    [
        (body(model="nobodys"), {}, ModelNotAllowed, 403),
        (body(model="renamed"), {}, ModelNotAllowed, 403),
        (body(messages=5), {}, Malformed, 400),
        (b"{", {}, Malformed, 400),
        (body(max_tokens=5_000, model="gpt-4o-mini"), {}, Unsatisfiable, 400),
        (body(), {"path": "/v1/files"}, PathNotMetered, 403),
        (body(model="claude-x"), {"path": "/v1/chat/completions"}, Malformed, 400),
    ],
)
async def test_refused_at_once(
    tmp_path: Path, data: bytes, more: dict[str, Any], why: type, status: int
) -> None:
    """What no waiting helps is told without asking the ledger."""
    found = await told(tmp_path, data, **more)

    assert isinstance(found.answer, Reject)
    assert isinstance(found.answer.why, why)
    assert found.reply is not None
    assert found.reply.status == status
    assert found.reservings == ()
    assert found.caller is not None
    assert found.faults == ()


async def test_nobody(tmp_path: Path) -> None:
    """Without a key nobody calls, and has no quotas."""
    found = await explain(question_of(policy(tmp_path), body()), Source())

    assert isinstance(found.answer, Reject)
    assert isinstance(found.answer.why, UnknownKey)
    assert (found.caller, found.quotas) == (None, ())


async def test_anthropic(tmp_path: Path) -> None:
    """Its bodies go to its path and are refused in its words."""
    found = await told(tmp_path, body(model="claude-x", max_tokens=1_000))
    assert found.entry.route == "messages"
    assert {each.quota.id for each in found.quotas if not each.why_not} >= {
        "acme.concurrency",
        "acme.messages",
    }

    found = await told(tmp_path, body(model="claude-x", max_tokens=None))
    assert found.reply is not None
    assert json.loads(found.reply.body)["type"] == "error"


async def test_without_a_body(tmp_path: Path) -> None:
    """What nobody reads takes a request, and no token."""
    found = await told(tmp_path, b"", path="/v1/models")

    assert isinstance(found.answer, Forward)
    assert found.counts == ()
    assert found.reservings[0].hold.amounts.output_tokens == 0
    assert [each.quota.id for each in found.quotas if not each.why_not] == [
        "acme.requests_per_minute"
    ]


async def test_shadows(tmp_path: Path) -> None:
    """A quota in shadow mode refuses nobody, and is told."""
    found = await told(
        tmp_path, body(messages=[{"role": "user", "content": 50 * "a "}])
    )

    assert isinstance(found.answer, Forward)
    assert [each.quota for each in found.answer.ticket.shadowed] == [
        "acme.input_tokens_per_minute"
    ]


async def test_no_ledger(tmp_path: Path) -> None:
    """A ledger that can't be read is no decision, whatever the quotas would make of it."""
    silent = Raising(LedgerUnavailableError("silent"))

    with pytest.raises(LedgerUnavailableError):
        await explain(ask(policy(tmp_path), body()), silent)


async def test_faults_are_told(tmp_path: Path) -> None:
    """What breaks meanwhile shows, by its type only: it is no decision."""
    broken = Raising(RuntimeError("PROMPT-CANARY"))
    found = await explain(ask(policy(tmp_path), body()), broken)

    assert found.reply is not None
    assert found.reply.status == 500
    assert set(found.faults) == {"request: RuntimeError", "background: RuntimeError"}


def test_edits() -> None:
    """Members that are changed, added and gone; nothing, where the body stays."""
    old, new = b'{"a": 1, "b": [1], "c": 2}', b'{"a": 2, "b": [1], "d": null}'

    assert edits_of(old, None) == {}
    assert edits_of(old, new) == {"a": ("1", "2"), "c": ("2", ""), "d": ("", "null")}


async def test_several_ledgers(tmp_path: Path) -> None:
    """One request at one moment, by each of them; none knows of the others."""
    first, second = used_up(), Source(now_ms=NOW_MS + 9)
    now, unused = await explain_each(ask(policy(tmp_path), body()), first, second)

    assert isinstance(now.answer, Reject)
    assert isinstance(unused.answer, Forward)
    assert (now.now_ms, unused.now_ms) == (NOW_MS, NOW_MS)
    assert {each[1] for each in second.asked} == {NOW_MS}
    assert now.counts == unused.counts


def test_edits_of_a_form() -> None:
    """A form's texts are told as they are; its files are not."""
    old, new = (
        form(("model", "a"), ("file", b"x")),
        form(("model", "b"), ("file", b"x")),
    )

    assert edits_of(old, new) == {"model": ('"a"', '"b"')}


@pytest.mark.parametrize("data", [body(), body(model="gpt-4o", stream=True)])
async def test_encoded(tmp_path: Path, data: bytes) -> None:
    """An encoded body is decided on, and edited, as if it were plain."""
    coded = [("content-encoding", "gzip")]
    plain = await told(tmp_path, data)
    found = await told(tmp_path, gzip.compress(data), headers=coded)
    broken = await told(tmp_path, data, headers=coded)

    assert isinstance(found.answer, Forward)
    assert found.edits == plain.edits
    assert found.counts == plain.counts
    assert isinstance(broken.answer, Reject)
    assert isinstance(broken.answer.why, Malformed)
