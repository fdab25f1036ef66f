"""A policy is checked: all problems, or what it says and what is probably not meant."""

from __future__ import annotations

import pathlib

import pytest

from tests.config.policies import CANARY, FULL, KEY_A, SMALL, edited, write
from tokenweir.cli.main import main


@pytest.fixture(autouse=True)
def _credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def test_problems(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each on stdout, a summary on stderr, and nothing else."""
    text = edited("requests_per_minute: 600", "budget_usd: 0, per: day")
    path = write(tmp_path, edited("version: 1", "version: 1\nretries: 99", text))

    assert main(["check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == (
        "retries: must be at most 10 (line 2)\n"
        "tenants.acme.quotas.0.budget_usd: must be above 0, and at most 4,500,000 US "
        "dollars (line 14)\n"
    )
    assert err == f"{path}: 2 problems. docs/policy.md has every field.\n"


def test_one_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is told in the singular; of a file that is not there, what to give."""
    path = write(tmp_path, edited("version: 1", "version: 1\nretries: 99"))

    assert main(["check", str(path)]) == 1
    assert ": 1 problem. " in capsys.readouterr().err
    assert main(["check", str(tmp_path / "absent")]) == 1
    assert "Give the path of a policy" in capsys.readouterr().err


def test_a_summary(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the policy says, in words, and what in it is probably not meant."""
    path = write(tmp_path, SMALL)

    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.startswith(f"{path}: fine (digest ")
    price = lines.pop(7)
    assert price.startswith(
        "    $0.15 in and $0.60 out for a million tokens, from genai-prices "
    )
    assert lines == [
        "",
        "providers",
        "  openai: openai at https://api.openai.com:443, with credential",
        "  claude: anthropic at https://api.anthropic.com:443, without credential",
        "",
        "models",
        (
            "  gpt-4o-mini: by openai, at most 16,384 output tokens, 4,096 if the app "
            "sets no cap"
        ),
        (
            "  claude-*: by claude, at most 16,384 output tokens, 4,096 if the app sets "
            "no cap"
        ),
        "",
        "tenants",
        "  acme: 1 key, all models",
        "    600 requests per minute",
        "    60,000 tokens per minute",
        "",
        "warnings",
        (
            "  providers.claude: has no credential, so the key that an app sends to "
            "Tokenweir is passed on to it"
        ),
    ]
    assert err == ""
    assert CANARY not in out


def test_a_summary_of_everything(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every part of a quota has its words, and a rename of a model too."""
    local = edited('"http://10.0.0.5:8000"', '"http://[::1]:8000/llm"', FULL)

    assert main(["check", str(write(tmp_path, local))]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "  local: openai at http://[::1]:8000/llm, without credential",
        (
            "  gpt-4o-mini: by openai as gpt-4o-mini-2024-07-18, at most 16,384 output "
            "tokens, 1,000 if the app sets no cap"
        ),
        "  acme: 1 key, models gpt-* and claude-3",
        (
            "    key acme-ci: models gpt-4o-mini only, routes chat_completions and models "
            "only, until 2100-01-31T03:00:00Z"
        ),
        "      60 requests per minute, for each key",
        "    600 requests per minute, 10 at once, in shadow mode",
        "    60,000 input tokens per minute, for each key and model",
        "    8 at a time, models *, routes messages",
        (
            "    $0.25 a month (America/New_York, from day 31 at 06:00), then downgrades "
            "to gpt-4o-mini, else claude-3, at most $0.50, alerts at 50/100%"
        ),
        (
            "    1,000,000 tokens a week (UTC, from Sunday), then throttles to 20%, at "
            "most 2,000,000 tokens, alerts at 50/80/95%"
        ),
        "    1,000,000 output tokens per minute, for each provider, shared by all tenants",
        "every caller is tenant acme, whatever key it sends",
        "  quota acme.burst: is in shadow mode, so it refuses nobody",
    ):
        assert line in lines


def test_what_a_key_may_call(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key with models of its own has a line; lists are told as people tell them."""
    keys = f'sha256: "{KEY_A}", models: [gpt-4o-mini, claude-3, claude-4]'

    assert (
        main(["check", str(write(tmp_path, edited(f'sha256: "{KEY_A}"', keys)))]) == 0
    )
    out = capsys.readouterr().out
    assert (
        "  acme: 1 key, all models\n"
        "    key acme-ci: models gpt-4o-mini, claude-3 and claude-4 only\n"
        "    600 requests per minute\n"
    ) in out


def test_without_secrets(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where a policy is only reviewed, its secrets need not be, and none is missed."""
    monkeypatch.delenv("OPENAI_API_KEY")
    path = write(tmp_path, SMALL)

    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        "providers.openai.credential: environment variable OPENAI_API_KEY is not set "
        "(line 3)\n"
    )
    assert main(["check", "--without-secrets", str(path)]) == 0
    out = capsys.readouterr().out
    assert "credential" not in out
    assert "warnings" not in out
    assert "price" not in out
    assert "  openai: openai at https://api.openai.com:443\n" in out


def test_no_keys(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenant that nobody can be is counted and warned of."""
    keys = SMALL[SMALL.index("    keys:") : SMALL.index("    quotas:")]

    assert main(["check", str(write(tmp_path, edited(keys, "")))]) == 0
    out = capsys.readouterr().out
    assert "  acme: 0 keys, all models\n" in out
    assert (
        "  tenants.acme: has no keys here: only one that is issued can call as it, so "
        "until then nobody is limited by acme.requests_per_minute, "
        "acme.tokens_per_minute\n"
    ) in out
