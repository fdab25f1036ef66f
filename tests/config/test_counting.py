"""What models' counting refers to outside of the policy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.config.policies import CANARY, SMALL, load, problems
from tokenweir.core.policy import Secret
from tokenweir.core.tokenize_server import TokenizeServer
from tokenweir.core.tokenizer_name import MAX_FILE_BYTES

ENTRY = "{provider: openai}"


def with_model(entry: str) -> str:
    """Return a policy whose first model is *entry*."""
    assert ENTRY in SMALL
    return SMALL.replace(ENTRY, entry)


def told(folder: Path, entry: str) -> list[str]:
    """Return what is wrong with a policy whose first model is *entry*."""
    return [line.split(": ", 1)[1] for line in problems(folder, with_model(entry))]


def file_entry(path: Path) -> str:
    """Return a model that is counted by a file."""
    return f'{{provider: openai, tokenizer: "file:{path}"}}'


def test_files(tmp_path: Path) -> None:
    """One that is there is taken; what it holds is seen when it is loaded."""
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")

    model = load(tmp_path, with_model(file_entry(path))).models["gpt-4o-mini"]
    assert model.tokenizer == f"file:{path}"
    assert model.tokenize_server is None


def test_files_that_can_not_be(tmp_path: Path) -> None:
    """A missing one, a folder, and a disk image are told apart."""
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)

    for path, why in (
        (tmp_path / "none.json", "can't be read: no such file or directory"),
        (tmp_path, "is not a regular file"),
        (large, f"is larger than {MAX_FILE_BYTES} bytes: is it a tokenizer.json?"),
    ):
        assert told(tmp_path, file_entry(path)) == [f"{why} (line 6)"]


def test_the_package_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the policy is refused, and says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")

    [line] = told(tmp_path, file_entry(path))
    assert "pip install 'tokenweir[tokenizers]'" in line


def test_servers(tmp_path: Path) -> None:
    """A credential is a bearer's token, or goes into a header of its own as it is."""
    url = "https://vllm.internal/tokenize"
    for extra, sent in (
        ("", None),
        (", credential: env:OPENAI_API_KEY", f"Bearer {CANARY}"),
        (", credential: env:OPENAI_API_KEY, header: X-Key", CANARY),
    ):
        entry = f'{{provider: openai, tokenize: {{url: "{url}"{extra}}}}}'
        policy = load(tmp_path, with_model(entry))
        server = policy.models["gpt-4o-mini"].tokenize_server

        assert server == TokenizeServer(
            url,
            "x-key" if "X-Key" in extra else "authorization",
            None if sent is None else Secret(sent),
        )
        assert CANARY not in repr(policy)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ('{url: "http://10.0.0.1/t", credential: env:NONE}', "is not set"),
        ('{url: "http://10.0.0.1/t", credential: env:OPENAI_API_KEY}', "plain text"),
    ],
)
def test_credentials_that_can_not_be_sent(
    tmp_path: Path, server: str, why: str
) -> None:
    """Those that nobody has, and those that all could read on their way."""
    lines = told(tmp_path, f"{{provider: openai, tokenize: {server}}}")

    assert why in " ".join(lines)


@pytest.mark.parametrize(
    "server",
    [
        '{url: "http://127.0.0.1:1/t", credential: env:OPENAI_API_KEY}',
        '{url: "http://10.0.0.1:1/t"}',
    ],
)
def test_plain_http(tmp_path: Path, server: str) -> None:
    """Is for this machine, or without a credential."""
    assert load(tmp_path, with_model(f"{{provider: openai, tokenize: {server}}}"))


def test_a_network_that_is_trusted(tmp_path: Path) -> None:
    """The provider's `allow_plaintext` holds for its server that counts, too."""
    server = '{url: "http://10.0.0.1/t", credential: env:OPENAI_API_KEY}'
    text = with_model(f"{{provider: openai, tokenize: {server}}}")
    text = text.replace("dialect: openai,", "dialect: openai, allow_plaintext: true,")

    assert load(tmp_path, text).models["gpt-4o-mini"].tokenize_server is not None
