"""What tests install for Node."""

from __future__ import annotations

import json

from tests.node_packages import FOLDER, STAMP, node_packages


def test_the_lock_file_names_no_host() -> None:
    """Each package has a version and a hash; where it comes from is for npm to know."""
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    packages = [each for name, each in lock["packages"].items() if name]

    assert len(packages) > 10
    assert all(each["version"] and each["integrity"] for each in packages)
    assert not any("resolved" in each for each in packages)


def test_they_are_installed_once() -> None:
    """Whoever asks gets a Node that has them, and a stamp says for which lock file."""
    node = node_packages()
    before = STAMP.stat().st_mtime_ns

    assert (FOLDER / "node_modules" / "openai" / "package.json").exists()
    assert node_packages() == node
    assert STAMP.stat().st_mtime_ns == before
