"""An explanation can be read: who, each try, which quotas, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.explain.asking import (
    CHEAPER,
    CREDENTIAL,
    KEY,
    NOW_MS,
    Source,
    ask,
    body,
    policy,
    used_up,
)
from tokenweir.cli.explain_text import text_of
from tokenweir.core.calibration import Learned, Place, Side
from tokenweir.core.hold import Stale
from tokenweir.core.policy import KeyEnd
from tokenweir.explain.explanation import Answers, Explanation
from tokenweir.explain.governed import Governed, by_file
from tokenweir.explain.question import question_of, with_key
from tokenweir.explain.trial import explain, explain_each


async def text(folder: Path, data: bytes, **more: Any) -> str:
    """Return what is said of *data* when nothing was used yet."""
    changes = more.pop("changes", {})
    told = await explain(ask(policy(folder, **changes), data, **more), Source())
    return checked(told)


def checked(told: Explanation, **more: Any) -> str:
    """Return what is said of *told*, in which is no secret and no prompt."""
    more = {"governed": by_file(told.question.policy), **more}
    said = text_of(Answers(told, **more))
    assert "CANARY" not in said
    assert CREDENTIAL not in said
    assert all(line == line.rstrip() for line in said.splitlines())
    return said


def columns(said: str, quota: str) -> str:
    """Return the line of *quota*, its columns apart by one space."""
    lines = [line for line in said.splitlines() if line.startswith(f"  {quota} ")]
    [line] = [line for line in lines if "tenant=" in line]
    return " ".join(line.split())


async def test_admitted(tmp_path: Path) -> None:
    """Each limit with what is left, what is needed, and what remains."""
    said = await text(tmp_path, body())

    assert "caller    tenant acme, key ci; the key may call gpt-*, claude-*" in said
    assert "as if nothing were used yet" in said
    assert "\nmoment    2026-01-01T12:00:00Z\n" in said
    assert ", from a file\nledger    none: as if" in said
    assert "if nothing were used yet\n" not in said
    assert "\nreserving: gpt-4o\n" in said
    assert "  to        openai, https://api.openai.com:443, cluster openai-" in said
    assert "  price     $4.00 in and $20.00 out for a million tokens, from " in said
    assert (
        "(counted by the model's own tokenizer), at most 1,000 out, at most $0." in said
    )
    assert columns(said, "acme.requests_per_minute") == (
        "acme.requests_per_minute tenant=acme 2 2 1 1 yes"
    )
    assert "\n  granted\n" in said
    assert "  acme.concurrency: it is for the models claude-*\n" in said
    assert "\ndecision\n  admitted\n" in said
    assert "  sent with the provider's credential, timeouts default" in said


async def test_a_correction_is_told(tmp_path: Path) -> None:
    """By how much, and that reports have taught it."""
    source = Source()
    place = Place("acme", "openai", "gpt-4o", "chat_completions")
    source.known[place, Side.INPUT] = Learned(20, 4_000, 693_147, 100, 0)
    said = checked(await explain(ask(policy(tmp_path), body()), source))

    assert "(estimated, text times 2.00 as reports have taught), at most" in said


async def test_downgraded(tmp_path: Path) -> None:
    """Two tries; which budget had no room, and what the provider gets."""
    said = await text(tmp_path, body(max_tokens=3_000, stream=True))

    assert "\ntry 1: gpt-4o\n" in said
    assert "\n  denied by acme.budget_usd_per_day\n" in said
    assert "\ntry 2: gpt-4o-mini\n" in said
    assert "yes (spent: up to its hard limit)" in said
    assert (
        "  downgraded: gpt-4o-mini answers instead of gpt-4o: acme.budget_usd_per_day "
        "has no room for that\n"
    ) in said
    assert '  body: model: "gpt-4o" becomes "gpt-4o-mini"\n' in said
    assert '  body: stream_options: (not set) becomes {"include_usage": true}\n' in said
    assert "is taken out of the stream" in said


async def test_without_a_hard_limit(tmp_path: Path) -> None:
    """A spent budget that other budgets bound has no most of its own."""
    yielding = {**CHEAPER, "on_exceeded": {"downgrade_to": "gpt-4o-mini"}}
    key = {"id": "ci", "sha256": 64 * "a"}
    quotas = [yielding, {"budget_usd": 9, "per": "day", "name": "all"}]
    tenants = {"acme": {"keys": [key], "quotas": quotas}}
    said = await text(tmp_path, body(max_tokens=3_000), changes={"tenants": tenants})

    lines = [
        line.split() for line in said.splitlines() if "up to its hard limit" in line
    ]
    assert [line[2] for line in lines] == ["-"]


async def test_refused(tmp_path: Path) -> None:
    """What the client gets: status, headers, body."""
    said = await text(tmp_path, body(model="nobodys"))

    assert "\n  refused: 403 model_not_allowed\n" in said
    assert "\n  x-tokenweir-refusal: model_not_allowed\n" in said
    assert '\n      "code": "model_not_allowed",\n' in said


async def test_shadows_and_waits(tmp_path: Path) -> None:
    """What a shadow would have done, and how long until it would fit."""
    said = await text(tmp_path, body(messages=[{"role": "user", "content": "a " * 9}]))

    assert "no, wait " in columns(said, "acme.input_tokens_per_minute")
    assert said.count("(shadow)") == 1
    assert (
        "acme.input_tokens_per_minute would have refused it, but is in shadow" in said
    )


async def test_without_a_body(tmp_path: Path) -> None:
    """What nobody reads names no model."""
    said = await text(tmp_path, b"", path="/v1/models")

    assert "GET /v1/models: bodiless path, no body, route models" in said
    assert "\nreserving\n" in said
    assert "  takes     1 request, no tokens\n" in said


async def test_no_quota(tmp_path: Path) -> None:
    """A tenant without limits is told as one; and the app's own headers go along."""
    tenants = {"acme": {"keys": [{"id": "ci", "sha256": 64 * "a"}], "models": ["cl*"]}}
    data = body(model="claude-3-5-haiku-latest")
    said = await text(tmp_path, data, changes={"tenants": tenants})

    assert "\n  no quota applies\n" in said
    assert "  price     from " in said
    assert "the tenant may call cl*" in said
    assert "sent with the app's headers" in said
    said = await text(tmp_path, body(model="cl"), changes={"tenants": tenants})
    assert "  refused: 403 " in said


async def test_a_family_without_a_price(tmp_path: Path) -> None:
    """Nobody knows what it costs: that is said."""
    tenants = {"acme": {"keys": [{"id": "ci", "sha256": 64 * "a"}]}}
    said = await text(tmp_path, body(model="claude-x"), changes={"tenants": tenants})

    assert "  price     no price\n" in said


async def test_who_calls(tmp_path: Path) -> None:
    """A key's scopes; and nobody, who has none."""
    asked = policy(tmp_path)
    told = await explain(with_key(question_of(asked, body()), KEY), Source())
    assert told.caller is not None
    key = replace(
        told.caller.key, routes=("messages",), ends_at_ms=0, end=KeyEnd.REVOKED
    )
    said = checked(replace(told, caller=replace(told.caller, key=key)))
    assert (
        "the key is for messages; the key was revoked at 1970-01-01T00:00:00Z" in said
    )
    for end, ends_at_ms, how in (
        (KeyEnd.EXPIRED, NOW_MS, "expired at 2026-01-01T12:00:00Z"),
        (KeyEnd.EXPIRED, NOW_MS + 1_000, "expires at 2026-01-01T12:00:01Z"),
        (KeyEnd.ROTATED, NOW_MS, "was replaced by a newer secret, and ended at 2026-"),
        (KeyEnd.ROTATED, NOW_MS + 1, "was replaced by a newer secret, and works until"),
        (KeyEnd.REVOKED, NOW_MS + 1, "was revoked at 2026-"),
    ):
        ended = replace(key, ends_at_ms=ends_at_ms, end=end)
        said = checked(replace(told, caller=replace(told.caller, key=ended)))
        assert f"; the key {how}" in said

    told = await explain(question_of(asked, body()), Source())
    assert "caller    not known\n" in checked(told)
    assert "ledger    redis://x:1\n" in checked(told, ledger="redis://x:1")


async def test_what_governs(tmp_path: Path) -> None:
    """Which versions are in force, by whom, and how many keys do not count."""
    asked = policy(tmp_path)
    told = await explain(with_key(question_of(asked, body()), KEY), Source())
    published = {"version": 8, "by": "ann@x", "published_at": "2026-01-01T00:00:00Z"}
    keys = {**published, "version": 3, "count": 12, "ignored": ["a", "b"]}
    shown = {"source": "ledger", "digest": "d1", **published, "comment": "more"}
    governed = Governed(asked, {**shown, "keys": keys}, issued=(*asked.keys.values(),))
    said = checked(told, governed=governed)

    at = "by ann@x, 2026-01-01T00:00:00Z"
    assert f"policy    d1, as published: version 8 {at}: more\n" in said
    assert (
        f"keys      as published: version 3 {at}; 12 secrets in it, 2 of them ig"
        in said
    )
    assert "caller    tenant acme, key ci (issued); " in said
    fine = {**shown, "comment": "", "keys": {**keys, "ignored": []}}
    said = checked(told, governed=Governed(asked, fine))
    assert f"version 8 {at}\n" in said
    assert "; 12 secrets in it\n" in said
    assert "key ci; " in said


async def test_if_nothing_were_used(tmp_path: Path) -> None:
    """What would be decided then, if it is something else."""
    asked = policy(tmp_path)
    denied, granted = await explain_each(ask(asked, body()), used_up(), Source())
    cheaper = await explain(ask(asked, body(max_tokens=3_000)), Source())
    got = await explain(ask(asked, b"", path="/v1/models"), Source())

    for now, unused, short in (
        (denied, granted, "admitted: gpt-4o answers"),
        (denied, denied, "the same"),
        (granted, granted, "the same"),
        (cheaper, cheaper, "the same"),
        (granted, denied, "refused: 429 quota_exhausted"),
        (denied, cheaper, "downgraded: gpt-4o-mini answers instead of gpt-4o"),
        (denied, got, "admitted"),
    ):
        said = checked(now, ledger="redis://x:1", unused=unused)
        assert said.endswith(f"\n\nif nothing were used yet\n  {short}")


async def test_a_window_that_turned(tmp_path: Path) -> None:
    """A try that the ledger's clock made void is followed by another."""
    told = await explain(ask(policy(tmp_path), body()), Source())
    [one] = told.reservings
    stale = replace(one, outcome=Stale("0", 1), standings=())
    said = checked(replace(told, reservings=(stale, one)))

    assert "\n  a budget's window has turned meanwhile: once more\n" in said
