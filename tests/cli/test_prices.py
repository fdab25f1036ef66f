"""`tokenweir prices` shows what a model costs, and who says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.config.policies import CANARY, SMALL, edited, write
from tokenweir.cli.main import main

AT = ("--at", "2026-11-30")


def out(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what the command prints."""
    assert main(["prices", *arguments]) == 0
    return capsys.readouterr().out


def overlay(folder: Path, **entries: object) -> str:
    """Return the name of a price file."""
    path = folder / "ours.json"
    path.write_text(json.dumps(entries))
    return str(path)


def test_a_listed_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Each tier is a line, and another for long inputs; the source is told."""
    lines = out(capsys, "gpt-5.4", *AT).splitlines()
    cells = [line.split() for line in lines]

    assert lines[0].startswith("openai/gpt-5.4, from genai-prices 0.")
    assert lines[0].endswith(", at 2026-11-30T00:00:00Z")
    assert lines[1] == "USD for a million tokens"
    assert ["tier", "input", "above", "input", "cached", "output"] in cells
    assert ["default", "2.50", "0.25", "15.00"] in cells
    assert ["default", "272,000", "5.00", "0.50", "22.50"] in cells
    assert ["priority", "5.00", "0.50", "30.00"] in cells
    assert "charged like input: image in, write 1h, write 5m" in lines
    assert "charged like output: image out, reasoning" in lines
    assert "without a price: audio in, audio out" in lines


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All classes, exact amounts as text, and which prices are the class's own."""
    document = json.loads(out(capsys, "claude-sonnet-4-5", "--json", *AT))
    classes = document["tiers"]["default"]["classes"]

    assert document["model"] == "anthropic/claude-sonnet-4-5"
    assert document["at"] == "2026-11-30T00:00:00Z"
    assert document["tiers"]["default"]["request_usd"] == "0.00"
    assert classes["cache_write_tokens"] == {
        "price": "3.75",
        "own": True,
        "steps": [{"input_tokens_above": 200_000, "price": "7.50"}],
    }
    assert classes["reasoning_tokens"]["own"] is False
    assert "audio_input_tokens" not in classes
    assert (
        document["tiers"]["batch"]["classes"]["cache_write_tokens"]["price"] == "1.875"
    )


def test_an_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It comes before the list, from its date on; a fee is told."""
    path = overlay(
        tmp_path,
        **{
            "gpt-4o": [
                {"since": "2026-01-01", "input_cost_per_token": 2e-6},
                {
                    "since": "2026-12-01",
                    "input_cost_per_token": 1e-6,
                    "output_cost_per_token_flex": 1e-6,
                    "input_cost_per_request": 0.005,
                },
            ]
        },
    )

    before = out(capsys, "gpt-4o", "--overlay", path, *AT)
    after = out(capsys, "gpt-4o", "--overlay", path, "--at", "2026-12-01T00:00Z")
    assert "gpt-4o, from ours.json" in before
    assert ["default", "2.00"] in [line.split() for line in before.splitlines()]
    assert (
        "without a price: audio in, audio out, image out, output, reasoning" in before
    )
    assert ["default", "1.00", "-"] in [line.split() for line in after.splitlines()]
    assert ["flex", "1.00", "1.00"] in [line.split() for line in after.splitlines()]
    assert after.endswith("and for each request: 0.005\n")


def test_today(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a date it is as of now, and a provider may be told apart."""
    text = out(capsys, "gpt-4o", "--provider", "azure")

    assert text.startswith("azure/gpt-4o, from genai-prices")


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("no-such-model\x1b[2J", ""),
        ("gpt-4o-audio-preview-x", "openai/gpt-4o-audio-preview"),
    ],
)
def test_no_price(model: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told what to do, and what the model is not; a terminal is left alone."""
    assert main(["prices", model]) == 1
    captured = capsys.readouterr()

    assert captured.out == ""
    assert "has no price" in captured.err
    assert "overlay" in captured.err
    assert hint in captured.err
    assert "\x1b" not in captured.err


def test_a_wrong_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its problems are told, and nothing else."""
    path = overlay(tmp_path, m={"input_cost_per_token": 3})

    assert main(["prices", "m", "--overlay", path]) == 1
    told = capsys.readouterr()
    assert told.out == (
        "prices.m.input_cost_per_token: must be from 0 to 0.01: USD for one token, "
        "not for a million\n"
    )
    assert told.err == f"{path}: 1 problem. docs/prices.md has every field.\n"


def test_several_wrong_overlays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is looked at, one that is not there too."""
    wrong, absent = overlay(tmp_path, m=[3]), str(tmp_path / "absent.json")

    assert main(["prices", "m", "--overlay", absent, "--overlay", wrong]) == 1
    told = capsys.readouterr()
    assert told.out == (
        "prices: can't be read: no such file or directory\n"
        "prices.m.0: must be an object of prices\n"
    )
    assert [line.split(":")[0] for line in told.err.splitlines()] == [absent, wrong]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a policy file with prices of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    entry = {"input_cost_per_token": 4e-7, "output_cost_per_token": 8e-7}
    path = overlay(tmp_path, **{"azure/house": entry})
    text = edited("  gpt-4o-mini: {", "  ours: {upstream_model: house, ")
    text = edited("dialect: openai, ", "dialect: openai, priced_as: azure, ", text)
    text += (
        "prices:\n"
        f"  overlays: [{path}]\n"
        "  ceiling: {input_usd_per_million: 20, output_usd_per_million: 99.5}\n"
    )
    return str(write(tmp_path, text))


def test_of_a_policy(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Overlays, the provider's seller and the name there are the policy's."""
    lines = out(capsys, "ours", "--policy", policy, *AT).splitlines()

    assert lines[0] == "azure/house, from ours.json, at 2026-11-30T00:00:00Z"
    assert ["default", "0.40", "0.80"] in [line.split() for line in lines]


def test_the_ceiling_of_a_policy(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has no other price costs the ceiling, and that is said."""
    lines = out(capsys, "claude-next", "--policy", policy, *AT).splitlines()

    assert lines[0].startswith("ceiling, from policy, ")
    (default,) = [line.split() for line in lines if line.startswith("default ")]
    assert (default[1], default[-1]) == ("20.00", "99.50")


def test_no_price_in_a_policy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No price, no such model and no such policy are told apart."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    path = str(write(tmp_path, SMALL))

    assert main(["prices", "claude-next", "--policy", path]) == 1
    assert "claude-next has no price." in capsys.readouterr().err
    assert main(["prices", "other\x1b", "--policy", path]) == 1
    assert capsys.readouterr().err == f"prices: other is no model of {path}\n"
    assert main(["prices", "other", "--policy", f"{path}.old"]) == 1
    assert "Give the path of a policy" in capsys.readouterr().err


def test_a_policy_tells_the_provider(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another provider beside a policy is a wrong use of the command."""
    assert main(["prices", "ours", "--policy", policy, "--provider", "openai"]) == 2
    assert "--provider" in capsys.readouterr().err


def test_a_wrong_date(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a wrong use of the command."""
    with pytest.raises(SystemExit) as caught:
        main(["prices", "gpt-4o", "--at", "yesterday"])

    assert caught.value.code == 2
    assert "--at: must be a date" in capsys.readouterr().err
