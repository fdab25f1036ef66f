"""A request is made up as an app would send it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.explain.asking import KEY, body, policy
from tokenweir.core.events import header_value
from tokenweir.core.identify import Caller, identify
from tokenweir.core.policy import KeyEnd
from tokenweir.core.rejection import UnknownKey
from tokenweir.explain.question import (
    UnknownKeyIdError,
    path_for,
    question_of,
    with_key,
    with_key_id,
    with_unknown_key,
)


def test_defaults(tmp_path: Path) -> None:
    """A body is posted to the API that its model speaks; nothing is got."""
    asked = policy(tmp_path)

    posted = question_of(asked, body(), headers=(("X-A", "b"),))
    assert (posted.head.method, posted.head.path) == ("POST", "/v1/chat/completions")
    assert posted.head.headers == (("x-a", "b"),)
    assert not posted.head.ended
    got = question_of(asked, b"", path="/v1/models")
    assert (got.head.method, got.head.ended) == ("GET", True)
    assert question_of(asked, b"", method="DELETE").head.method == "DELETE"


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (body(model="claude-x"), "/v1/messages"),
        (body(model="gpt-4o"), "/v1/chat/completions"),
        (body(model="unknown"), "/v1/chat/completions"),
        (body(model=5), "/v1/chat/completions"),
        (b"[]", "/v1/chat/completions"),
        (b"{", "/v1/chat/completions"),
        (b"\xff", "/v1/chat/completions"),
        (b"[" * 100_000, "/v1/chat/completions"),
        (b"", "/v1/chat/completions"),
    ],
)
def test_the_path_of_a_body(tmp_path: Path, data: bytes, path: str) -> None:
    """It follows the model, and whatever else is in the body is for the core to say."""
    assert path_for(policy(tmp_path), data) == path


def test_a_key(tmp_path: Path) -> None:
    """It is the only one that is sent."""
    headers = (("x-api-key", "other"), ("x-a", "b"))
    asked = with_key(question_of(policy(tmp_path), body(), headers=headers), KEY)

    assert header_value(asked.head.headers, "authorization") == f"Bearer {KEY}"
    assert ("x-a", "b") in asked.head.headers
    who = identify(asked.policy, asked.head.headers)
    assert isinstance(who, Caller)
    assert (who.tenant.name, who.key.id) == ("acme", "ci")


def test_a_key_by_its_id(tmp_path: Path) -> None:
    """Whoever has no key asks by its id: the same rights, and no other key changes."""
    plain = question_of(policy(tmp_path), body())
    asked = with_key_id(plain, "ci")
    who = identify(asked.policy, asked.head.headers)

    assert isinstance(who, Caller)
    assert who.key in plain.policy.keys.values()
    assert plain.policy.keys.items() <= asked.policy.keys.items()
    assert isinstance(identify(asked.policy, with_key(asked, KEY).head.headers), Caller)


def test_a_rotated_key_by_its_id(tmp_path: Path) -> None:
    """Its newest secret is meant, whether or not that one ends too."""
    asked = policy(tmp_path)
    [new] = asked.keys.values()
    old = replace(new, ends_at_ms=9, end=KeyEnd.ROTATED)
    for current in (new, replace(new, ends_at_ms=5)):
        for keys in ({"0": old, "1": current}, {"0": current, "1": old}):
            both = replace(asked, keys=keys)
            named = with_key_id(question_of(both, body()), "ci")
            who = identify(named.policy, named.head.headers)
            assert isinstance(who, Caller)
            assert who.key is current


def test_a_key_that_nobody_knows(tmp_path: Path) -> None:
    """It is presented, and no caller comes of it."""
    asked = with_unknown_key(question_of(policy(tmp_path), body()))

    assert header_value(asked.head.headers, "authorization")
    assert isinstance(identify(asked.policy, asked.head.headers), UnknownKey)


def test_an_unknown_id(tmp_path: Path) -> None:
    """The ids that there are, the first ten."""
    keys = [{"id": f"k{n:02}", "sha256": f"{n:064}"} for n in range(12)]
    for entries, text in (([], "it has no keys"), (keys, "k00, k01"), (keys, "2 more")):
        tenants = {"acme": {"keys": entries}}
        plain = question_of(policy(tmp_path, tenants=tenants), body())
        with pytest.raises(UnknownKeyIdError, match=text):
            with_key_id(plain, "nobody")
