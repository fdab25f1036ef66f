"""`tokenweir check` loads the tokenizers' files, and says which of them can't be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.policies import SMALL
from tests.tokenizers.files import write_tokenizer
from tokenweir.cli.main import main

pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")


def check(folder: Path, tokenizer: Path, *options: str) -> int:
    """Check a policy whose first model is counted by a file."""
    path = folder / "policy.yaml"
    entry = f'{{provider: openai, tokenizer: "file:{tokenizer}"}}'
    path.write_text(SMALL.replace("{provider: openai}", entry))
    return main(["check", str(path), *options])


@pytest.fixture(autouse=True)
def credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret that the policy refers to is there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")


def test_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is fine."""
    assert check(tmp_path, write_tokenizer(tmp_path)) == 0
    assert "fine" in capsys.readouterr().out


def test_a_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is a problem, with its place; not looked at where secrets are not either."""
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")

    assert check(tmp_path, broken) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"models.gpt-4o-mini.tokenizer: {broken} is not a tokenizer")
    assert check(tmp_path, broken, "--without-secrets") == 0
