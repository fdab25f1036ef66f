"""What is decided, for machines: names as in logs, figures as integers, no secret."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.explain.asking import (
    CREDENTIAL,
    KEY,
    NOW_MS,
    Source,
    ask,
    body,
    policy,
    used_up,
)
from tokenweir.core.hold import Stale
from tokenweir.core.policy import Policy
from tokenweir.explain.document import document_of, upstream_name
from tokenweir.explain.explanation import Answers, Explanation
from tokenweir.explain.governed import Governed, by_file
from tokenweir.explain.question import question_of, with_key
from tokenweir.explain.trial import explain, explain_each


def answers(told: Explanation, **more: Any) -> Answers:
    """Return *told* as what a policy file decides."""
    return Answers(told, by_file(told.question.policy), **more)


async def document(folder: Path, data: bytes, **more: Any) -> dict[str, Any]:
    """Return it, as it is read back."""
    told = await explain(ask(policy(folder), data, **more), Source())
    text = json.dumps(document_of(answers(told, ledger="unix:///x")))
    assert "PROMPT-CANARY" not in text
    assert CREDENTIAL not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


async def test_admitted(tmp_path: Path) -> None:
    """Who, what, where to, what it costs, and how each limit stands."""
    found = await document(tmp_path, body())

    assert (found["at"], found["ledger"]) == ("2026-01-01T12:00:00Z", "unix:///x")
    assert found["request"]["route"] == "chat_completions"
    assert found["request"]["door"] == "metered"
    assert found["caller"]["key_models"] == ["gpt-*", "claude-*"]
    assert found["target"] == {
        "model": "gpt-4o",
        "asked_model": "gpt-4o",
        "provider": "openai",
        "upstream_model": "gpt-4o",
        "cluster": found["target"]["cluster"],
        "url": "https://api.openai.com:443",
        "credential": "provider",
        "timeout_class": "default",
        "price": {
            "source": found["target"]["price"]["source"],
            "input_picousd_per_token": 4_000_000,
            "output_picousd_per_token": 20_000_000,
        },
    }
    assert found["way"] == {
        "route": "openai/default",
        "cluster": found["target"]["cluster"],
        "method": "POST",
        "url": "https://api.openai.com:443/v1/chat/completions",
        "timeout_class": "default",
        "total_ms": None,
        "idle_ms": 300_000,
        "retries": 2,
        "retried": ["connection failed", "refused stream", "429", "503"],
        "answer": "read",
        "path": "inspect",
        "set_headers": ["authorization"],
        "removed_headers": [],
    }
    [reservation] = found["reservations"]
    assert (reservation["outcome"], reservation["output_tokens"]) == ("granted", 1_000)
    limits = {each["quota"]: each for each in reservation["limits"]}
    rpm = limits["acme.requests_per_minute"]
    assert (rpm["before"]["remaining"], rpm["after"]["remaining"]) == (2, 1)
    assert (rpm["requested"], rpm["fits"], rpm["wait_ms"]) == (1, True, 0)
    assert found["decision"]["admitted"] is True
    assert (found["reply"], found["edits"]) == (None, {})


async def test_downgraded(tmp_path: Path) -> None:
    """Both tries, and what of the body is changed."""
    found = await document(tmp_path, body(max_tokens=3_000, stream=True))

    outcomes = [(each["model"], each["outcome"]) for each in found["reservations"]]
    assert outcomes == [("gpt-4o", "denied"), ("gpt-4o-mini", "granted")]
    limits = {each["quota"]: each for each in found["reservations"][1]["limits"]}
    assert limits["acme.budget_usd_per_day"]["hard_limit"] == 60_000_000
    assert found["decision"]["downgraded_from"] == "gpt-4o"
    assert found["decision"]["strip_usage"] is True
    assert found["target"]["asked_model"] == "gpt-4o"
    assert found["edits"]["model"] == {"from": "gpt-4o", "to": "gpt-4o-mini"}
    assert found["edits"]["stream_options"]["from"] is None


async def test_refused(tmp_path: Path) -> None:
    """The client's answer, whole; and what never was a target is none."""
    found = await document(tmp_path, body(model="nobodys"))

    assert found["decision"] == {
        "admitted": False,
        "downgraded_from": None,
        "reason": "model_not_allowed",
    }
    assert found["reply"]["status"] == 403
    assert found["reply"]["headers"]["x-tokenweir-refusal"] == "model_not_allowed"
    assert found["reply"]["body"]["error"]["code"] == "model_not_allowed"
    assert (found["target"], found["reservations"]) == (None, [])
    assert all(each["why_not"] for each in found["quotas"])


async def test_nobody(tmp_path: Path) -> None:
    """Without a key there is no caller."""
    told = await explain(question_of(policy(tmp_path), body()), Source())

    assert document_of(answers(told))["caller"] is None
    assert document_of(answers(told))["ledger"] is None


async def test_if_nothing_were_used(tmp_path: Path) -> None:
    """Beside what is decided now, in short; and nothing if that is what was asked."""
    asked = ask(policy(tmp_path), body())
    now, unused = await explain_each(asked, used_up(), Source())
    found = document_of(answers(now, unused=unused))

    assert (found["decision"]["reason"], found["reply"]["status"]) == (
        "quota_exhausted",
        429,
    )
    assert found["if_unused"] == {
        "admitted": True,
        "model": "gpt-4o",
        "downgraded_from": None,
        "status": None,
        "reason": None,
    }
    swapped = document_of(answers(unused, unused=now))["if_unused"]
    assert swapped == {
        "admitted": False,
        "model": None,
        "downgraded_from": None,
        "status": 429,
        "reason": "quota_exhausted",
    }
    assert document_of(answers(now))["if_unused"] is None


async def test_what_governs(tmp_path: Path) -> None:
    """Where policy and key come from, and when the key ends."""
    asked: Policy = policy(tmp_path)
    key = replace(*asked.keys.values(), ends_at_ms=NOW_MS + 1_000)
    asked = replace(asked, keys={"0": key})
    told = await explain(ask(asked, body()), Source())
    plain = document_of(answers(told))
    assert plain["governance"] == {"source": "file", "digest": asked.digest}
    assert plain["caller"]["key_issued"] is False

    shown = {"source": "ledger", "version": 7}
    governed = Governed(asked, shown, issued=(key,))
    found = document_of(Answers(told, governed))
    assert found["governance"] == shown
    assert found["caller"]["key_issued"] is True
    assert found["caller"]["key_ends_at"] == "2026-01-01T12:00:01Z"
    assert found["caller"]["key_end"] == "expired"


async def test_without_a_model(tmp_path: Path) -> None:
    """What nobody reads has no model and no price."""
    found = await document(tmp_path, b"", path="/v1/models")

    assert (found["target"]["model"], found["target"]["price"]) == (None, None)
    assert found["target"]["provider"] == "openai"


async def test_no_price(tmp_path: Path) -> None:
    """A model that has none costs nothing that could be told."""
    models = {"own": {"provider": "openai", "upstream_model": "no-such-model"}}
    key = {"id": "ci", "sha256": 64 * "a"}
    asked = policy(tmp_path, models=models, tenants={"acme": {"keys": [key]}})
    told = await explain(ask(asked, body(model="own")), Source())

    target = document_of(answers(told))["target"]
    assert (target["upstream_model"], target["price"]) == ("no-such-model", None)


async def test_a_window_that_turns(tmp_path: Path) -> None:
    """A try that found another window is told as that, with what it would take."""
    told = await explain(ask(policy(tmp_path), body()), Source())
    [one] = told.reservings
    stale = replace(one, outcome=Stale("0", 1), standings=())
    found = document_of(answers(replace(told, reservings=(stale, one))))

    first, second = found["reservations"]
    assert (first["outcome"], second["outcome"]) == ("stale", "granted")
    assert first["limits"][0] == {"quota": "acme.requests_per_minute", "requested": 1}


async def test_no_key(tmp_path: Path) -> None:
    """The key that was presented is nowhere."""
    asked = with_key(question_of(policy(tmp_path), body()), KEY)
    told = await explain(asked, Source())

    assert KEY not in json.dumps(document_of(answers(told)))


def test_names() -> None:
    """What apps ask for, where no model says otherwise."""
    assert upstream_name(None, "m") == "m"
