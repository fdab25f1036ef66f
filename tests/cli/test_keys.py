"""Keys are made at random, shown once, and known by their hash."""

from __future__ import annotations

import getpass
import hashlib
import io
import pathlib
import re

import pytest

from tests.config.policies import ENV, KEY_A, SMALL, edited, load
from tokenweir.cli.main import main
from tokenweir.core.identify import Caller, identify

KEY = "sk-tw-" + "x" * 43


def hashed(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    """Return the exit code of hashing what is piped in."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["keys", "hash"])


def test_a_new_key(capsys: pytest.CaptureFixture[str]) -> None:
    """It is 43 random characters behind a prefix; its hash is in the entry."""
    keys = set()
    for _ in range(20):
        assert main(["keys", "new", "--id", "ci-1", "--tenant", "acme"]) == 0
        out = capsys.readouterr().out
        (key,) = re.findall(r"^  (sk-tw-[A-Za-z0-9_-]{43})$", out, re.MULTILINE)
        digest = hashlib.sha256(key.encode()).hexdigest()
        assert f'  - {{id: ci-1, sha256: "{digest}"}}\n' in out
        assert "under tenants.acme.keys:" in out
        assert out.count(key) == 1
        keys.add(key)

    assert len(keys) == 20


def test_a_new_key_works(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the entry in the policy, who sends the key is the tenant."""
    main(["keys", "new", "--id", "app"])
    out = capsys.readouterr().out
    (key,) = re.findall(r"sk-tw-\S+", out)
    entry = out.splitlines()[-1].strip()
    old = f'- {{id: acme-ci, sha256: "{KEY_A}"}}'
    policy = load(tmp_path, edited(old, entry), ENV)
    caller = identify(policy, (("authorization", f"Bearer {key}"),))

    assert isinstance(caller, Caller)
    assert (caller.tenant.name, caller.key.id) == ("acme", "app")
    assert SMALL.count(old) == 1


@pytest.mark.parametrize(
    "arguments", [("--id", "a b"), ("--id", ""), ("--id", "a", "--tenant", "a/b")]
)
def test_names_that_no_policy_takes(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused before a key is made for nothing."""
    assert main(["keys", "new", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("An id or tenant begins with a letter or digit")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_piped_key_is_hashed(
    end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newline at its end is no part of it, and only the hash is printed."""
    assert hashed(monkeypatch, KEY + end) == 0
    out, err = capsys.readouterr()
    assert out == hashlib.sha256(KEY.encode()).hexdigest() + "\n"
    assert err == ""


def test_a_typed_key_is_hashed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a terminal it is asked for, and not shown."""
    asked: list[str] = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        return KEY

    stdin = io.StringIO()
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr(getpass, "getpass", typed)

    assert main(["keys", "hash"]) == 0
    assert asked == ["Key (not shown): "]
    assert KEY not in "".join(capsys.readouterr())


def test_a_short_key_is_hashed_with_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can be guessed is the operator's choice, but a known one."""
    assert hashed(monkeypatch, "changeme") == 0
    out, err = capsys.readouterr()
    assert len(out.strip()) == 64
    assert "may be guessed" in err
    assert "changeme" not in err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "No key was given"),
        ("\n", "No key was given"),
        ("two words", "That can't be a key"),
        (f"{KEY}\nmore", "That can't be a key"),
        (f"{KEY}\n\n", "That can't be a key"),
        ("schlüssel", "That can't be a key"),
        ("x" * 8193, "That can't be a key"),
        ("x" * 20_000, "That can't be a key"),
    ],
)
def test_what_is_no_key(
    text: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What could never be sent is not hashed, and not repeated."""
    assert hashed(monkeypatch, text) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(problem)
    assert KEY not in err


def test_the_longest_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it counts."""
    assert hashed(monkeypatch, "x" * 8192 + "\r\n") == 0
    digest = hashlib.sha256(b"x" * 8192).hexdigest()
    assert capsys.readouterr().out == digest + "\n"
