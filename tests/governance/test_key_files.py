"""Signing keys are written once, and read back with an eye on what they are."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.governance.documents import PRIVATE, PUBLIC, STRANGER
from tokenweir.governance.key_files import (
    MAX_PUBLIC_KEYS,
    KeyFileError,
    fingerprint,
    private_key,
    public_keys,
    public_text,
    write_private_key,
)

OTHER = STRANGER.public_key()


def test_a_private_key_is_its_owners(tmp_path: Path) -> None:
    """Nobody else may read the file, it is never overwritten, and it is read back."""
    path = tmp_path / "key.pem"

    write_private_key(path, PRIVATE)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_private_key(path, STRANGER)
    found = private_key(f"file:{path}", {})
    assert found.private_bytes_raw() == PRIVATE.private_bytes_raw()


def test_a_private_key_may_be_in_the_environment(tmp_path: Path) -> None:
    """A CI job has it in a variable."""
    write_private_key(tmp_path / "key.pem", PRIVATE)
    env = {"KEY": (tmp_path / "key.pem").read_text()}

    assert private_key("env:KEY", env).private_bytes_raw() == bytes(range(32))


def test_openssl_makes_such_keys_too(tmp_path: Path) -> None:
    """What `openssl genpkey` writes is read."""
    path = tmp_path / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")

    assert private_key(f"file:{path}", {})


def test_paths_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a command line a path begins where its user is."""
    (tmp_path / "keys.pub").write_text(public_text(PUBLIC))
    monkeypatch.chdir(tmp_path)

    assert public_keys("file:keys.pub", {}) == (PUBLIC,)


def test_several_public_keys_count(tmp_path: Path) -> None:
    """While a signing key is changed, the old and the new one are both known."""
    text = f"# old\n{public_text(PUBLIC)} ann's\n\n  {public_text(OTHER)}\r\n"
    (tmp_path / "keys.pub").write_bytes(text.encode())

    assert public_keys(f"file:{tmp_path}/keys.pub", {}) == (PUBLIC, OTHER)
    assert public_keys("env:PUB", {"PUB": public_text(OTHER)}) == (OTHER,)
    assert fingerprint(PUBLIC) != fingerprint(OTHER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# none",
        "ed25519:",
        "ed25519:AAAA",
        "ed25519:!!!",
        public_text(PUBLIC).removeprefix("ed25519:"),
        f"{public_text(PUBLIC)}\nnonsense-CANARY",
        f"{public_text(PUBLIC)}\n" * (MAX_PUBLIC_KEYS + 1),
        "\xff",
    ],
)
def test_what_is_no_public_key(text: str) -> None:
    """One wrong line makes all of it wrong, and the text says what is wanted."""
    with pytest.raises(KeyFileError, match="ed25519:BASE64") as caught:
        public_keys("env:PUB", {"PUB": text})
    assert "CANARY" not in str(caught.value)


def test_a_private_key_is_not_for_sidecars(tmp_path: Path) -> None:
    """Who gives the private key where the public one belongs is told."""
    write_private_key(tmp_path / "key.pem", PRIVATE)

    with pytest.raises(KeyFileError, match="private key"):
        public_keys(f"file:{tmp_path}/key.pem", {})


def test_what_is_no_private_key() -> None:
    """Other kinds of keys, locked ones and nonsense are refused, and not repeated."""
    other = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"pw")
    env = {
        "EC": other.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode(),
        "LOCKED": PRIVATE.private_bytes(pem, pkcs8, locked).decode(),
        "NONSENSE": "CANARY",
    }

    for name in env:
        with pytest.raises(KeyFileError, match="keygen") as caught:
            private_key(f"env:{name}", env)
        assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("key.pem", "file:PATH or env:NAME"),
        ("file:", "file:PATH or env:NAME"),
        ("env:NOT_SET", "is not set"),
        ("file:/no/such/file", "can't be read"),
        ("file:/dev/zero", "not a regular file"),
    ],
)
def test_what_names_no_key(reference: str, text: str) -> None:
    """The text says what would."""
    with pytest.raises(KeyFileError, match=text):
        private_key(reference, {})
