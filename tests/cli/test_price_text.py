"""What `tokenweir check` says of prices."""

from __future__ import annotations

import pathlib

import pytest

from tests.config.policies import CANARY, edited, write
from tokenweir.cli.main import main


@pytest.fixture(autouse=True)
def _credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "no price"),
        (
            (
                "prices: {ceiling: {input_usd_per_million: 20, "
                'output_usd_per_million: "99.5"}}\n'
            ),
            "no price, so the ceiling: $20.00 in and $99.50 out for a million tokens",
        ),
        (
            "prices: {overlays: [%s]}\n",
            "$0.40 in and $0.80 out for a million tokens, from ours.json",
        ),
    ],
)
def test_prices(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], more: str, told: str
) -> None:
    """Each model tells its price and who says so, or what follows without one."""
    overlay = tmp_path / "ours.json"
    overlay.write_text(
        '{"house": {"input_cost_per_token": 4e-07, "output_cost_per_token": 8e-07}}'
    )
    text = edited("  gpt-4o-mini: {", "  house: {") + more.replace("%s", str(overlay))

    assert main(["check", str(write(tmp_path, text))]) == 0
    out = capsys.readouterr().out
    assert f"if the app sets no cap\n    {told}\n  claude-*: by claude" in out


def test_a_price_of_one_tier(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the default tier has no price, no other tier's is told as if it were its."""
    overlay = tmp_path / "ours.json"
    overlay.write_text('{"house": {"output_cost_per_token_flex": 8e-07}}')
    text = edited("  gpt-4o-mini: {", "  house: {")
    path = write(tmp_path, f"{text}prices: {{overlays: [{overlay}]}}\n")

    assert main(["check", str(path)]) == 0
    assert "    priced by other tiers only, from ours.json\n" in capsys.readouterr().out
