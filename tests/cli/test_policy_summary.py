"""What a policy says is told in words, without any secret."""

from __future__ import annotations

import pathlib

from tests.config.policies import CANARY, KEY_A, SMALL, edited, load
from tokenweir.cli.policy_summary import summary


def test_a_summary(tmp_path: pathlib.Path) -> None:
    """Providers, models, tenants with their limits; what is not looked up is left out."""
    policy = load(tmp_path)
    whole = list(summary(policy, credentials=True, now_ms=0))
    part = list(summary(policy, credentials=False, now_ms=0))

    assert "  openai: openai at https://api.openai.com:443, with credential" in whole
    assert "  openai: openai at https://api.openai.com:443" in part
    assert (
        whole[-3:]
        == part[-3:]
        == [
            "  acme: 1 key, all models",
            "    600 requests per minute",
            "    60,000 tokens per minute",
        ]
    )
    assert any("for a million tokens" in line for line in whole)
    assert not any("for a million tokens" in line for line in part)
    assert CANARY not in "".join(whole)
    assert KEY_A not in "".join(whole)


def test_keys_that_have_ended(tmp_path: pathlib.Path) -> None:
    """It goes by the moment that is given."""
    key = f'sha256: "{KEY_A}", expires_at: "1970-01-01T00:00:01Z"'
    policy = load(tmp_path, edited(f'sha256: "{KEY_A}"', key, SMALL))
    before, after = (
        [
            line
            for line in summary(policy, credentials=False, now_ms=now_ms)
            if "key " in line
        ]
        for now_ms in (999, 1_000)
    )

    assert before != after
