"""What decides is said by options that go together, and what is wrong has a remedy."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.explain.asking import policy
from tests.governance.documents import PUBLIC
from tokenweir.cli.explain_source import (
    SourceOptionError,
    add_options,
    is_about_secrets,
    look_of,
    notes,
    settings_of,
    why_ungoverned,
    why_untold,
)
from tokenweir.config.outside import look_up, look_up_prices
from tokenweir.explain.governed import Governed
from tokenweir.governance.key_files import public_text

KEY = ("--governance-key", "env:PUBLIC")
LEDGER = ("--ledger", "redis://x")


def parsed(*arguments: str) -> argparse.Namespace:
    """Return what is given on a command line."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBLIC", public_text(PUBLIC))


@pytest.mark.parametrize(
    ("arguments", "path", "keys"),
    [
        (("--policy", "p.yaml"), "p.yaml", 0),
        (("--policy", "p.yaml", *LEDGER), "p.yaml", 0),
        (("--policy", "p.yaml", *LEDGER, *KEY), "p.yaml", 1),
        (("--policy", "./ledger", *LEDGER, *KEY), "ledger", 1),
        (("--policy", "ledger", *LEDGER, *KEY), None, 1),
        ((*LEDGER, *KEY), None, 1),
    ],
)
def test_where_it_is(arguments: tuple[str, ...], path: str | None, keys: int) -> None:
    """A file, the ledger, or a file with the ledger's keys; nothing is kept."""
    found = settings_of(parsed(*arguments))

    assert found.path == (Path(path) if path else None)
    assert len(found.public_keys) == keys
    assert found.last_good is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "--policy: say which one decides"),
        (LEDGER, "--policy: say which one decides"),
        (("--policy", "ledger", *LEDGER), "--policy ledger needs --governance-key"),
        (KEY, "--ledger: where is it?"),
        (("--policy", "p.yaml", *KEY), "--ledger: where is it?"),
    ],
)
def test_what_is_missing(arguments: tuple[str, ...], problem: str) -> None:
    """It is told by the option that is missing."""
    with pytest.raises(SourceOptionError, match=problem):
        settings_of(parsed(*arguments))


def test_secrets() -> None:
    """They are looked up, unless it is said otherwise."""
    assert look_of(parsed()) is look_up
    assert look_of(parsed("--without-secrets")) is look_up_prices
    found = settings_of(parsed(*LEDGER, *KEY, "--without-secrets"))
    assert found.look is look_up_prices


@pytest.mark.parametrize(
    ("problem", "about"),
    [
        ("providers.a.credential: environment variable A is not set", True),
        ("providers.a.credential: env:A is empty", True),
        ("policy 3: providers.a.credential: file:/a can't be read: no such", True),
        ("providers.a.ca_file: can't be read: no such file or directory", True),
        ("providers.a.ca_file: is not a regular file", True),
        ("notifications.webhook.secret: environment variable A is not set", True),
        ("policy: can't be read: no such file or directory", False),
        ("prices.overlays.0: can't be read: no such file or directory", False),
        ("providers.a.credential: must say where the secret is", False),
    ],
)
def test_problems_that_only_pods_do_not_have(problem: str, about: bool) -> None:
    """A file of prices has to be there: without it nothing could be explained."""
    assert is_about_secrets([problem]) is about
    assert is_about_secrets(["another", problem]) is about
    assert ("--without-secrets" in why_ungoverned(problem)) is about


def test_what_to_do() -> None:
    """Each error ends with what helps."""
    told = why_untold("redis://x:1", "how limits stand", "no answer: TimeoutError")
    assert told.startswith("--ledger: redis://x:1 does not tell how limits stand: no")
    assert told.endswith("Does it run, and do user and password fit?")
    told = why_untold("redis://x:1", "it", "no answer: NoPermissionError")
    assert told.endswith("the rights of tokenweir-reader in deploy/redis.")

    told = why_ungoverned("none is published: `tokenweir policy publish` does")
    assert told.endswith("published: `tokenweir policy publish` does.")
    assert why_ungoverned("policy 1: tenants: x").endswith("good policy in its place.")
    forged = "keys 1: is not signed by the holder of any governance key"
    assert "Is --governance-key the file" in why_ungoverned(forged)


def test_notes(tmp_path: Path) -> None:
    """What is published and not used, and the asked key if it is ignored; no others."""
    ignored = ("issued key a: why, so it is ignored", "issued key ab: because")
    governed = Governed(policy(tmp_path), {}, ("keys 1: is bad",), ignored=ignored)

    first, second = notes(governed, "ab", "")
    assert first.startswith("warning: what was published last can't be used, so what")
    assert first.endswith(" keys 1: is bad. docs/keys.md tells how to bring keys back.")
    assert second == "note: issued key ab: because"
    assert len(list(notes(governed, None, ""))) == 1
    assert list(notes(Governed(policy(tmp_path), {}), "a", "b")) == []
